// Modules whose work several ranks share.
#pragma once

#include "toroid/distributed.h"
#include "toroid/nn/module.h"

namespace toroid::nn {

// Over which dimensions of a mesh what is divided; empty: not at all.
struct Parallel {
  // Products: each rank has some of the heads of attention and some of the features within an MLP, and the sums of what they give are
  // added up by an all_reduce behind each of both (M. Shoeybi and others, "Megatron-LM", 2019). All ranks are given the same inputs and get
  // the same results. Embeddings and norms are whole on each rank; of the last projection each rank has a part of the vocabulary where
  // Llama has one of its own and the ranks divide it, and all gather the logits.
  std::string tensor;
};

// Leaves of the module's parameters the part of this rank; every rank of the mesh calls it alike, before caches are allocated. load_state()
// takes whole tensors and parts, of which it keeps the part; state() has the parts. BERT, GPT-2, Llama, and modules that hold them.
// UserError where nothing in it can be divided, and where the ranks do not divide its heads or features.
void parallelize(Module& module, const distributed::Mesh& mesh, const Parallel& how);

}  // namespace toroid::nn
