// Kernels of sorts and selections of a CPU.
#include "codegen/cpu/parts.h"
#include "codegen/cpu/template.h"
#include "codegen/cpu/templates/sort_template.h"

namespace toroid::codegen {

using program::Operand;

namespace {

KernelText sort_kernel(const program::Sort& s, device::Isa isa) {
  KernelText kernel;
  Slots slots(kernel);
  SortConfig c;
  c.name = kernel.name = s.count == s.length ? "sort" : "topk";
  c.dtype = s.keys.dtype;
  c.descending = s.descending;
  c.length = slots.extent(s.length);
  c.count = slots.extent(s.count);
  c.selects = !(s.count == s.length);
  c.long_rows = sym::bounds(s.length).hi >= int64_t{1} << 32;
  c.contiguous = s.keys.strides.back() == Expr(1);
  // Where a row's first element is.
  auto offset = [&](const Operand& o) {
    std::string text = slots.text(o.offset);
    for (size_t d = 0; d < s.rows.size(); ++d) {
      const std::string stride = slots.text(o.strides[d]);
      text += fmt::format(" + {} * {}", unflatten("row", s.rows, d, slots), stride);
    }
    return text;
  };
  c.key_buffer = slots.buffer(s.keys.buffer);
  c.key_offset = offset(s.keys);
  c.key_stride = slots.text(s.keys.strides.back());
  if (s.values.buffer >= 0) {
    c.value_buffer = slots.buffer(s.values.buffer);
    c.value_offset = offset(s.values);
    c.value_stride = slots.text(s.values.strides.back());
  }
  if (s.positions.buffer >= 0) {
    c.position_buffer = slots.buffer(s.positions.buffer);
    c.position_offset = offset(s.positions);
    c.position_stride = slots.text(s.positions.strides.back());
  }
  c.scratch_buffer = static_cast<int>(kernel.buffers.size());
  c.room = slots.extent(sort_room(s.length, s.count));
  kernel.source = PreludeNeeds{}.text(lanes_of(isa)) + sort_text(c);
  kernel.tasks = 1;
  for (auto& r : s.rows) kernel.tasks = kernel.tasks * r;
  kernel.scratch_bytes_per_thread = sort_scratch_bytes(c, s.length, s.count);
  kernel.plan = fmt::format("{} of rows of {}, a row a task, {} elements in scratch", c.name, sym::to_string(s.length),
                            sym::to_string(sort_room(s.length, s.count)));
  return kernel;
}

}  // namespace

Form cpu_sort_form(const CpuSite& site) {
  const auto& s = site.problem<program::Sort>();
  return make_form("sort", is_complex(s.keys.dtype) ? "complex numbers have no order" : "",
                   [&s, site] { return sort_kernel(s, site.isa); });
}

}  // namespace toroid::codegen
