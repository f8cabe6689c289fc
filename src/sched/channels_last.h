// Convolutions whose input is copied into channels-last memory, perhaps with more channels.
#pragma once

#include "program/program.h"

namespace toroid::sched {

// A way (see tune::Choice): channels_last(multiple=n), with channels of zeros up to a multiple of n.
inline constexpr const char* kChannelsLast = "channels_last";
// Why it does not apply; empty when it does.
std::string channels_last_refusal(const program::Node& convolution, const program::Program& p, const program::Config& way);
// Node i reads the copy, which a loop in front of it makes; weights get zeros when the program is compiled. UserError with the refusal's
// reason where that cannot be.
void channels_last(program::Program& p, size_t i, const program::Config& way);

// Those worth a trial on a GPU, whose copies are of 16 bytes, and whose tensor maps take 64 channels at a time: windows over 48 to 96
// channels took 0.44 to 0.65 of the time, three channels as eight 1.1 to 1.5 times as long (H200, bf16). On CPUs none was faster: first
// layers with channels first took 1.1 to 1.3 times as long with the copy, and multiples of 16 channels 1.1 to 7 times as long as what they
// were made of.
std::vector<program::Config> gpu_channels_last(const program::Node& convolution, const program::Program& p);

}  // namespace toroid::sched
