// What the direct and the depthwise convolution texts share: strides of the input and the cutting of output rows into tiles.
#pragma once

#include <string>
#include <vector>

#include "codegen/cpu/templates/conv_template.h"

namespace toroid::codegen {

// Output pixels [first, last) of a tile whose tap column kw falls inside the image.
struct TapRange {
  int64_t first, last;
  bool operator==(const TapRange&) const = default;
};

// One kind of tile: its pixel count and, per tap column, the pixels that have data there.
struct TileKind {
  int64_t pixels;
  std::vector<TapRange> taps;
  bool operator==(const TileKind&) const = default;
};

// `count` tiles of one kind in a row, starting at output column `start`.
struct TileRun {
  int kind;
  int64_t start, count;
};

struct ConvPlan {
  explicit ConvPlan(const ConvConfig& config);

  const ConvConfig& c;
  // Floats between images, channel blocks, rows, pixels and channels of the input; channels per block and blocks per group.
  int64_t image_stride, block_stride, row_stride, pixel_stride, channel_stride, block_channels, blocks;
  int64_t rows, width;  // output rows and columns after joining
  int64_t group_channels, group_out, oc_tiles, oc_tile;
  int64_t row_blocks, c_chunks;
  // A single row is cut into `row_blocks` stretches of so many tiles instead; 0: it is not.
  int64_t stretch = 0;
  // Floats of the packed weights of a tile of output channels of one group.
  int64_t tile_weights() const { return blocks * c.shape.kernel_h * c.shape.kernel_w * block_channels * oc_tile; }
  // First channel of a block of depthwise channels, whose last block may overlap the one before it.
  int64_t depthwise_start(int64_t block) const;
  std::vector<TileKind> kinds;
  std::vector<TileRun> runs;

 private:
  void cut_row(int64_t tiles);
};

// The function that hands a finished tile (pixels x columns of `tile`, row pitch `pitch`) to the epilogue hole. `ragged`: columns need not
// be whole vectors.
std::string conv_epilogue_text(const ConvConfig& config, int64_t pitch, bool ragged);

// C statements that call `call` (text with @PIXEL@ and @KIND@) for every tile of a row; of a stretch for tiles [tile0, tile1).
std::string walk_row_text(const ConvPlan& plan, const std::string& call);

// The depthwise kernel's text.
std::string depthwise_text(const ConvPlan& plan);

}  // namespace toroid::codegen
