// What the kernels of all CPU templates are made of: their slots, names and holes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "codegen/cpu/kernel.h"
#include "codegen/cpu/templates/template_text.h"
#include "codegen/kernel_text.h"
#include "loop/var_map.h"
#include "program/program.h"

namespace toroid::codegen {

// Collects the buffers and parameters of one kernel, and names them in C.
class Slots {
 public:
  explicit Slots(KernelText& kernel) : kernel_(kernel) {}

  int buffer(int id) {
    auto it = std::find(kernel_.buffers.begin(), kernel_.buffers.end(), id);
    if (it == kernel_.buffers.end()) it = kernel_.buffers.insert(it, id);
    return static_cast<int>(it - kernel_.buffers.begin());
  }
  // A size: constant or parameter.
  Extent extent(const Expr& e) {
    if (auto c = e.maybe_constant()) return *c;
    return Extent::at(param(e));
  }
  std::string text(const Expr& e) { return e.is_const() ? std::to_string(e.constant()) : "params[" + std::to_string(param(e)) + "]"; }
  int param(const Expr& e) {
    for (size_t i = 0; i < kernel_.params.size(); ++i)
      if (kernel_.params[i] == e) return static_cast<int>(i);
    kernel_.params.push_back(e);
    return static_cast<int>(kernel_.params.size()) - 1;
  }

 private:
  KernelText& kernel_;
};

// C expressions of a domain's variables.
using PointNames = loop::VarMap<std::string>;

// Names in the text of a hole.
TemplateNames names_in_template(Slots& slots, const PointNames& points);

// C text of the epilogue hole. The domain's last variable runs along vectors. `aligned`: each begins at a multiple of `lanes`, so that
// positions that are divided or wrapped by multiples of `lanes` (heads, windows) differ between vectors, not within one.
Hole epilogue_of(loop::Domain domain, loop::Body body, int lanes, Slots& slots, PointNames points, PreludeNeeds& needs,
                 bool aligned = true);

// Index of dimension d in the flattened position `flat`, in C.
std::string unflatten(const std::string& flat, const std::vector<Expr>& sizes, size_t d, Slots& slots);

// In C: where the matrix of the batch that `batch` names begins.
std::string batch_offset(const program::Operand& o, const std::vector<Expr>& batch, Slots& slots);

// Names of what was fused into a template: "gemm_add_gelu", "gemm_add_of_mul_rsqrt".
std::string kernel_name(const char* name, const program::Node& node);

}  // namespace toroid::codegen
