// Loads object code (ELF64 x86-64 relocatable files) into this process without any compiler or system linker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace toroid::device {

// A function or variable of this process that loaded code may use.
struct ExternalSymbol {
  std::string_view name;
  const void* address;
};

// Machine code in memory: instructions and constants in one read-execute mapping, variables (if any) behind them.
// Unmapped with the last reference, so whoever keeps a function pointer keeps the shared_ptr.
class LoadedCode {
 public:
  // Copies and relocates `object`, which may be dropped afterwards. Names that the code leaves undefined are looked up in
  // `externals` alone. Every offset is checked: a damaged, foreign or unsupported file throws EnvironmentError, which
  // names the file by `what`.
  static std::shared_ptr<const LoadedCode> load(std::string_view object, std::span<const ExternalSymbol> externals,
                                                std::string_view what = "kernel");
  ~LoadedCode();
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

  // Bytes mapped.
  size_t bytes() const { return mapped_; }

 private:
  friend class CodeLinker;
  LoadedCode() = default;

  std::string what_;
  uint8_t* base_ = nullptr;
  size_t mapped_ = 0;
  std::unordered_map<std::string, void*> symbols_;
};

}  // namespace toroid::device
