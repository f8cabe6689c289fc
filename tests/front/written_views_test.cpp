// What shares memory with an argument, as PyTorch has it: a write to one is a write to the other, eager and compiled.
#include <random>
#include <set>

#include "errors.h"
#include "front/harness.h"
#include "graph/writes.h"
#include "ops/table.h"
#include "samples.h"

namespace toroid {
namespace {

using namespace test;
using List = std::vector<Tensor>;

// The operations that ATen has as views, and those that give their argument where there is nothing to do.
const std::set<std::string_view> kViews = {"alias",
                                           "as_strided",
                                           "atleast_1d",
                                           "atleast_2d",
                                           "atleast_3d",
                                           "adjoint",
                                           "broadcast_tensors",
                                           "broadcast_to",
                                           "chunk",
                                           "conj",
                                           "conj_physical",
                                           "contiguous",
                                           "detach",
                                           "diagonal",
                                           "dsplit",
                                           "expand",
                                           "expand_as",
                                           "flatten",
                                           "hsplit",
                                           "imag",
                                           "lift_fresh",
                                           "mH",
                                           "mT",
                                           "matrix_H",
                                           "meshgrid",
                                           "moveaxis",
                                           "movedim",
                                           "narrow",
                                           "numpy_T",
                                           "permute",
                                           "positive",
                                           "ravel",
                                           "real",
                                           "reshape",
                                           "reshape_as",
                                           "resolve_conj",
                                           "resolve_neg",
                                           "select",
                                           "slice",
                                           "split",
                                           "split_with_sizes",
                                           "squeeze",
                                           "swapaxes",
                                           "swapdims",
                                           "t",
                                           "tensor_split",
                                           "to",
                                           "transpose",
                                           "type_as",
                                           "unbind",
                                           "unflatten",
                                           "unfold",
                                           "unsqueeze",
                                           "view",
                                           "view_as",
                                           "view_as_complex",
                                           "view_as_real",
                                           "vsplit",
                                           "linalg_diagonal",
                                           "_reshape_alias"};

std::string_view stem_of(const ops::Op& op) { return std::string_view(op.name).substr(0, op.name.find('.')); }

TEST(WrittenViews, RowsOfATensViewsSaySo) {
  std::set<std::string_view> seen;
  for (auto& op : ops::table().rows()) {
    if (graph::is_mutating(op)) continue;
    const bool shares = !op.schema.params.empty() && (graph::is_alias_view(op) || op.may_alias);
    EXPECT_EQ(shares, kViews.count(stem_of(op)) > 0) << op.name;
    if (shares) seen.insert(stem_of(op));
  }
  EXPECT_EQ(seen, kViews);
}

// Some arguments of an operation, by their types alone.
CallArgs some_arguments(const ops::Op& op, const Tensor& x) {
  CallArgs args;
  for (auto& p : op.schema.params) {
    if (p.has_default) break;
    switch (p.type) {
      case ops::ParamType::Tensor:
        args.push_back(p.list ? Arg<Tensor>(List{x, x}) : Arg<Tensor>(x));
        break;
      case ops::ParamType::DType:
        args.push_back(x.dtype());
        break;
      case ops::ParamType::Bool:
        args.push_back(false);
        break;
      default:
        args.push_back(p.list ? Arg<Tensor>(std::vector<Expr>{Expr(1)}) : Arg<Tensor>(Expr(1)));
    }
  }
  return ops::complete(op, std::move(args));
}

// What is made of others may give an argument back without a word: its row must say so, or eager calls, which run it as one program, give a
// copy where the parts give a view.
TEST(WrittenViews, CompositesThatGiveAnArgumentSaySo) {
  int tried = 0;
  for (auto& op : ops::table().rows()) {
    if (!op.decompose || op.random || op.collective || op.inplace_of || graph::is_mutating(op)) continue;
    for (const Tensor& x : {counting({4}), counting({2, 2}), counting({2, 2, 2}), counting({2, 2}, DType::I64)}) {
      List results;
      try {
        const CallArgs args = some_arguments(op, x);
        results = op.decompose(ops::CallReader(op, args));
      } catch (const std::exception&) {
        continue;  // it wants others
      }
      ++tried;
      for (auto& r : results) EXPECT_TRUE(op.may_alias || !r.defined() || r.impl()->storage != x.impl()->storage) << op.name;
    }
  }
  EXPECT_GT(tried, 500);
}

struct Case {
  const char* name;
  std::function<List(const Tensor&)> call;
  bool view = true;
  std::vector<int64_t> sizes = {2, 4};
  DType dtype = DType::F32;
};

const Case kCases[] = {
    {"ravel", [](const Tensor& y) { return List{ravel(y)}; }},
    {"ravel of a transposed matrix", [](const Tensor& y) { return List{ravel(transpose(y, 0, 1))}; }, false},
    {"flatten of every other column", [](const Tensor& y) { return List{flatten(slice(y, 1, 0, 4, 2))}; }},
    {"flatten of two dimensions in a row", [](const Tensor& y) { return List{flatten(slice(y, 2, 0, 4, 2))}; }, true, {2, 3, 4}},
    {"reshape to columns",
     [](const Tensor& y) {
       return List{reshape(transpose(y, 0, 1), {2, 2, 2})};
     }},
    {"contiguous of a column", [](const Tensor& y) { return List{contiguous(select(y, 1, 0))}; }, false},
    {"view_as", [](const Tensor& y) { return List{view_as(y, zeros({8}))}; }},
    {"reshape_as",
     [](const Tensor& y) {
       return List{reshape_as(y, zeros({4, 2}))};
     }},
    {"reshape_as of a transposed matrix", [](const Tensor& y) { return List{reshape_as(transpose(y, 0, 1), zeros({8}))}; }, false},
    {"expand_as",
     [](const Tensor& y) {
       return List{expand_as(y, zeros({2, 4}))};
     }},
    {"atleast_1d", [](const Tensor& y) { return List{atleast_1d(y)}; }},
    {"atleast_2d", [](const Tensor& y) { return List{atleast_2d(select(y, 0, 1))}; }},
    {"atleast_3d", [](const Tensor& y) { return List{atleast_3d(y)}; }},
    {"type_as", [](const Tensor& y) { return List{type_as(y, zeros({1}))}; }},
    {"type_as of another dtype", [](const Tensor& y) { return List{type_as(y, zeros({1}, DType::F64))}; }, false},
    {"real", [](const Tensor& y) { return List{real(y)}; }},
    {"real of complex numbers", [](const Tensor& y) { return List{real(view_as_complex(y))}; }, true, {4, 2}},
    {"imag of complex numbers", [](const Tensor& y) { return List{imag(view_as_complex(y))}; }, true, {4, 2}},
    {"view_as_real", [](const Tensor& y) { return List{view_as_real(view_as_complex(y))}; }, true, {4, 2}},
    {"conj", [](const Tensor& y) { return List{conj(y)}; }},
    {"resolve_conj", [](const Tensor& y) { return List{resolve_conj(y)}; }},
    {"positive", [](const Tensor& y) { return List{positive(y)}; }},
    {"adjoint", [](const Tensor& y) { return List{adjoint(y)}; }},
    {"mH", [](const Tensor& y) { return List{mH(y)}; }},
    {"matrix_H", [](const Tensor& y) { return List{matrix_H(y)}; }},
    {"mT", [](const Tensor& y) { return List{mT(y)}; }},
    {"tensor_split", [](const Tensor& y) { return tensor_split(y, 3, 1); }},
    {"hsplit", [](const Tensor& y) { return hsplit(y, 2); }},
    {"vsplit", [](const Tensor& y) { return vsplit(y, 2); }},
    {"dsplit", [](const Tensor& y) { return dsplit(y, 2); }, true, {2, 1, 4}},
    {"broadcast_tensors",
     [](const Tensor& y) {
       return List{broadcast_tensors({y, zeros({1, 1})})[0]};
     }},
    {"meshgrid",
     [](const Tensor& y) {
       return List{meshgrid({y, zeros({3})}, "ij")[0]};
     },
     true,
     {4}},
    {"to of its own dtype", [](const Tensor& y) { return List{y.to(DType::F32)}; }},
    {"view of bits", [](const Tensor& y) { return List{view(y, DType::I32)}; }},
    {"view of smaller elements", [](const Tensor& y) { return List{view(y, DType::I16)}; }},
    {"view of larger elements", [](const Tensor& y) { return List{view(y, DType::F64)}; }},
};

// Writes to what the case gives, the last of it first.
void write(const Case& c, const Tensor& y) {
  const List parts = c.call(y);
  for (size_t i = parts.size(); i-- > 0;) fill_(parts[i], static_cast<double>(i + 2));
}

TEST(WrittenViews, AreViewsWherePyTorchsAre) {
  for (auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const Tensor y = Tensor::full(c.sizes, 1, c.dtype), before = clone(y);
    write(c, y);
    EXPECT_EQ(max(abs(y - before)).item() > 0, c.view) << to_string(y);
    const auto f = compile([&](const Tensor& x) {
      Tensor made = x * 1;
      write(c, made);
      return made;
    });
    EXPECT_EQ(f(before).to_vector(), y.to_vector()) << "compiled";
    const auto read = compile(
        [&](const Tensor& x) {
          Tensor made = x * 1;
          const List parts = c.call(made);
          if (sum(made).item() < 0) return made;
          for (size_t i = parts.size(); i-- > 0;) fill_(parts[i], static_cast<double>(i + 2));
          return made;
        },
        by_reference());
    EXPECT_EQ(read(before).to_vector(), y.to_vector()) << "behind a graph break";
    if (c.view) {
      const auto g = compile(
          [&](const Tensor& x) {
            write(c, x);
            return x + 0;
          },
          by_reference());
      const Tensor given = clone(before);
      g(given);
      EXPECT_EQ(given.to_vector(), y.to_vector()) << "the argument";
    }
  }
}

TEST(WrittenViews, BitsOfFloats) {
  const Tensor y = zeros({4});
  fill_(view(y, DType::I32), 0x3f800000);
  EXPECT_EQ(y.to_vector(), (std::vector<double>{1, 1, 1, 1}));
}

// One function for all sizes must be right for each of them, whichever came first.
struct OpenCase {
  const char* name;
  std::function<Tensor(const Tensor&)> part;
};
const OpenCase kOpen[] = {
    {"flatten of a slice with a step", [](const Tensor& y) { return flatten(slice(y, 1, 0, 99, 2)); }},
    {"flatten of three columns", [](const Tensor& y) { return flatten(slice(y, 1, 0, 3)); }},
    {"ravel of three columns", [](const Tensor& y) { return ravel(slice(y, 1, 0, 3)); }},
    {"contiguous of two columns", [](const Tensor& y) { return contiguous(narrow(y, 1, 0, 2)); }},
    {"reshape to as many columns as rows", [](const Tensor& y) { return reshape(slice(y, 1, 0, y.size(0)), {-1}); }},
    {"reshape of windows", [](const Tensor& y) { return reshape(unfold(y, 1, 2, 2), {-1}); }},
    {"reshape of transposed", [](const Tensor& y) { return reshape(transpose(y, 0, 1), {-1}); }},
};

TEST(WrittenViews, OpenSizesDecideByGuards) {
  const std::vector<std::vector<int64_t>> sizes = {{3, 4}, {2, 6}, {3, 5}, {3, 2}, {4, 3}, {3, 3}, {2, 7}, {5, 8}, {1, 5}, {2, 2}};
  for (auto& c : kOpen)
    for (const bool dynamic : {false, true})
      for (const bool argument : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, dynamic {}, argument {}", c.name, dynamic, argument));
        const auto write = [&](const Tensor& x) {
          Tensor y = argument ? x : x * 1;
          fill_(c.part(y), 2);
          return y + 0;
        };
        CompileConfig config = by_reference();
        if (dynamic) config.dynamic = true;
        config.options["recompile_limit"] = "64";
        const auto f = compile(write, config);
        for (auto& s : sizes) {
          const Tensor eager = zeros(s), compiled = zeros(s);
          const auto expected = write(eager).to_vector();
          EXPECT_EQ(f(compiled).to_vector(), expected) << fmt::format("{} x {}", s[0], s[1]);
          EXPECT_EQ(compiled.to_vector(), eager.to_vector()) << fmt::format("{} x {}", s[0], s[1]);
        }
      }
}

// Sizes that must stay open are refused, with the line.
TEST(WrittenViews, MarkedSizesCannotBeDecided) {
  const auto f = compile(
      [](const Tensor& x) {
        Tensor y = x * 1;
        fill_(flatten(slice(y, 1, 0, 99, 2)), 2);
        return y;
      },
      by_reference());
  Tensor x = zeros({3, 4});
  mark_dynamic(x, 1);
  const std::string error = user_error([&] { f(x); });
  for (const char* part : {"marked dynamic", "flatten.using_ints", "written_views_test.cpp:", "is written later"})
    EXPECT_NE(error.find(part), error.npos) << error;
}

TEST(WrittenViews, OpenSizesStayOpenWithoutAWrite) {
  for (auto& c : kOpen) {
    SCOPED_TRACE(c.name);
    int traces = 0;
    CompileConfig config = by_reference();
    config.dynamic = true;
    const auto f = compile(
        [&](const Tensor& x) {
          ++traces;
          return c.part(x * 1) * 2;
        },
        config);
    for (int64_t n = 5; n < 12; ++n) f(counting({4, n}));
    EXPECT_EQ(traces, 1);
  }
}

// Views, copies and writes, drawn from a seed: what is drawn depends on ranks alone, so that it is one function of all sizes.
Tensor random_program(uint64_t seed, const Tensor& x) {
  std::mt19937_64 random(seed);
  const auto pick = [&](size_t n) { return static_cast<int64_t>(random() % n); };
  Tensor y = seed % 3 ? x * 1 : x;
  std::vector<Tensor> live = {y};
  for (int step = 0; step < 8; ++step) {
    const Tensor t = live[static_cast<size_t>(pick(live.size()))];
    const int64_t rank = t.dim(), d = rank ? pick(static_cast<size_t>(rank)) : 0, other = rank ? pick(static_cast<size_t>(rank)) : 0;
    const int64_t kind = pick(17);
    if (kind < 4)
      kind % 2 ? fill_(t, step + 2) : add_(t, step + 1);
    else if (kind == 4)
      live.push_back(reshape(t, {-1}));
    else if (kind == 5)
      live.push_back(ravel(t));
    else if (kind == 6)
      live.push_back(contiguous(t));
    else if (kind == 7)
      live.push_back(unsqueeze(t, pick(static_cast<size_t>(rank) + 1)));
    else if (kind == 8)
      live.push_back(t * 2);
    else if (rank == 0)
      continue;
    else if (kind == 9)
      live.push_back(transpose(t, d, other));
    else if (kind == 10)
      live.push_back(slice(t, d, 0, 99, 2));
    else if (kind == 11)
      live.push_back(slice(t, d, 0, 2));
    else if (kind == 12)
      live.push_back(select(t, d, pick(2) ? 0 : -1));
    else if (kind == 13)
      live.push_back(flatten(t, std::min(d, other), std::max(d, other)));
    else if (kind == 14)
      live.push_back(unfold(t, d, 2, 2));
    else if (kind == 15)
      live.push_back(tensor_split(t, 2, d)[static_cast<size_t>(pick(2))]);
    else
      live.push_back(slice(t, d, 0, t.size(other)));
  }
  return cat({reshape(y, {-1}), reshape(live.back() * 1, {-1})}, 0);
}

TEST(WrittenViews, RandomProgramsOfOpenSizes) {
  const std::vector<std::vector<int64_t>> sizes = {{4, 6, 3}, {3, 4, 2}, {2, 5, 4}, {4, 2, 2}, {3, 3, 3}, {6, 4, 5}, {2, 2, 7}};
  int compared = 0, failures = 0;
  for (uint64_t seed = 1; seed < 1 + test::samples<uint64_t>(300) && failures < 5; ++seed) {
    CompileConfig config = by_reference();
    if (seed % 2) config.dynamic = true;
    config.options["recompile_limit"] = "64";
    const auto f = compile([&](const Tensor& x) { return random_program(seed, x); }, config);
    for (auto& s : sizes) {
      const Tensor eager = counting(s), compiled = counting(s);
      std::vector<double> expected, found;
      const std::string refused = user_error([&] { expected = random_program(seed, eager).to_vector(); });
      if (refused != "no error") continue;  // a window that does not fit, or elements that are not there
      const std::string error = user_error([&] { found = f(compiled).to_vector(); });
      const bool same = error == "no error" && found == expected && compiled.to_vector() == eager.to_vector();
      EXPECT_TRUE(same) << fmt::format("seed {}, {} x {} x {}: {}", seed, s[0], s[1], s[2], error);
      failures += !same;
      ++compared;
    }
  }
  EXPECT_GT(compared, test::samples(1000));
}

TEST(WrittenViews, ElementsThatOverlapAreNotWritten) {
  const std::pair<const char*, std::function<void(const Tensor&)>> writes[] = {
      {"add_", [](const Tensor& t) { add_(t, 1); }},
      {"mul_", [](const Tensor& t) { mul_(t, 2); }},
      {"copy_",
       [](const Tensor& t) {
         copy_(t, zeros({2, 3}));
       }},
      {"masked_fill_",
       [](const Tensor& t) {
         masked_fill_(t, zeros({2, 3}) > 0, 1);
       }},
      {"index_put_", [](const Tensor& t) { index_put_(t, {Tensor::of({0}, {1}, DType::I64)}, zeros({3})); }},
  };
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> tensors[] = {
      {"expanded",
       [](const Tensor& x) {
         return expand(x, {2, 3});
       }},
      {"strided",
       [](const Tensor& x) {
         return as_strided(x, {2, 3}, {0, 1});
       }},
      {"transposed",
       [](const Tensor& x) {
         return transpose(expand(reshape(x, {3, 1}), {3, 2}), 0, 1);
       }},
  };
  for (auto& [name, write] : writes)
    for (auto& [how, make] : tensors) {
      SCOPED_TRACE(fmt::format("{} {}", how, name));
      const auto run = [&write = write, &make = make](const Tensor& x) {
        const Tensor y = x * 1;
        write(make(y));
        return y;
      };
      const auto f = compile(run, by_reference());
      for (const std::string& error : {user_error([&] { run(ones({1, 3})); }), user_error([&] { f(ones({1, 3})); })}) {
        EXPECT_NE(error.find("clone() it first"), error.npos) << error;
        EXPECT_NE(error.find("written_views_test.cpp:"), error.npos) << error;
        EXPECT_NE(error.find(name), error.npos) << error;
      }
    }
  // One value for all is a write that PyTorch takes, and so is one to a dimension that is no more than there.
  const auto allowed = [](const Tensor& x) {
    Tensor y = x * 1;
    fill_(expand(y, {2, 3}), 7);
    add_(expand(y, {1, 1, 3}), 1);
    return y;
  };
  EXPECT_EQ(allowed(ones({1, 3})).to_vector(), (std::vector<double>{8, 8, 8}));
  EXPECT_EQ(compile(allowed)(ones({1, 3})).to_vector(), (std::vector<double>{8, 8, 8}));
}

TEST(WrittenViews, MasksAreBool) {
  const Tensor x = counting({2, 2}), numbers = ones({2, 2}), bytes = ones({2, 2}, DType::U8), words = ones({2, 2}, DType::I64);
  using Call = std::function<void(const Tensor& mask)>;
  const std::pair<const char*, Call> calls[] = {
      {"masked_fill", [&](const Tensor& m) { masked_fill(x, m, 0); }},
      {"masked_fill_", [&](const Tensor& m) { masked_fill_(clone(x), m, 0); }},
      {"masked_select", [&](const Tensor& m) { masked_select(x, m); }},
      {"masked_scatter", [&](const Tensor& m) { masked_scatter(x, m, x); }},
      {"where", [&](const Tensor& m) { where(m, x, 0.0); }},
      {"where", [&](const Tensor& m) { where(m, x, x); }},
  };
  for (auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    for (auto& mask : {numbers, words}) {
      const std::string error = user_error([&call = call, &mask] { call(mask); });
      EXPECT_NE(error.find(fmt::format("expected a bool mask, got {}", name_of(mask.dtype()))), error.npos) << error;
      EXPECT_NE(error.find("written_views_test.cpp:"), error.npos) << error;
    }
    call(numbers > 0);
    if (std::string_view(name) == "where") call(bytes);
  }
  EXPECT_NE(user_error([&] { index(x, {numbers}); }), "no error");
  EXPECT_EQ(where(bytes, x, 9.0).to_vector(), x.to_vector());
}

}  // namespace
}  // namespace toroid
