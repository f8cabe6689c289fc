// Integers of calls that are open sizes: each row takes them, or its call is that of the number at hand, which is a guard then.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "autograd/checks.h"
#include "graph/recorder.h"
#include "ops/reference.h"

namespace toroid::autograd {
namespace {

// The types of a call's results, sizes as text; `open`: whose place is a symbol that the inputs at hand make this number.
std::string types_of(const Sample& s, const std::function<void(CallArgs&, const Expr&)>& open, int64_t number) {
  graph::Graph g;
  graph::Recorder recorder(g);
  const Expr symbol = g.new_symbol("s", 0, sym::kInf - 1, false);
  recorder.set_hint(symbol.node()->name, number);
  CallArgs args = s.args;
  open(args, symbol);
  for (auto& a : args)
    a = map_arg<Tensor>(a, [&](const Tensor& t) {
      if (!t.defined()) return t;
      return recorder.proxy(g.add_input({t.dtype(), {t.sizes().begin(), t.sizes().end()}, {}}, graph::InputKind::User, "x"));
    });
  std::string out;
  const DispatchScope scope(recorder);
  for (const Tensor& t : ops::call(s.op, std::move(args))) {
    TensorType type = recorder.value_of(t)->type;
    for (auto& e : type.sizes)
      e = sym::substitute(e,
                          [&](const sym::Node& n) { return n.name == symbol.node()->name ? std::optional(Expr(number)) : std::nullopt; });
    out += to_string(type) + " ";
  }
  return out;
}

TEST(OpenNumbers, EveryRowTakesASizeForAnInteger) {
  ops::ReferenceDispatcher reference;
  const DispatchScope samples_are_made_by(reference);
  std::vector<Sample> all = samples();
  for (auto& s : composite_samples()) all.push_back(s);
  size_t asked = 0;
  for (auto& s : all) {
    const ops::Op& op = ops::get(s.op);
    for (size_t i = 0; i < s.args.size(); ++i) {
      if (op.schema.params[i].type != ops::ParamType::Int && op.schema.params[i].type != ops::ParamType::Scalar) continue;
      const auto* one = std::get_if<Expr>(&s.args[i]);
      const auto* list = std::get_if<std::vector<Expr>>(&s.args[i]);
      for (size_t k = 0; k < (one ? 1 : list ? list->size() : 0); ++k) {
        const int64_t number = one ? one->constant() : (*list)[k].constant();
        if (number < 0) continue;
        const auto open = [&](CallArgs& args, const Expr& e) {
          (one ? std::get<Expr>(args[i]) : std::get<std::vector<Expr>>(args[i])[k]) = e;
        };
        const std::string want = types_of(
            s, [](CallArgs&, const Expr&) {}, number);
        std::string found;
        try {
          found = types_of(s, open, number);
        } catch (const Error& e) {
          found = e.what();
        }
        EXPECT_EQ(found, want) << s.op << ", " << op.schema.params[i].name << " " << k;
        ++asked;
      }
    }
  }
  EXPECT_GT(asked, 300u);
}

}  // namespace
}  // namespace toroid::autograd
