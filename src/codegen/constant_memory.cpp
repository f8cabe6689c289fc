#include "codegen/constant_memory.h"

namespace toroid::codegen {

int ConstantMemory::add(program::Program& program, int of, Packing how, std::vector<Tensor> from) {
  Packed made = pack(how, from);
  const int id = program.new_buffer("packed_" + program.buffers[static_cast<size_t>(of)].name, made.tensor.dtype(), made.tensor.numel(),
                                    loop::BufferKind::Constant);
  packed[id] = made.tensor;
  for (auto& job : made.jobs) jobs.push_back(std::move(job));
  origins[id] = {std::move(how), std::move(from)};
  return id;
}

}  // namespace toroid::codegen
