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

// The program of a model file, see import::load_model: from the cache of programs where that has it, and then the file is not read but for
// what says which model it is. outputs: see import::load_model.
compiler::CompiledModel load_model(const std::string& path, std::span<const Tensor> inputs, const ModelOptions& options,
                                   std::vector<std::string>* outputs = nullptr);
// Of that file what load_model looks for in the cache, for people: whether it is there, and if not, why.
std::string why_cached(const std::string& path, const ModelOptions& options);

// The kernels of a graph for a GPU, without those of its blocks of control flow, by the options of the process; no GPU is needed.
std::vector<codegen::KernelText> kernels_for_gpu(std::unique_ptr<graph::Graph> graph, const device::cuda::GpuInfo& gpu);

}  // namespace toroid::front
