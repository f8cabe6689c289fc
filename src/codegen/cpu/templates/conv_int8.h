// Direct 2-d convolution of whole numbers of 8 bits over channels-last memory, summed in 32, as C text.
#pragma once

#include "codegen/cpu/templates/conv_template.h"

namespace toroid::codegen {

struct ConvInt8Tile {
  int lanes = 16;
  int pixels = 6;       // output pixels held in registers, each with
  int vecs = 4;         // vectors of output channels
  int64_t block = 240;  // output pixels of a task, which ends where the image does
};
template <class Visit>
void fields(ConvInt8Tile& t, const Visit& visit) {
  visit("pixels", t.pixels, 1);
  visit("vecs", t.vecs, 1);
  visit("block", t.block, kDoubles);
}

// Why it does not take a shape; empty when it does.
std::string conv_int8_refusal(const ConvShape& shape);

// A tile for this shape, and others worth a trial, the most promising first.
ConvInt8Tile choose_conv_int8_tile(const ConvShape& shape, int lanes);
std::vector<ConvInt8Tile> other_conv_int8_tiles(const ConvShape& shape, int lanes);
std::string conv_int8_tile_refusal(const ConvShape& shape, const ConvInt8Tile& t);

// Of `config` all but its tile. The kernel has the signature and the epilogue of conv_text's, whose `acc` is vi32 and int32_t.
std::string conv_int8_text(const ConvConfig& config, const ConvInt8Tile& tile);
int64_t conv_int8_task_count(const ConvShape& shape, const ConvInt8Tile& tile);  // of an image
int64_t conv_int8_scratch_bytes(const ConvShape& shape, const ConvInt8Tile& tile);

// Packs OHWI weights (channels of a group innermost): for each group what pack_int8 makes of them, with sums that begin with what the
// zero point of the input adds, negated.
int64_t conv_int8_packed_bytes(const ConvShape& shape, const ConvInt8Tile& tile);
void pack_conv_int8_weights(const ConvConfig& config, const ConvInt8Tile& tile, const int8_t* ohwi, int64_t group, void* packed);

}  // namespace toroid::codegen
