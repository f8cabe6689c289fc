// Programs that go through their text and their bytes before they are loaded.
#pragma once

#include <stdexcept>

#include "exec/plan_file.h"
#include "exec/plan_text.h"
#include "exec/run/executable.h"
#include "exec/verify.h"

namespace toroid::test {

// By contents, printed, parsed, written and read. Throws where one of these forms is not what it was.
inline exec::Loadable through_text_and_bytes(const exec::Loadable& made) {
  const auto same = [](const std::string& a, const std::string& b, const char* what) {
    if (a == b) return;
    const size_t at = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
    const size_t from = at < 100 ? 0 : at - 100;
    throw std::runtime_error(std::string(what) + " differs: ..." + a.substr(from, 200) + "\nand ..." + b.substr(from, 200));
  };
  for (auto& fault : exec::faults_of(made.plan)) throw std::runtime_error(fault.rule + ": " + fault.what);
  const exec::Loadable stored = exec::by_content(made.plan, made.store);
  const std::string text = exec::to_string(stored.plan), bytes = exec::write_plan(stored.plan), store = exec::write_store(stored.store);
  same(exec::to_string(exec::parse_plan(text)), text, "the text of what was parsed");
  same(exec::write_plan(exec::parse_plan(text)), bytes, "the bytes of what was parsed");
  exec::Loadable read{exec::read_plan(bytes), exec::read_store(store)};
  same(exec::to_string(read.plan), text, "the text of what was read");
  same(exec::write_plan(read.plan), bytes, "the bytes of what was read");
  same(exec::write_store(read.store), store, "the store that was read");
  return read;
}

// Empty where both hold the same bits, wherever they are.
inline std::string bit_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return "another number of tensors";
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return "tensor " + std::to_string(i) + " is undefined in one";
    if (!a[i].defined()) continue;
    if (a[i].dtype() != b[i].dtype() || a[i].sizes() != b[i].sizes()) return "tensor " + std::to_string(i) + " has another type";
    const Tensor x = moved(a[i], Device::cpu()).contiguous(), y = moved(b[i], Device::cpu()).contiguous();
    const size_t bytes = static_cast<size_t>(x.numel()) * size_of(x.dtype());
    if (bytes > 0 && std::memcmp(x.raw_data(), y.raw_data(), bytes) != 0) return "tensor " + std::to_string(i) + " has other elements";
  }
  return "";
}

// Copies with the same strides, on a device, of tensors of the CPU.
inline std::vector<Tensor> copies(const std::vector<Tensor>& list, const Device& device = Device::cpu()) {
  std::vector<Tensor> out;
  for (auto& t : list) {
    int64_t last = 0;
    for (size_t d = 0; d < t.sizes().size(); ++d) last += std::max<int64_t>(t.sizes()[d] - 1, 0) * t.strides()[d];
    Tensor row = Tensor::empty(std::vector<int64_t>{last + 1}, t.dtype(), t.device());
    if (t.numel() > 0) std::memcpy(row.raw_data(), t.raw_data(), static_cast<size_t>(last + 1) * size_of(t.dtype()));
    out.push_back(moved(row.as_strided(t.sizes(), t.strides()), device));
  }
  return out;
}

}  // namespace toroid::test
