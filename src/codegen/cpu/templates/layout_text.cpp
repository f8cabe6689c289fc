// Reorders between plain [n][channels][pixels] and the blocked [n][channel block][pixels][lanes] layout.
#include "codegen/cpu/templates/conv_template.h"

namespace toroid::codegen {
namespace {

std::string reorder_text(const std::string& name, int64_t channels, int64_t pixels, int lanes, std::string_view body) {
  return template_head(lanes) + expand(R"(
// A task is one block of @LANES@ channels of one image, @PIXELS@ pixels a channel.
void @NAME@(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread) {
  enum { CHANNELS = @CHANNELS@, PIXELS = @PIXELS@, LANES = @LANES@, BLOCKS = (CHANNELS + LANES - 1) / LANES, STEP = 16 };
  for (int64_t task = begin; task < end; ++task) {
    const int64_t image = task / BLOCKS, c0 = task % BLOCKS * LANES;
    const int64_t count = CHANNELS - c0 < LANES ? CHANNELS - c0 : LANES;
    const int64_t plain = (image * CHANNELS + c0) * PIXELS, blocked = task * PIXELS * LANES;
    // STEP pixels of all channels at a time, so that lines are used whole on both sides.
    for (int64_t p0 = 0; p0 < PIXELS; p0 += STEP) {
      const int64_t p1 = p0 + STEP < PIXELS ? p0 + STEP : PIXELS;
      @BODY@
    }
  }
}
)",
                                       {{"NAME", name},
                                        {"CHANNELS", std::to_string(channels)},
                                        {"PIXELS", std::to_string(pixels)},
                                        {"LANES", std::to_string(lanes)},
                                        {"BODY", std::string(body)}});
}

}  // namespace

std::string nchw_to_blocked_text(const std::string& name, int64_t channels, int64_t pixels, int lanes) {
  return reorder_text(name, channels, pixels, lanes, R"(const float* restrict source = (const float*)bufs[0] + plain;
float* restrict out = (float*)bufs[1] + blocked;
for (int64_t c = 0; c < LANES; ++c) {
  for (int64_t p = p0; p < p1; ++p) out[p * LANES + c] = c < count ? source[c * PIXELS + p] : 0.0f;
})");
}

std::string blocked_to_nchw_text(const std::string& name, int64_t channels, int64_t pixels, int lanes) {
  return reorder_text(name, channels, pixels, lanes, R"(const float* restrict source = (const float*)bufs[0] + blocked;
float* restrict out = (float*)bufs[1] + plain;
for (int64_t c = 0; c < count; ++c) {
  for (int64_t p = p0; p < p1; ++p) out[c * PIXELS + p] = source[p * LANES + c];
})");
}

}  // namespace toroid::codegen
