#include "import/load_model.h"

#include "base/check.h"
#include "base/files.h"
#include "import/onnx/importer.h"
#include "import/pt2_importer.h"

namespace toroid::import {

std::unique_ptr<graph::Graph> load_model(const std::filesystem::path& path, std::span<const Tensor> inputs) {
  const std::string head = read_head(path, 4);
  if (head == std::string_view("PK\3\4", 4)) return import_pt2(std::make_shared<Pt2Archive>(Pt2Archive::open(path)));
  if (onnx::looks_like_onnx(head))
    return onnx::import_model(onnx::ModelFile::open(path), std::vector<onnx::Item>(inputs.begin(), inputs.end()));
  fail<UserError>("{}: this is no model that Toroid reads; supported: .pt2 archives of torch.export.save (PyTorch 2.5 and newer), ONNX",
                  path.string());
}

}  // namespace toroid::import
