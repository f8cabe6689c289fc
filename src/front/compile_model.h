// The door of models: graphs compiled by the options of the process and those that a model is given.
#pragma once

#include "compile/model.h"
#include "toroid/model.h"

namespace toroid::front {

// What the process's options say now, and in their place what these say. UserError for options that a model cannot have too.
compiler::Setup setup_of(const ModelOptions& options);

// CompiledModel::make by setup_of(options).
compiler::CompiledModel compile_model(std::unique_ptr<graph::Graph> graph, const ModelOptions& options = {},
                                      const compiler::TuneListener& tuning = {});

// The kernels of a graph for a GPU, without those of its blocks of control flow, by the options of the process; no GPU is needed.
std::vector<codegen::KernelText> kernels_for_gpu(std::unique_ptr<graph::Graph> graph, const device::cuda::GpuInfo& gpu);

}  // namespace toroid::front
