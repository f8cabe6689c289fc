// Writes tensors as safetensors files.
#include "base/check.h"
#include "base/std_errors.h"
#include "import/safetensors.h"
#include "tensor/layout.h"
#include "toroid/weights.h"

namespace toroid {

void save_tensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                  const std::map<std::string, std::string>& metadata) {
  with_our_errors(fmt::format("cannot save tensors to \"{}\"", path), [&] {
    std::vector<import::SafetensorsItem> items;
    std::vector<Tensor> held;
    for (auto& [name, t] : tensors) {
      TOROID_USER_CHECK(t.defined(), "save_tensors: the tensor \"{}\" is undefined", name);
      held.push_back(made_dense(t.to(Device::cpu())));
      const Tensor& here = held.back();
      items.push_back({name, here.dtype(), here.sizes(), {here.raw_data(), static_cast<size_t>(here.numel()) * size_of(here.dtype())}});
    }
    import::write_safetensors(path, items, metadata, true);
  });
}

}  // namespace toroid
