#include "toroid/nn/parallel.h"

#include "nn/errors.h"

namespace toroid::nn {

void parallelize(Module& module, const distributed::Mesh& mesh, const Parallel& how) {
  if (how.tensor.empty() || mesh.size(how.tensor) == 1) return;
  const TensorRanks ranks{mesh.rank(how.tensor), mesh.size(how.tensor), mesh.group(how.tensor)};
  require(module.divide(ranks), "parallelize: the module has nothing that {} ranks could share; BERT, GPT-2 and Llama have", ranks.count);
}

}  // namespace toroid::nn
