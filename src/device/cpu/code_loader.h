// Loads object code (ELF64 x86-64 relocatable files) into this process without any compiler or system linker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace toroid::device {

// A function or variable of this process that loaded code may use.
struct ExternalSymbol {
  std::string_view name;
  const void* address;
};

struct ObjectCode {
  std::string_view bytes;  // of the file
  std::string_view what;   // names it in errors
};

// Machine code in memory: instructions and constants in one read-execute mapping, variables (if any) behind them.
// Unmapped with the last reference to what was loaded at once, so whoever keeps a function pointer keeps the shared_ptr.
class LoadedCode {
 public:
  // Copies and relocates `object`, which may be dropped afterwards. Names that the code leaves undefined are looked up in
  // `externals` alone. Every offset is checked: a damaged, foreign or unsupported file throws EnvironmentError, which
  // names the file by `what`.
  static std::shared_ptr<const LoadedCode> load(std::string_view object, std::span<const ExternalSymbol> externals,
                                                std::string_view what = "kernel");
  // The same of each, in one mapping: mapping kernels one by one takes longer than copying them.
  static std::vector<std::shared_ptr<const LoadedCode>> load_all(std::span<const ObjectCode> objects,
                                                                 std::span<const ExternalSymbol> externals);
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;

  // Address of a global function or variable. Throws EnvironmentError when the file does not define it.
  void* symbol(std::string_view name) const;
  // The same, null when the file does not define it.
  void* find(std::string_view name) const;
  // symbol() as a function pointer: code->function<void(float*, long)>("kernel").
  template <class Signature>
  Signature* function(std::string_view name) const {
    return reinterpret_cast<Signature*>(symbol(name));
  }

  // Bytes of the mapping that are its own.
  size_t bytes() const { return bytes_; }

 private:
  friend class CodeLinker;
  LoadedCode() = default;

  std::string what_;
  std::shared_ptr<const void> image_;
  size_t bytes_ = 0;
  std::unordered_map<std::string, void*> symbols_;
};

}  // namespace toroid::device
