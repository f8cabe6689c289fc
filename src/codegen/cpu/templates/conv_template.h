// Direct 2-d convolution as C text: register tiles of output pixels x output channels over blocked, NHWC or plain NCHW input.
#pragma once

#include <string>
#include <vector>

#include "codegen/cpu/templates/template_text.h"
#include "codegen/forms.h"

namespace toroid::codegen {

// How the input lies in memory. The output's layout is the epilogue's business.
enum class ConvInput {
  Blocked,  // [image][channel block][h][w][lanes], lanes past the last channel are zero
  Nhwc,     // [image][h][w][channel]
  Nchw,     // [image][channel][h][w]: for the few channels of a first layer
};

// What the kernel finds in the memory of the weights.
enum class ConvWeights {
  Packed,  // pack_conv_weights' layout, made before the first call
  Oihw,    // those of an output channel one after the other, [in][h][w]: each thread packs those of a tile when it first needs them
  Ohwi,    // likewise, [h][w][in]
};

struct ConvShape {
  int64_t channels = 0, height = 0, width = 0, out_channels = 0;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  int64_t groups = 1;

  int64_t out_h() const { return (height + pad_top + pad_bottom - dilation_h * (kernel_h - 1) - 1) / stride_h + 1; }
  int64_t out_w() const { return (width + pad_left + pad_right - dilation_w * (kernel_w - 1) - 1) / stride_w + 1; }
  bool depthwise() const { return groups == channels && groups == out_channels && groups > 1; }
};

// Register tile and blocking.
struct ConvTile {
  int lanes = 16;
  int pixels = 14;             // output pixels of a row held in registers
  int vecs = 2;                // vectors of output channels held in registers
  int64_t join_rows = 1;       // output rows walked as one (only where input pixels are contiguous across rows)
  int64_t block_rows = 8;      // output rows (after joining) of a task
  int64_t block_c = 1;         // channel blocks summed before partial sums go to scratch
  bool channels_inner = true;  // tasks walk output channels fastest (weights fit in the cache) or rows fastest
};
template <class Visit>
void fields(ConvTile& t, const Visit& visit) {
  visit("pixels", t.pixels, 1);
  visit("vecs", t.vecs, 1);
  visit("join_rows", t.join_rows, kDoubles);
  visit("block_rows", t.block_rows, kDoubles);
  visit("block_c", t.block_c, kDoubles);
  visit("channels_inner", t.channels_inner, 1);
}

struct ConvConfig {
  std::string name;
  Extent batch = 1;
  ConvShape shape;
  ConvInput input = ConvInput::Blocked;
  // F32; or U8 and I8, of which the depthwise kernel and conv_int8's sum what they are more than `zero` in 32 bits.
  DType input_type = DType::F32;
  int64_t zero = 0;
  ConvWeights weights = ConvWeights::Packed;
  int64_t weight_stride = 0, weight_offset = 0;  // unless packed, of f32: floats between output channels, and before the first one
  ConvTile tile;
  int input_buffer = 0, weight_buffer = 1, scratch_buffer = 2;
  // Statements that consume `acc` and do the stores: vf32 of output channels oc .. oc+lanes-1, or (scalar text) float of oc; vi32 and int
  // where sums are whole numbers.
  // They see `image`, `oc`, `pixel` (= oh * out_w + ow), `bufs`, `params`. The vector text never sees channels past the last.
  Hole epilogue;
  // The epilogue may run twice on the same sum: ragged channels are then vectors that overlap, not scalars.
  bool repeatable_epilogue = false;
};

// Whether the direct template (not the depthwise one) takes this shape: groups want channels-last memory, or whole vectors of channels.
bool conv_direct_supported(const ConvShape& shape, ConvInput input, int lanes);

// A tile for this shape, and others worth a trial, the most promising first; some may be none for it.
ConvTile choose_conv_tile(const ConvShape& shape, ConvInput input, int lanes);
std::vector<ConvTile> other_conv_tiles(const ConvShape& shape, ConvInput input, int lanes);
// Why a tile is none for this shape; empty when it is one.
std::string conv_tile_refusal(const ConvShape& shape, ConvInput input, const ConvTile& t);

// The kernel: void name(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread). Depthwise shapes
// (multiplier 1; Blocked input, or Nhwc with a vector of channels or more) get their own kernel.
std::string conv_text(const ConvConfig& config);

int64_t conv_task_count(const ConvConfig& config, const int64_t* params);
// Bytes of scratch a thread (thread t uses [t*bytes, (t+1)*bytes), 64-byte aligned, whose first 8 bytes are -1 when a launch begins); 0
// where none is touched.
int64_t conv_scratch_bytes(const ConvConfig& config);

// Packs OIHW f32 weights for `config`, at compile time of the program. Direct: [group][oc tile][c block][kh][kw][c][oc in
// tile]; depthwise: [channel block][kh][kw][lanes], where the last block of Nhwc ends at the last channel. Zero padded. `packed` holds
// conv_packed_elements floats.
int64_t conv_packed_elements(const ConvConfig& config);
void pack_conv_weights(const ConvConfig& config, const float* oihw, float* packed);
// Parts [first_job, last_job) of the packing; the conv_pack_jobs parts can be done by several threads.
int64_t conv_pack_jobs(const ConvConfig& config);
void pack_conv_weights(const ConvConfig& config, const float* oihw, float* packed, int64_t first_job, int64_t last_job);

// The same of a depthwise convolution of whole numbers, in one part, as numbers of 16 bits with zeros above them.
void pack_depthwise_weights(const ConvConfig& config, const int8_t* oihw, int32_t* packed);

// A kernel that copies f32 [n][channels][pixels] to the blocked layout (tasks: n * channel blocks), and its inverse. The
// buffers are bufs[0] -> bufs[1]; n is the task range's business: tasks = n * ceil(channels / lanes).
std::string nchw_to_blocked_text(const std::string& name, int64_t channels, int64_t pixels, int lanes);
std::string blocked_to_nchw_text(const std::string& name, int64_t channels, int64_t pixels, int lanes);

}  // namespace toroid::codegen
