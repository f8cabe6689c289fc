#include "exec/specs.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace toroid::exec {
namespace {

TensorSpec spec_of(std::string name, const TensorType& type) {
  TensorSpec out{std::move(name), type.dtype, {}, to_string(TensorType{type.dtype, type.sizes, {}})};
  for (auto& s : type.sizes) {
    const auto [lo, hi] = sym::bounds(s);
    out.sizes.push_back(s.maybe_constant().value_or(-1));
    out.least.push_back(std::max<int64_t>(lo, 0)), out.greatest.push_back(hi >= sym::kInf - 1 ? TensorSpec::kUnbounded : hi);
  }
  return out;
}

std::vector<std::string_view> names_of(const std::vector<TensorSpec>& specs) {
  std::vector<std::string_view> out;
  for (auto& s : specs) out.push_back(s.name);
  return out;
}

void require_different(const std::vector<TensorSpec>& specs, const std::string& what, const char* kind) {
  auto names = names_of(specs);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  TOROID_USER_CHECK(twice == names.end(), "{} has two {}s with the name \"{}\"; run it with a list of tensors in their order", what, kind,
                    *twice);
}

}  // namespace

std::vector<TensorSpec> inputs_of(const Plan& plan) {
  std::map<int, TensorSpec> by_place;
  for (auto& in : plan.inputs) {
    if (in.user < 0) continue;
    TensorSpec& spec = by_place[in.user] = spec_of(in.name, in.type);
    spec.written = in.mutated;
  }
  std::vector<TensorSpec> out;
  for (auto& [place, spec] : by_place) out.push_back(spec);
  return out;
}

std::vector<TensorSpec> outputs_of(const Plan& plan, const std::vector<std::string>& names) {
  std::vector<TensorSpec> out;
  for (auto& o : plan.outputs) {
    if (o.mutates >= 0) continue;
    const std::string name = names.empty() ? fmt::format("output{}", out.size()) : names.at(out.size());
    out.push_back(o.buffer >= 0 ? spec_of(name, o.type) : TensorSpec{name, DType::F32, {}, "none"});
  }
  return out;
}

std::vector<Tensor> in_order(const std::vector<TensorSpec>& inputs, const std::map<std::string, Tensor>& given, const std::string& what) {
  require_different(inputs, what, "input");
  const auto names = names_of(inputs);
  for (auto& [name, t] : given)
    TOROID_USER_CHECK(std::find(names.begin(), names.end(), name) != names.end(), "{} has no input \"{}\"{}; it takes {}", what, name,
                      did_you_mean(name, names), fmt::join(names, ", "));
  std::vector<Tensor> out;
  for (auto& s : inputs) {
    const auto it = given.find(s.name);
    TOROID_USER_CHECK(it != given.end(), "the input \"{}\" ({}) is not given; {} takes {}", s.name, s.text, what, fmt::join(names, ", "));
    TOROID_USER_CHECK(it->second.defined(), "the input \"{}\" ({}) is an undefined tensor", s.name, s.text);
    out.push_back(it->second);
  }
  return out;
}

std::map<std::string, Tensor> by_name(const std::vector<TensorSpec>& outputs, const std::vector<Tensor>& results, const std::string& what) {
  require_different(outputs, what, "output");
  std::map<std::string, Tensor> out;
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].defined()) out.emplace(outputs.at(i).name, results[i]);
  return out;
}

}  // namespace toroid::exec
