// Opens a PyTorch export archive (.pt2): finds the program, parses it and resolves its weights in place.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "import/exported_program.h"
#include "import/tensor_record.h"

namespace toroid::import {

// How the archive is laid out: flat names and torch.save members (2.5 to 2.7); folders with torch.save members (2.8); folders with raw
// storages (2.9 and newer).
enum class Pt2Layout : uint8_t { Flat, Pickled, Raw };

// The tensors are views into that memory and live as long as this object. Nothing in the archive is executed.
class Pt2Archive {
 public:
  // Reads a file into memory of its own. `model` picks one of several; empty: "model", or the only one. Throws UserError for damaged files,
  // unsupported content (AOTInductor packages, custom objects, pickled tensor subclasses, sparse or fp8 tensors), or a parameter, buffer or
  // constant of the signature that is missing or does not match the type of its graph input.
  static Pt2Archive open(const std::filesystem::path& path, std::string_view model = "");
  // The same for bytes that the caller keeps alive.
  static Pt2Archive from_bytes(std::span<const std::byte> bytes, std::string source, std::string_view model = "");

  const ExportedProgram& program() const { return program_; }
  // Path or name, for messages.
  const std::string& source() const { return source_; }
  Pt2Layout layout() const { return layout_; }
  const std::vector<std::string>& models() const { return models_; }

  // Parameters and persistent buffers, sorted by name.
  std::span<const TensorRecord> weights() const { return weights_; }
  // Tensor constants and non-persistent buffers, sorted by name. Their storage ids continue those of the weights.
  std::span<const TensorRecord> constants() const { return constants_; }
  // The tensor that an input spec of kind Parameter, Buffer or TensorConstant stands for. Valid as long as this archive.
  const TensorRecord& tensor_of(const InputSpec& spec) const;
  // Example inputs stored with the program, in flat order; empty when there are none.
  std::vector<TensorRecord> sample_inputs() const;

 private:
  friend class Pt2Reader;
  std::string source_;
  FileBytes file_;
  ExportedProgram program_;
  Pt2Layout layout_ = Pt2Layout::Raw;
  std::vector<std::string> models_;
  std::vector<TensorRecord> weights_, constants_;
  std::span<const std::byte> sample_inputs_;
};

}  // namespace toroid::import
