// Kernels of convolutions by the templates of a CPU.
#pragma once

#include <optional>

#include "codegen/constant_memory.h"
#include "codegen/cpu/templates/conv_int8.h"
#include "codegen/cpu/templates/conv_template.h"
#include "codegen/cpu/templates/conv_winograd.h"
#include "codegen/kernel_text.h"
#include "device/cpu/isa.h"
#include "program/program.h"

namespace toroid::codegen {

// Of the input's memory.
enum class ConvLayout { Nhwc, Nchw, Other };

ConvLayout layout_of(const program::Convolution& c);
ConvInput input_of(const program::Convolution& c);
// How the weights lie; none where kernels cannot pack them themselves.
std::optional<ConvWeights> weights_of(const program::Convolution& c);
// Of one with constant sizes.
ConvShape shape_of(const program::Convolution& c);

// These add the constant that the weights are packed into to the program; generate_convolution only where they are constants.
KernelText generate_convolution(const program::Node& node, const program::Convolution& c, program::Program& program, device::Isa isa,
                                ConstantMemory& constants, const ConvTile& tile);
KernelText generate_conv_int8(const program::Node& node, const program::Convolution& c, program::Program& program, device::Isa isa,
                              ConstantMemory& constants, const ConvInt8Tile& tile);
KernelText generate_winograd(const program::Node& node, const program::Convolution& c, program::Program& program, device::Isa isa,
                             ConstantMemory& constants, const WinogradTile& tile);

}  // namespace toroid::codegen
