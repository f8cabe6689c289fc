#include "front/function_graph.h"

#include "base/check.h"
#include "front/package_names.h"
#include "front/settings.h"
#include "tensor/layout.h"
#include "trace/tracer.h"

namespace toroid::front {
namespace {

// A stand-in of its own for each example, also where two are one tensor: callers may give different ones.
Tensor apart(std::span<const Tensor> examples, size_t i) {
  const Tensor& t = examples[i];
  const bool seen =
      std::any_of(examples.begin(), examples.begin() + static_cast<std::ptrdiff_t>(i), [&](auto& o) { return o.impl() == t.impl(); });
  return seen ? seen_as(t, t.sizes(), t.strides()) : t;
}

}  // namespace

std::unique_ptr<graph::Graph> graph_of_function(const std::string& name, std::span<const Tensor> examples, const ListFunction& fn,
                                                const std::vector<std::string>& names_in, const std::vector<std::string>& names_out,
                                                std::vector<std::string>& output_names) {
  trace::Tracer tracer(name, nullptr);
  const std::string whose = name == "main" ? "" : " of " + name;
  std::vector<Tensor> results;
  const auto input_names = names_for(examples.size(), names_in, "input");
  {
    std::vector<Tensor> stand_ins;
    for (size_t i = 0; i < examples.size(); ++i) {
      const std::string place = fmt::format("input {}{}{}", i, names_in.empty() ? "" : " (" + input_names[i] + ")", whose);
      TOROID_USER_CHECK(examples[i].defined(), "the example of {} is an undefined tensor", place);
      const auto marks = marks_of(examples[i]);
      std::vector<trace::SizePolicy> policy(examples[i].sizes().size());
      for (size_t d = 0; d < std::min(policy.size(), marks.size()); ++d)
        if (marks[d].kind == Mark::kDynamic) policy[d] = {true, true, marks[d].min, marks[d].max};
      stand_ins.push_back(tracer.argument(apart(examples, i), place, policy));
    }
    trace::Tracer::Scope scope(&tracer);
    results = fn(stand_ins);
  }
  output_names = names_for(results.size(), names_out, "output");
  trace::Segment s = tracer.finish(std::move(results));
  trace::settle_guards(*s.graph, s.origins, s.guard_places);
  size_t user = 0;
  for (auto& in : s.graph->inputs) {
    if (in.kind != graph::InputKind::User) {
      in.name = in.value->name;  // captured tensors have names of their own, by which others can take their places
      continue;
    }
    if (user >= s.arguments)
      in.kind = graph::InputKind::Buffer, in.data = s.inputs[user];
    else
      in.name = input_names[user];
    ++user;
  }
  return std::move(s.graph);
}

}  // namespace toroid::front
