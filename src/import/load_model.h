// Opens model files of all formats that Toroid reads.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "graph/graph.h"

namespace toroid::import {

// The program in a .pt2 archive or an ONNX file, told apart by their contents. `inputs`, when given, are contents of the user inputs for
// programs whose sizes follow from contents (see import/onnx/importer.h). UserError that lists the supported formats for anything else.
std::unique_ptr<graph::Graph> load_model(const std::filesystem::path& path, std::span<const Tensor> inputs = {});

}  // namespace toroid::import
