// Views and members of Tensor in functions that are recorded: their gradients are those of backward() of eager calls, whichever way they
// are asked for, and within regions of control flow.
#include <set>

#include "errors.h"
#include "front/harness.h"
#include "graph/writes.h"
#include "ops/table.h"
#include "toroid/autograd.h"
#include "toroid/checkpoint.h"
#include "toroid/control_flow.h"
#include "toroid/custom_op.h"
#include "toroid/grad.h"

namespace toroid::view_gradients {
namespace {

using namespace test;
using List = std::vector<Tensor>;
using Sizes = std::vector<int64_t>;
using Exprs = std::vector<Expr>;
using ops::call1;

struct Case {
  const char* name;  // the row's, up to its dot, and what else there is to say behind a blank
  std::function<List(const Tensor&)> call;
  bool writes = true;  // the results may be written
  Sizes sizes = {2, 4};
};

List one(Tensor t) { return {std::move(t)}; }
Tensor numbers(const Tensor& y) { return view_as_complex(reshape(y, {-1, 2})); }

const Case kCases[] = {
    {"alias", [](const Tensor& y) { return one(alias(y)); }},
    {"as_strided",
     [](const Tensor& y) {
       return one(as_strided(y, {2, 2}, {1, 2}, 1));
     },
     false},
    {"atleast_1d", [](const Tensor& y) { return one(atleast_1d(y)); }},
    {"atleast_2d", [](const Tensor& y) { return one(atleast_2d(y[0])); }},
    {"atleast_3d", [](const Tensor& y) { return one(atleast_3d(y)); }},
    {"adjoint", [](const Tensor& y) { return one(adjoint(y)); }},
    {"broadcast_tensors",
     [](const Tensor& y) {
       return broadcast_tensors({y[0], y});
     },
     false},
    {"broadcast_to",
     [](const Tensor& y) {
       return one(broadcast_to(y[0], {3, 4}));
     },
     false},
    {"chunk", [](const Tensor& y) { return chunk(y, 2, 1); }},
    {"conj", [](const Tensor& y) { return one(conj(y)); }},
    {"conj of complex numbers", [](const Tensor& y) { return one(conj(numbers(y))); }, false},
    {"conj_physical", [](const Tensor& y) { return one(conj_physical(y)); }},
    {"contiguous", [](const Tensor& y) { return one(contiguous(y)); }},
    {"contiguous of a transposed matrix", [](const Tensor& y) { return one(contiguous(t(y))); }},
    {"detach", [](const Tensor& y) { return List{detach(y) * y}; }, false},
    {"diagonal", [](const Tensor& y) { return one(diagonal(y)); }},
    {"dsplit", [](const Tensor& y) { return dsplit(y, 2); }, true, {2, 1, 4}},
    {"expand",
     [](const Tensor& y) {
       return one(expand(y, {2, 2, 4}));
     },
     false},
    {"expand_as", [](const Tensor& y) { return one(expand_as(y[0], y)); }, false},
    {"flatten", [](const Tensor& y) { return one(flatten(y)); }},
    {"hsplit", [](const Tensor& y) { return hsplit(y, 2); }},
    {"imag", [](const Tensor& y) { return one(imag(numbers(y))); }, false},
    {"lift_fresh", [](const Tensor& y) { return one(lift_fresh(y)); }},
    {"linalg_diagonal", [](const Tensor& y) { return one(linalg_diagonal(y)); }},
    {"mH", [](const Tensor& y) { return one(mH(y)); }},
    {"mT", [](const Tensor& y) { return one(mT(y)); }},
    {"matrix_H", [](const Tensor& y) { return one(matrix_H(y)); }},
    {"meshgrid",
     [](const Tensor& y) {
       return meshgrid({y[0], y[1]}, "ij");
     },
     false},
    {"meshgrid without a word",
     [](const Tensor& y) {
       return meshgrid({y[0], y[1]});
     },
     false},
    {"moveaxis", [](const Tensor& y) { return one(moveaxis(y, 0, 1)); }},
    {"movedim", [](const Tensor& y) { return one(movedim(y, 0, 1)); }},
    {"narrow", [](const Tensor& y) { return one(narrow(y, 1, 1, 2)); }},
    {"numpy_T", [](const Tensor& y) { return one(numpy_T(y)); }},
    {"permute",
     [](const Tensor& y) {
       return one(permute(y, {1, 0}));
     }},
    {"positive", [](const Tensor& y) { return one(positive(y)); }},
    {"ravel", [](const Tensor& y) { return one(ravel(y)); }},
    {"ravel of a transposed matrix", [](const Tensor& y) { return one(ravel(t(y))); }},
    {"real", [](const Tensor& y) { return one(real(y)); }},
    {"real of complex numbers", [](const Tensor& y) { return one(real(numbers(y))); }, false},
    {"reshape",
     [](const Tensor& y) {
       return one(reshape(y, {4, 2}));
     }},
    {"reshape_as", [](const Tensor& y) { return one(reshape_as(y, t(y))); }},
    {"resolve_conj", [](const Tensor& y) { return one(resolve_conj(y)); }},
    {"resolve_neg", [](const Tensor& y) { return one(resolve_neg(y)); }},
    {"select", [](const Tensor& y) { return one(select(y, 1, 2)); }},
    {"slice", [](const Tensor& y) { return one(slice(y, 1, 0, 4, 2)); }},
    {"split", [](const Tensor& y) { return split(y, 3, 1); }},
    {"split_with_sizes",
     [](const Tensor& y) {
       return split_with_sizes(y, {1, 3}, 1);
     }},
    {"squeeze", [](const Tensor& y) { return one(squeeze(y)); }, true, {2, 1, 4}},
    {"swapaxes", [](const Tensor& y) { return one(swapaxes(y, 0, 1)); }},
    {"swapdims", [](const Tensor& y) { return one(swapdims(y, 0, 1)); }},
    {"t", [](const Tensor& y) { return one(t(y)); }},
    {"tensor_split", [](const Tensor& y) { return tensor_split(y, 3, 1); }},
    {"tensor_split at places",
     [](const Tensor& y) {
       return tensor_split(y, std::vector<SymInt>{1, 3}, 1);
     }},
    {"to",
     [](const Tensor& y) {
       return one(call1("to.dtype", {y, DType::F32}));
     }},
    {"to another dtype",
     [](const Tensor& y) {
       return one(call1("to.dtype", {y, DType::F64}));
     }},
    {"transpose", [](const Tensor& y) { return one(transpose(y, 0, 1)); }},
    {"type_as", [](const Tensor& y) { return one(type_as(y, y)); }},
    {"unbind", [](const Tensor& y) { return unbind(y, 1); }},
    {"unflatten",
     [](const Tensor& y) {
       return one(unflatten(y, 1, {2, 2}));
     }},
    {"unfold", [](const Tensor& y) { return one(unfold(y, 1, 2, 2)); }},
    {"unsqueeze", [](const Tensor& y) { return one(unsqueeze(y, 1)); }},
    {"view",
     [](const Tensor& y) {
       return one(view(y, {4, 2}));
     }},
    {"view_as", [](const Tensor& y) { return one(view_as(y, zeros({8}))); }},
    {"view_as_complex", [](const Tensor& y) { return one(view_as_complex(y)); }, false, {4, 2}},
    {"view_as_real", [](const Tensor& y) { return one(view_as_real(numbers(y))); }, false},
    {"vsplit", [](const Tensor& y) { return vsplit(y, 2); }},
    {"_reshape_alias",
     [](const Tensor& y) {
       return one(call1("_reshape_alias", {y, Exprs{4, 2}, Exprs{2, 1}}));
     }},
};

// What Tensor has as members.
const Case kMembers[] = {
    {"contiguous()", [](const Tensor& y) { return one(y.contiguous()); }},
    {"contiguous() of a transposed matrix",
     [](const Tensor& y) {
       return List{t(y).contiguous(), t(y)};
     }},
    {"contiguous() of expanded rows",
     [](const Tensor& y) {
       return one(expand(y, {2, 2, 4}).contiguous());
     }},
    {"as_strided()",
     [](const Tensor& y) {
       return List{y.as_strided(Sizes{2, 2}, Sizes{1, 2}, 1), y};
     },
     false},
    {"as_strided() of a row",
     [](const Tensor& y) {
       return List{y[1].as_strided(Sizes{2}, Sizes{2}), y};
     },
     false},
    {"as_strided() of other sizes",
     [](const Tensor& y) {
       return one(reshape(y, {4, 2}).as_strided(Sizes{3, 2}, Sizes{2, 1}, 1));
     }},
    {"as_strided() of a copy", [](const Tensor& y) { return one(t(y).contiguous().as_strided(Sizes{3}, Sizes{2})); }},
    {"[]",
     [](const Tensor& y) {
       return List{y[0], y[-1]};
     }},
    {"to(dtype)",
     [](const Tensor& y) {
       return List{y.to(DType::F64), y.to(DType::F32)};
     }},
    {"to(device)", [](const Tensor& y) { return one(y.to(Device::cpu())); }},
    {"detach()", [](const Tensor& y) { return List{y.detach() * y}; }, false},
};

// Not the sum alone: each element has a gradient of its own.
Tensor total(const List& parts) {
  Tensor out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor r = (is_complex(parts[i].dtype()) ? view_as_real(parts[i]) : parts[i]).to(DType::F32);
    const Tensor part = sum(r * r) * static_cast<double>(i + 1);
    out = out.defined() ? out + part : part;
  }
  return out;
}

// What a case is made of: its argument, something computed, or something that is written through its results.
using Loss = std::function<Tensor(const Tensor&)>;
std::vector<std::pair<std::string, Loss>> losses_of(const Case& c) {
  std::vector<std::pair<std::string, Loss>> out = {
      {"of the argument", [&c](const Tensor& x) { return total(c.call(x)); }},
      {"of a product", [&c](const Tensor& x) { return total(c.call(x * x)) + sum(x); }},
  };
  if (c.writes)
    out.push_back({"written", [&c](const Tensor& x) {
                     const Tensor y = x * 2;
                     const List parts = c.call(y);
                     for (auto& p : parts)
                       if (is_float(p.dtype()) || is_complex(p.dtype())) mul_(p, 3);
                     return total({y}) + total(parts);
                   }});
  return out;
}

Tensor leaf(const Sizes& sizes) { return counting(sizes) + 1; }

// The gradient by backward() of what `fn` gives.
std::vector<double> backward_of(const Loss& fn, const Sizes& sizes) {
  const Tensor x = leaf(sizes).requires_grad_();
  fn(x).backward();
  return x.grad().defined() ? x.grad().to_vector() : std::vector<double>(static_cast<size_t>(x.numel()), 0);
}

Tensor gradient_of(const Loss& fn, const Tensor& x) {
  return value_and_gradients([&] { return fn(x); }, {x}).second[0];
}

std::vector<std::pair<const char*, std::function<std::vector<double>(const Loss&, const Sizes&)>>> ways() {
  const auto compiled = [](bool dynamic) {
    CompileConfig config = by_reference();
    if (dynamic) config.dynamic = true;
    return config;
  };
  return {
      {"value_and_gradients", [](const Loss& fn, const Sizes& s) { return gradient_of(fn, leaf(s)).to_vector(); }},
      {"grad", [](const Loss& fn, const Sizes& s) { return grad(fn)(leaf(s)).to_vector(); }},
      {"vjp",
       [](const Loss& fn, const Sizes& s) {
         const Tensor x = leaf(s);
         return vjp([&] { return List{fn(x)}; }, List{x}, List{ones({})}).second[0].to_vector();
       }},
      {"compiled value_and_gradients",
       [=](const Loss& fn, const Sizes& s) {
         return compile([&](const Tensor& x) { return gradient_of(fn, x); }, compiled(false))(leaf(s)).to_vector();
       }},
      {"compiled value_and_gradients, open sizes",
       [=](const Loss& fn, const Sizes& s) {
         return compile([&](const Tensor& x) { return gradient_of(fn, x); }, compiled(true))(leaf(s)).to_vector();
       }},
      {"compiled backward()", [=](const Loss& fn, const Sizes& s) { return backward_of(compile(fn, compiled(false)), s); }},
      {"compiled backward(), open sizes", [=](const Loss& fn, const Sizes& s) { return backward_of(compile(fn, compiled(true)), s); }},
      {"a captured tensor, compiled",
       [=](const Loss& fn, const Sizes& s) {
         const Tensor x = leaf(s);
         return compile([&] { return gradient_of(fn, x); }, compiled(false))().to_vector();
       }},
      {"a captured tensor, compiled backward()",
       [=](const Loss& fn, const Sizes& s) {
         const Tensor x = leaf(s).requires_grad_();
         compile([&] { return fn(x); }, compiled(false))().backward();
         return x.grad().to_vector();
       }},
  };
}

// The loss, computed by a region, or by a part that is computed again.
std::vector<std::pair<const char*, std::function<Loss(Loss)>>> regions() {
  return {
      {"cond",
       [](Loss fn) {
         return [fn](const Tensor& x) {
           return cond(
               sum(x) > 0, [&](const Tensor& y) { return fn(y); }, [](const Tensor& y) { return sum(y); }, x);
         };
       }},
      {"cond of a captured tensor",
       [](Loss fn) {
         return [fn](const Tensor& x) {
           return cond(
               sum(x) > 0, [&] { return fn(x); }, [&] { return sum(x); });
         };
       }},
      {"scan",
       [](Loss fn) {
         return [fn](const Tensor& x) {
           const auto step = [&](const Tensor& carry, const Tensor& y) {
             const Tensor v = fn(y);
             return std::pair(carry + v, v * 2);
           };
           const auto [last, all] = scan(step, zeros({}), stack({x, x * 2}));
           return last + sum(all);
         };
       }},
      {"map",
       [](Loss fn) { return [fn](const Tensor& x) {
                       return sum(map([&](const Tensor& y) { return fn(y); }, stack({x, x * 2})));
                     }; }},
  };
}

void expect_gradients(const std::string& name, const Loss& loss, const Sizes& sizes) {
  const std::vector<double> want = backward_of(loss, sizes);
  for (auto& [way, gradient] : ways()) {
    std::vector<double> got;
    const std::string error = user_error([&, &gradient = gradient] { got = gradient(loss, sizes); });
    EXPECT_EQ(error, "no error") << name << ", " << way;
    EXPECT_EQ(got, want) << name << ", " << way;
  }
}

std::string_view stem_of(std::string_view name) { return name.substr(0, name.find_first_of(". ")); }

TEST(ViewGradients, EveryRowOfAViewHasACase) {
  std::set<std::string_view> rows, cases;
  for (auto& op : ops::table().rows())
    if (!graph::is_mutating(op) && !op.schema.params.empty() && (graph::is_alias_view(op) || op.may_alias)) rows.insert(stem_of(op.name));
  for (auto& c : kCases) cases.insert(stem_of(c.name));
  EXPECT_EQ(cases, rows);
}

TEST(ViewGradients, AreThoseOfBackwardEachWay) {
  for (auto& c : kCases)
    for (auto& [how, loss] : losses_of(c)) expect_gradients(fmt::format("{} {}", c.name, how), loss, c.sizes);
}

TEST(ViewGradients, OfMembersAreThoseOfBackwardEachWay) {
  for (auto& c : kMembers)
    for (auto& [how, loss] : losses_of(c)) expect_gradients(fmt::format("{} {}", c.name, how), loss, c.sizes);
}

// Of sums of squares: the sum of gradient times argument is twice the loss, whose gradient is known.
TEST(ViewGradients, HaveGradients) {
  for (const auto cases : {std::span<const Case>(kCases), std::span<const Case>(kMembers)})
    for (auto& c : cases) {
      if (std::string_view(c.name).starts_with("detach")) continue;
      const Loss loss = [&](const Tensor& x) { return total(c.call(x)); };
      const Loss twice = [&](const Tensor& x) { return sum(gradient_of(loss, x) * x); };
      std::vector<double> want = backward_of(loss, c.sizes), eager, compiled;
      for (double& g : want) g *= 2;
      EXPECT_EQ(user_error([&] { eager = gradient_of(twice, leaf(c.sizes)).to_vector(); }), "no error") << c.name;
      EXPECT_EQ(eager, want) << c.name;
      const auto f = compile([&](const Tensor& x) { return gradient_of(twice, x); }, by_reference());
      EXPECT_EQ(user_error([&] { compiled = f(leaf(c.sizes)).to_vector(); }), "no error") << c.name;
      EXPECT_EQ(compiled, want) << c.name;
    }
}

TEST(ViewGradients, WithinRegions) {
  for (const auto cases : {std::span<const Case>(kCases), std::span<const Case>(kMembers)})
    for (auto& c : cases)
      for (auto& [how, loss] : losses_of(c))
        for (auto& [region, within] : regions()) {
          const Loss whole = within(loss);
          const std::string name = fmt::format("{} {} in {}", c.name, how, region);
          const std::vector<double> want = backward_of(whole, c.sizes);
          std::vector<double> eager, compiled, later;
          EXPECT_EQ(user_error([&] { eager = gradient_of(whole, leaf(c.sizes)).to_vector(); }), "no error") << name;
          EXPECT_EQ(eager, want) << name;
          const auto f = compile([&](const Tensor& x) { return gradient_of(whole, x); }, by_reference());
          EXPECT_EQ(user_error([&] { compiled = f(leaf(c.sizes)).to_vector(); }), "no error") << name;
          EXPECT_EQ(compiled, want) << name;
          EXPECT_EQ(user_error([&] { later = backward_of(compile(whole, by_reference()), c.sizes); }), "no error") << name;
          EXPECT_EQ(later, want) << name;
        }
}

// A loop has no gradient, and is recorded in compiled functions alone.
TEST(ViewGradients, LoopsGiveWhatTheyGiveEagerly) {
  for (const auto cases : {std::span<const Case>(kCases), std::span<const Case>(kMembers)})
    for (auto& c : cases)
      for (auto& [how, loss] : losses_of(c)) {
        const auto loop = [&, &loss = loss](const Tensor& x) {
          return std::get<2>(
              while_loop([](const Tensor& i, const Tensor&, const Tensor&) { return i < 2; },
                         [&](const Tensor& i, const Tensor& r, const Tensor& all) { return std::tuple(i + 1, r + 1, all + loss(r)); },
                         std::tuple(zeros({}, DType::I64), x, zeros({}))));
        };
        std::vector<double> got, want;
        EXPECT_EQ(user_error([&] { want = loop(leaf(c.sizes)).to_vector(); }), "no error") << c.name << " " << how;
        EXPECT_EQ(user_error([&] { got = compile(loop, by_reference())(leaf(c.sizes)).to_vector(); }), "no error") << c.name << " " << how;
        EXPECT_EQ(got, want) << c.name << " " << how;
      }
}

TEST(ViewGradients, MembersBreakNoGraph) {
  for (auto& c : kMembers) {
    const auto f = compile([&](const Tensor& x) { return total(c.call(x * 2)); }, by_reference({.fullgraph = true}));
    std::vector<double> got;
    EXPECT_EQ(user_error([&] { got = f(leaf(c.sizes)).to_vector(); }), "no error") << c.name;
    EXPECT_EQ(got, total(c.call(leaf(c.sizes) * 2)).to_vector()) << c.name;
  }
}

// A copy of a captured tensor is computed at each call: it is no constant of the program.
TEST(ViewGradients, MembersOfCapturedTensorsAreRead) {
  Tensor w = leaf({2, 4});
  const auto f = compile([&](const Tensor& x) { return t(x) * t(w).contiguous() + w.as_strided(Sizes{1}, Sizes{1}, 7); }, by_reference());
  const auto eager = [&] { return (t(w) + w[1][3]).to_vector(); };
  EXPECT_EQ(f(ones({2, 4})).to_vector(), eager());
  fill_(w, 5);
  EXPECT_EQ(f(ones({2, 4})).to_vector(), eager());
  const Tensor turned = t(leaf({4, 2}));  // not dense by itself
  const auto g = compile([&](const Tensor& x) { return x * turned.contiguous(); }, by_reference());
  EXPECT_EQ(g(ones({2, 4})).to_vector(), turned.to_vector());
  fill_(turned, 3);
  EXPECT_EQ(g(ones({2, 4})).to_vector(), turned.to_vector());
}

TEST(ViewGradients, StridesOfWhatLiesElsewhereAreRefused) {
  const auto loss = [](const Tensor& x) { return sum(t(x).as_strided(Sizes{3}, Sizes{2})); };
  for (const std::string& error : {user_error([&] {
                                     gradient_of(loss, leaf({2, 4}));
                                   }),
                                   user_error([&] {
                                     compile([&](const Tensor& x) { return gradient_of(loss, x); })(leaf({2, 4}));
                                   }),
                                   user_error([&] {
                                     backward_of(loss, {2, 4});
                                   }),
                                   user_error([&] {
                                     backward_of(compile(loss, by_reference()), {2, 4});
                                   })}) {
    EXPECT_TRUE(contains(error, "contiguous() of it")) << error;
    EXPECT_TRUE(contains(error, "view_gradients_test.cpp:")) << error;
  }
  // Where nobody asks for gradients the memory tells.
  EXPECT_EQ(compile(loss, by_reference())(leaf({2, 4})).item(), loss(leaf({2, 4})).item());
}

// The tape refuses them, as they see memory of another dtype: what is written is compared with a product.
TEST(ViewGradients, WritesThroughComplexNumbers) {
  const auto by = [](std::initializer_list<double> factors) {
    return [f = std::vector<double>(factors)](const Tensor& x) { return total({x * 2 * Tensor::of(f, Sizes{2})}); };
  };
  struct Write {
    const char* name;
    std::function<void(const Tensor& y)> write;
    Loss product;
  };
  for (const Write& w : {Write{"imag", [](const Tensor& y) { mul_(imag(view_as_complex(y)), 3); }, by({1, 3})},
                         Write{"real", [](const Tensor& y) { mul_(real(view_as_complex(y)), 3); }, by({3, 1})},
                         Write{"view_as_complex", [](const Tensor& y) { mul_(view_as_complex(y), 3); }, by({3, 3})},
                         Write{"view_as_real", [](const Tensor& y) { mul_(view_as_real(view_as_complex(y)), 3); }, by({3, 3})}}) {
    const Loss written = [&](const Tensor& x) {
      const Tensor y = x * 2;
      w.write(y);
      return total({y});
    };
    const std::vector<double> want = backward_of(w.product, {4, 2});
    for (auto& [way, gradient] : ways()) {
      if (contains(way, "backward()")) continue;
      EXPECT_EQ(gradient(written, {4, 2}), want) << w.name << ", " << way;
    }
  }
}

// A tensor that a variable outside still holds is told as before.
TEST(ViewGradients, WhatIsKeptIsRefused) {
  Tensor kept;
  const std::string error = user_error([&] {
    gradient_of(
        [&](const Tensor& x) {
          kept = ravel(x * 2);
          return sum(kept);
        },
        leaf({2, 4}));
  });
  EXPECT_TRUE(contains(error, "keeps the result of reshape")) << error;
}

// Heads apart and together again, as attention is usually written.
TEST(ViewGradients, OfAttentionWithContiguousHeads) {
  const Tensor x = counting({2, 3, 4}) / 24, weight = (counting({12, 4}) - 20) / 48;
  const auto loss = [&](const Tensor& w) {
    const List qkv = split(matmul(x, t(w)), 4, 2);
    const auto heads = [](const Tensor& y) { return transpose(view(y, {2, 3, 2, 2}), 1, 2).contiguous(); };
    const Tensor y = scaled_dot_product_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]));
    return sum(square(transpose(y, 1, 2).contiguous()));
  };
  const auto of = [&](const Loss& fn) {
    const Tensor w = clone(weight).requires_grad_();
    fn(w).backward();
    return w.grad();
  };
  const Tensor want = of(loss);
  EXPECT_GT(max(abs(want)).item(), 0.01);
  const auto inside = [&](const Tensor& w) { return gradient_of(loss, w); };
  for (const Tensor& got : {of(compile(loss)), inside(weight), compile(inside)(weight)})
    EXPECT_LT(max(abs(got - want)).item(), 1e-5) << to_string(got);
}

TEST(ViewGradients, MembersInCustomOperations) {
  static const auto op =
      custom_op("test_members::turned", [](const Tensor& x) { return t(x).contiguous() + x.as_strided(Sizes{1}, Sizes{1}); });
  const auto loss = [](const Tensor& x) { return total({op(x)}); };
  expect_gradients("a custom operation", loss, {2, 4});
}

}  // namespace
}  // namespace toroid::view_gradients
