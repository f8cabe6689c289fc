// The stages of a compile from a graph to a plan: the types between them, and the one table that is their order.
//
// Whoever compiles enters the table with a value of one type and leaves it with one of another: whole models, blocks of control flow,
// regions of the tuner (at Fused), compiles for GPUs that are not there (up to Kernels), programs that are stored.
#pragma once

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "codegen/constant_memory.h"
#include "codegen/kernel_text.h"
#include "compile/job.h"
#include "compile/report.h"
#include "exec/store.h"
#include "graph/graph.h"
#include "program/program.h"

namespace toroid::compiler {

struct EqualLayers;  // compile/layers/equal_layers.h

// ---- what each stage gives the next ---------------------------------------------------------------------------------------------

// A graph as it was traced or read.
struct Imported {
  std::unique_ptr<graph::Graph> graph;
};
// What goes through the passes: the graph, or, where that has many equal layers, the same with few of them. layers: of which graph, and
// how; null: it is the graph.
struct Begun {
  std::unique_ptr<graph::Graph> graph;
  std::shared_ptr<EqualLayers> layers = {};
};
// After the passes over graphs: what lowering takes.
struct Transformed {
  std::unique_ptr<graph::Graph> graph;
  std::shared_ptr<EqualLayers> layers = {};
};
// After the target's passes to program::Stage::Lowered.
struct Lowered {
  program::Program program;
  std::shared_ptr<EqualLayers> layers = {};
};
// Its choices are made, in modes that tune. decided: all of them, and those of the job.
struct Tuned {
  program::Program program;
  tune::LockFile decided = {};
  std::shared_ptr<EqualLayers> layers = {};
};
// After the target's passes over neighbours.
struct Joined {
  program::Program program;
  tune::LockFile decided = {};
  std::shared_ptr<EqualLayers> layers = {};
};
// With all layers.
struct Whole {
  program::Program program;
  tune::LockFile decided = {};
};
// After the target's passes to program::Stage::Scheduled.
struct Fused {
  program::Program program;
  tune::LockFile decided = {};
};

// A region of the graph that a node of control flow runs: a program of its own, at the same stage. results: see exec::Block.
template <class Program>
struct Block {
  std::string name;
  std::vector<int> results;
  Job job;
  Program program;
};
// By the place of their node in the program.
template <class Program>
using Blocks = std::map<size_t, std::vector<Block<Program>>>;

// A program and all blocks within. decided: by blocks, too.
struct Scheduled {
  program::Program program;
  tune::LockFile decided = {};
  Blocks<Scheduled> blocks = {};
};
// What each step launches.
struct Kernels {
  program::Program program;                     // with the buffers that code generation added
  std::map<size_t, codegen::KernelText> texts;  // by the place of their node; calls have none
  codegen::ConstantMemory constants;            // packed when the plan is made
  Blocks<Kernels> blocks = {};
};
// Constants on their way to a GPU: begun before the kernels are compiled, and waited for by the first run.
struct Upload {
  std::map<int, Tensor> tensors = {};        // on the GPU, by the input's buffer
  std::shared_future<double> finished = {};  // milliseconds it took; not valid where nothing is on its way
};
struct Sent {
  Kernels kernels;
  Upload upload;
};
// Code of all kernels, those of blocks too.
struct Objects {
  Kernels kernels;
  Upload upload;
  exec::Store store;                                         // by the hash of its content
  std::map<Hash128, std::string> names;                      // in the store, by the hash of the kernel's text
  std::vector<std::pair<std::string, std::string>> sources;  // text of each distinct kernel, by a name
};

// ---- the stages: of a job they read what it says, and they write to the report what they did ------------------------------------

Begun find_layers(Imported in, const Job& job, CompileReport& report);
Transformed transform(Begun in, const Job& job, CompileReport& report);
Lowered lower_graph(Transformed in, const Job& job, CompileReport& report);
Tuned choose(Lowered in, const Job& job, CompileReport& report);
Joined join(Tuned in, const Job& job, CompileReport& report);
Whole repeat_layers(Joined in, const Job& job, CompileReport& report);
Fused schedule(Whole in, const Job& job, CompileReport& report);
Scheduled schedule_blocks(Fused in, const Job& job, CompileReport& report);
Kernels generate(Scheduled in, const Job& job, CompileReport& report);
Sent send_constants(Kernels in, const Job& job, CompileReport& report);
Objects compile_kernels(Sent in, const Job& job, CompileReport& report);
exec::Loadable make_plan(Objects in, const Job& job, CompileReport& report);

template <class From, class To>
struct Stage {
  using Input = From;
  using Output = To;
  const char* name;
  To (*run)(From, const Job&, CompileReport&);
};

inline constexpr std::tuple kStages = {
    Stage{"layers", find_layers}, Stage{"passes", transform},         Stage{"lowering", lower_graph},     Stage{"tuning", choose},
    Stage{"fusion", join},        Stage{"repetition", repeat_layers}, Stage{"memory", schedule},          Stage{"blocks", schedule_blocks},
    Stage{"code", generate},      Stage{"sending", send_constants},   Stage{"compiler", compile_kernels}, Stage{"plan", make_plan},
};

// ---- the runner -----------------------------------------------------------------------------------------------------------------

template <size_t row>
using StageAt = std::tuple_element_t<row, std::remove_const_t<decltype(kStages)>>;

template <size_t... rows>
constexpr bool is_chain(std::index_sequence<rows...>) {
  return (std::is_same_v<typename StageAt<rows>::Output, typename StageAt<rows + 1>::Input> && ...);
}
static_assert(is_chain(std::make_index_sequence<std::tuple_size_v<decltype(kStages)> - 1>()), "each stage takes what the one before gives");

template <class From, size_t row = 0>
constexpr size_t row_from() {
  static_assert(row < std::tuple_size_v<decltype(kStages)>, "the table does not lead from the one type to the other");
  if constexpr (std::is_same_v<From, typename StageAt<row>::Input>)
    return row;
  else
    return row_from<From, row + 1>();
}

// Runs the stages that lead from the one type to the other, and notes how long each took.
template <class To, class From>
To advance(From from, const Job& job, CompileReport& report) {
  if constexpr (std::is_same_v<From, To>) {
    return from;
  } else {
    constexpr auto stage = std::get<row_from<From>()>(kStages);
    const auto start = std::chrono::steady_clock::now();
    auto next = stage.run(std::move(from), job, report);
    report.stages.push_back({stage.name, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()});
    return advance<To>(std::move(next), job, report);
  }
}

}  // namespace toroid::compiler
