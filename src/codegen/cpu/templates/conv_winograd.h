// Winograd's 3x3 convolution F(2x2, 3x3) as C text: squares of 2x2 results from 4x4 inputs with 16 instead of 36 multiplications.
//
// A task transforms the inputs of some rows of squares, multiplies the 16 matrices [square][channel] with those that its weights were
// transformed to when the program was compiled, and transforms what comes out back, a tile of output channels after the other. Sums of
// results differ from the direct ones by a few roundings; an infinite input makes all four results of its squares NaN or infinite.
#pragma once

#include "codegen/cpu/templates/conv_template.h"

namespace toroid::codegen {

struct WinogradTile {
  int lanes = 16;
  int squares = 6;       // held in registers, each with
  int vecs = 4;          // vectors of output channels
  int64_t rows = 1;      // of squares, of a task
  int64_t channels = 1;  // tiles of output channels of a task
};
template <class Visit>
void fields(WinogradTile& t, const Visit& visit) {
  visit("squares", t.squares, 1);
  visit("vecs", t.vecs, 1);
  visit("rows", t.rows, kDoubles);
  visit("channels", t.channels, kDoubles);
}

// Why it does not take a shape; empty when it does. Inputs are channels-last.
std::string winograd_refusal(const ConvShape& shape, ConvInput input, int lanes);
// Why the direct template should be faster; empty where this one should.
std::string winograd_reluctance(const ConvShape& shape);

WinogradTile choose_winograd_tile(const ConvShape& shape, int lanes);
std::vector<WinogradTile> other_winograd_tiles(const ConvShape& shape, int lanes);
std::string winograd_tile_refusal(const ConvShape& shape, const WinogradTile& t);

// Of `config` all but the tile counts. The kernel has the signature and the epilogue of conv_text's.
std::string winograd_text(const ConvConfig& config, const WinogradTile& tile);
int64_t winograd_task_count(const ConvShape& shape, const WinogradTile& tile);  // of an image
int64_t winograd_scratch_bytes(const ConvShape& shape, const WinogradTile& tile);

// Transforms OIHW weights to [tile of output channels][16][channel][output channel], zero padded; parts as in pack_conv_weights.
int64_t winograd_packed_elements(const ConvShape& shape, const WinogradTile& tile);
int64_t winograd_pack_jobs(const ConvShape& shape, const WinogradTile& tile);
void pack_winograd_weights(const ConvShape& shape, const WinogradTile& tile, const float* oihw, float* packed, int64_t first_job,
                           int64_t last_job);

}  // namespace toroid::codegen
