// Opens model files of all formats that Toroid reads.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "graph/graph.h"

namespace toroid::import {

// Files, each with its stamp from before it was read.
using FilesRead = std::vector<std::pair<std::filesystem::path, FileStamp>>;

// The program in a .pt2 archive or an ONNX file, told apart by their contents. `inputs`, when given, are contents of the user inputs for
// programs whose sizes follow from contents (see import/onnx/importer.h), and their sizes are the usual ones of those that stay open
// (graph/bind.h: take_usual_sizes, with its UserErrors). UserError that lists the supported formats for anything else.
// others: gets the files that were read besides. outputs: gets the file's names of what the program returns, all different and one for
// each; none where the file does not say, or not of each.
std::unique_ptr<graph::Graph> load_model(const std::filesystem::path& path, std::span<const Tensor> inputs = {},
                                         FilesRead* others = nullptr, std::vector<std::string>* outputs = nullptr);

// Names of the program's user inputs, in order. UserError as load_model.
std::vector<std::string> input_names(const std::filesystem::path& path);

// What tells one model file from another, without its weights being read.
struct ModelIdentity {
  std::string program;  // of a .pt2: hash of the graph, and of the names, dtypes and sizes of the weights
  std::string weights;  // of a .pt2: hash of what the archive states of its members (sizes, checksums), and the file's time; of others what
                        // the system knows the file by
  FileStamp stamp;
};
// UserError for what is no model file, as load_model.
ModelIdentity identity_of(const std::filesystem::path& path);

}  // namespace toroid::import
