// What CUDA templates are made of besides their own text.
#pragma once

#include <span>
#include <string>

#include "codegen/cuda/writer.h"
#include "codegen/expand.h"

namespace toroid::codegen {

struct CudaPoints {
  std::string statements;
  bool wide = false;  // their indices need 64 bits
  // What cuda_epilogue() could move to the front: loads fill structs named `near` and `far`, which `statements` then see.
  CudaEarly near = {}, far = {};
  std::string carried = {};  // of cuda_epilogue_around()
};
// Statements that run a body without reductions for `width` neighbours along the domain's last variable. at: C expressions of the
// variables, the last one of the first neighbour: a multiple of `width`, less than the extent; neighbours beyond the extent are left
// out. The value of Accumulate for neighbour l is element l of `accumulators`, an array of f32; that of the product with the second right
// operand is in an array of the same name with a 2. What neighbour l adds to the sums that the body's store number s of mode Sum leaves is
// assigned to terms[s][l], which nothing is where it is left out. early: loads from memory go to the front.
CudaPoints cuda_epilogue(CudaArguments& arguments, loop::Nest nest, std::span<const std::string> places, const std::string& accumulators,
                         int width, bool early = false);

// The same for rows that begin anywhere (begins_anywhere()), in templates whose lanes hold vectors side by side: all lanes of a warp run
// the statements together. They see `left`, how many neighbours from the first on are in the row, at most `width` (-width: the row is none,
// and its place that of another), and `begins` and `ends` (codegen/cuda/around_text.h). Early loads see `left`, too, and only what has some
// left runs them. `carried` stands before a row's first vector. The last one's place may be anything.
CudaPoints cuda_epilogue_around(CudaArguments& arguments, const loop::Nest& nest, std::span<const std::string> places,
                                const std::string& accumulators, int width, const CudaSideBySide& how, bool early = false);

// Why cuda_row() does not print a producer (see program::Node) whose first `outer` variables are in scope; empty when it does.
std::string cuda_row_refusal(const loop::Nest& producer, size_t outer);
// Statements that all `threads` threads of a block run together and that fill `row`, an array of f32 in shared memory at a multiple of
// 16 bytes, with what the body stores to `buffer`. at: C expressions of the domain's first variables. The template synchronizes.
CudaPoints cuda_row(CudaArguments& arguments, const loop::Nest& producer, std::span<const std::string> at, int buffer,
                    const std::string& row, int threads);

// Makes each `blocks` blocks that follow each other a cluster.
void run_in_clusters(KernelText& kernel, int blocks);

// "gemm_add_gelu": a template and what is fused into it.
std::string cuda_template_name(std::string name, const loop::Body& body);

// C expression (of type idx) of an operand's element at position `at` of its dimensions; terms of stride 0 are left out.
std::string cuda_address(CudaArguments& arguments, const Expr& offset, std::span<const Expr> strides, std::span<const std::string> at);
// C expression of the f32 value of an element (f32, f16, bf16) at a pointer.
std::string cuda_load(CudaArguments& arguments, DType t, const std::string& pointer);
// C expressions of the places along each dimension of a flat position.
std::vector<std::string> cuda_unflatten(CudaArguments& arguments, const std::string& flat, std::span<const Expr> sizes);
// C expression of a size: a constant or a name.
std::string cuda_size(CudaArguments& arguments, const Expr& e);

}  // namespace toroid::codegen
