#include "front/segment.h"

#include "base/check.h"
#include "front/eager.h"
#include "front/guards.h"
#include "ops/autocast.h"

namespace toroid::front {

std::vector<Tensor> outputs_without_nodes(const trace::Segment& s) {
  std::vector<Tensor> out;
  for (auto& o : s.graph->outputs) {
    Tensor t;
    for (size_t i = 0; i < s.graph->inputs.size(); ++i)
      if (o.value && s.graph->inputs[i].value == o.value)
        t = s.graph->inputs[i].kind == graph::InputKind::User ? s.inputs[i] : s.graph->inputs[i].data;
    out.push_back(std::move(t));
  }
  return out;
}

std::string text_of(const trace::Segment& s) {
  std::string text = graph::to_string(*s.graph) + to_string(s.device);
  for (auto& d : s.output_devices) text += d.is_cuda() ? 'g' : 'c';
  for (auto& t : s.inputs) {
    text += t.requires_grad() ? 'g' : '-';
    if (!t.is_contiguous())
      for (int64_t stride : t.strides()) text += fmt::format("{},", stride);
  }
  return text;
}

bool writes_shared_memory(const trace::Segment& s) {
  bool overlap = false;
  for (size_t i = 0; s.writes_inputs && i < s.inputs.size(); ++i)
    for (size_t k = i + 1; k < s.inputs.size(); ++k) overlap = overlap || share_memory(s.inputs[i], s.inputs[k]);
  return overlap;
}

std::string end_of(const trace::Segment& s) { return s.break_reason.empty() ? "the end" : s.break_reason; }

std::vector<Tensor> run_one_by_one(const trace::Segment& s, const std::string& name) {
  trace::Tracer::Scope none(nullptr);
  DispatchScope eager(EagerDispatcher::instance());
  DeviceScope device(s.device);
  ops::NoAutocast recorded;
  for (auto& t : s.inputs)
    TOROID_USER_CHECK(t.device() == s.device,
                      "{}: of tensors that share memory and are written, one is on {} while the function runs on {}", name,
                      to_string(t.device()), to_string(s.device));
  auto results = run_one_by_one(*s.graph, s.inputs);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].defined()) results[i] = moved(results[i], s.output_devices[i]);
  return results;
}

}  // namespace toroid::front
