// The passes on graphs. Each returns the graph after it, or nullptr when it changes nothing; names, kinds and order of the inputs,
// symbols, guards and outputs stay (new inputs come last).
#pragma once

#include "graph/graph.h"

namespace toroid::graph {

// Turns in-place operations, also through views, into functional ones; what they did to inputs becomes outputs that mutate those.
// UserError for writes that have no meaning, such as those to an expanded tensor.
std::unique_ptr<Graph> functionalize(const Graph& g);

// Replaces composite operations by what they are made of, all the way down.
std::unique_ptr<Graph> decompose(const Graph& g);
// The same, but leaves those whole that have a template (attention) and those that write into an input's memory (graph/inplace.h).
std::unique_ptr<Graph> decompose_keeping_templates(const Graph& g);
// The same, but also leaves those gradients of attention whole that templates of halves may compute.
std::unique_ptr<Graph> decompose_keeping_gradients(const Graph& g);

// Products and convolutions of dequantized numbers with known weights become sums of whole numbers of 8 bits, and what moves such numbers
// moves them as they are: for targets that have kernels for that. Where such a sum, after whatever happens to it point by point, is
// quantized, that is a multiplication by the rounded inverse of the scale: near ties the result may be the neighbouring number.
std::unique_ptr<Graph> integer_products(const Graph& g);

// Removes operations that change nothing and merges chains of views, transposes and casts; neighbours that a constant index names are a
// slice.
std::unique_ptr<Graph> simplify(const Graph& g);

// Writes convolutions of one and three dimensions, and transposed ones, as plain ones of two dimensions, where a template may take those.
std::unique_ptr<Graph> plain_convolutions(const Graph& g);
std::unique_ptr<Graph> plain_convolutions_apart(const Graph& g);
// The same where each phase of a transposed convolution is convolved by itself if that saves so many multiplications and additions; 0:
// wherever it saves some.
std::unique_ptr<Graph> plain_convolutions_saving(const Graph& g, double least);

// Convolutions pad with zeros themselves what an operation before them pads for them alone, as much before as after.
std::unique_ptr<Graph> fold_padding(const Graph& g);

// The largest probability of a softmax is the inverse of the sum of its exponentials, where nothing may compare it with the others.
std::unique_ptr<Graph> largest_probability(const Graph& g);

// Computes what depends on constants alone, where the result is not much larger than they are.
std::unique_ptr<Graph> constant_fold(const Graph& g);

// Makes constants of what is made of numbers alone (ONNX's ConstantOfShape, arange) where products, convolutions and the normalisations
// behind them read it: loops make such numbers on the spot, but templates read memory, and pack constants. That takes no more memory than
// filling it anew in each call would.
std::unique_ptr<Graph> store_weights(const Graph& g);

// Computes equal things once.
std::unique_ptr<Graph> cse(const Graph& g);

// Computes of each value only the part that is read: slices and selections (the last token's logits, the class token) move up through
// whatever works row by row, products and attention among them. Nothing is computed twice: what somebody reads whole stays whole.
std::unique_ptr<Graph> trim(const Graph& g);

// Makes random numbers a function of an input of the kind Random: each draw reads the stream where the draws before it end, so that draws
// are pure, and a run takes as many numbers as all of them, those that nothing reads included. A graph where only the run tells how many
// these are (sizes from data, draws inside regions) keeps drawing by calls.
std::unique_ptr<Graph> explicit_random(const Graph& g);

// Drops what no output needs, constants included; operations with effects and draws of random numbers stay.
std::unique_ptr<Graph> dce(const Graph& g);

// Makes parameters and unchanged buffers constants.
std::unique_ptr<Graph> freeze(const Graph& g);

// Joins matrix products of one input with several constant weights (query, key, value; gate, up) into one product and slices of it.
std::unique_ptr<Graph> merge_linear(const Graph& g);

// Products of halves that are read as f32 alone, perhaps through views, are stored as f32, as which they are summed: mm.dtype, bmm.dtype.
// Graphs with gradients stay as they are, since what is kept for the backward pass would take twice the memory.
std::unique_ptr<Graph> widen_products(const Graph& g);

// Attention written out as two products and a softmax becomes scaled_dot_product_attention, which has a template. With a mask only where
// rows that are masked as a whole give zero, as exporters write it. Halves may be widened to f32 for it, where the result is rounded. Masks
// that are known to keep all scores go.
std::unique_ptr<Graph> find_attention(const Graph& g);
// Multiplies batch normalisation with constant statistics into the constant weights of the convolution or linear layer before it.
std::unique_ptr<Graph> fold_conv_bn(const Graph& g);

}  // namespace toroid::graph
