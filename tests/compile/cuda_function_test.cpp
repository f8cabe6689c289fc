// C++ functions over memory of a GPU that users give opaque operations: steps of the program, planned without a GPU.
#include "toroid/cuda_function.h"

#include <gtest/gtest.h>

#include "compile/cuda_functions.h"
#include "compile/opaque_on_gpu.h"
#include "compile/pipeline.h"
#include "exec/record/coverage.h"
#include "exec/stored.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "ops/cuda_kernels.h"
#include "package/opening.h"
#include "package/package.h"
#include "program/interpret.h"
#include "program/users_calls.h"
#include "temp_folder.h"
#include "toroid/cuda_kernel.h"

namespace toroid {
namespace {

using namespace test::on_gpu;
using test::counting;
using test::graph_of;
using test::user_error;
using Values = std::vector<double>;

// A stage of a graph's compile for a GPU that need not be here.
template <class Stage>
Stage for_absent_gpu(std::unique_ptr<graph::Graph> g) {
  device::cuda::GpuInfo gpu;
  compiler::Job job = compiler::job_of(g->name, front::setup_of({.device = Device::cuda()}), {}, &gpu);
  job.may_tune = false;
  compiler::CompileReport report;
  return compiler::advance<Stage>(compiler::Imported{std::move(g)}, job, report);
}

const program::Extern& only_call(const program::Program& p) {
  const program::Extern* found = nullptr;
  for (auto& n : p.nodes)
    if (auto* call = std::get_if<program::Extern>(&n.problem)) found = call;
  if (!found) throw std::runtime_error("no call");
  return *found;
}

// A plan for a GPU of one call, which needs no compiler of kernels.
exec::Loadable plan_of(const std::string& call, const std::string& type = "f32[s0]") {
  return for_absent_gpu<exec::Loadable>(
      graph::parse("graph \"t\"(%x: " + type + ") symbols(s0 in 2..4096) {\n  %y: f32[s0] = " + call + "\n  return %y\n}"));
}

TEST(CudaFunction, IsAStepThatIsRecordedWithOthers) {
  shift();
  const exec::Loadable made = plan_of("cuda_function_test::shift(%x, 2.5)");
  ASSERT_EQ(made.plan.steps.size(), 1u);
  const auto* h = std::get_if<exec::HostCall>(&made.plan.steps[0]);
  ASSERT_TRUE(h && h->on_gpu) << exec::to_string(made.plan);
  EXPECT_NE(exec::to_string(made.plan).find("on_gpu=true"), std::string::npos);
  const exec::Loadable read = test::through_text_and_bytes(made);
  EXPECT_TRUE(std::get<exec::HostCall>(read.plan.steps[0]).on_gpu);
  const exec::Coverage c = exec::cover(made.plan, 1);
  EXPECT_TRUE(c.parts == 1 && c.skips.empty());
}

TEST(CudaFunction, IsNoStepOfProgramsForTheHost) {
  const auto body = [](const std::vector<Tensor>& in) { return shift()(in[0], 1.0); };
  compiler::Job job = compiler::job_of("t", front::setup_of({}), {});
  compiler::CompileReport report;
  const auto made = compiler::advance<exec::Loadable>(compiler::Imported{graph_of(body, {counting({4})})}, job, report);
  ASSERT_EQ(made.plan.steps.size(), 1u);
  EXPECT_FALSE(std::get<exec::HostCall>(made.plan.steps[0]).on_gpu);
  exec::Plan moved = for_absent_gpu<exec::Loadable>(graph_of(body, {counting({4})})).plan;
  moved.device = Device::cpu();
  const auto faults = exec::faults_of(moved);
  ASSERT_FALSE(faults.empty());
  EXPECT_TRUE(faults[0].rule == "host-calls" && has_all(faults[0].what, {"cuda_function_test::shift", "works on cpu"})) << faults[0].what;
}

// What must be called at each run, and what works on memory whose address a recording cannot follow.
TEST(CudaFunction, RunsBetweenRecordingsWhereItMust) {
  live_shift(), counted(), shift();
  const exec::Plan live = plan_of("cuda_function_test::live_shift(%x, 2.5)").plan;
  exec::Coverage c = exec::cover(live, 1);
  ASSERT_TRUE(c.parts == 0 && c.skips.size() == 1);
  EXPECT_TRUE(has_all(exec::to_string(c.skips[0]), {"cuda_function_test::live_shift", "not capturable", "CudaFunctionOptions"}));
  EXPECT_TRUE(ops::has_cuda_function(counted().op()) && !ops::is_capturable(counted().op())) << "it is called as often as it is written";
  exec::Plan handed = plan_of("cuda_function_test::shift(%x, 2.5)").plan;
  handed.buffers[static_cast<size_t>(std::get<exec::HostCall>(handed.steps[0]).inputs[0].buffer)].role = exec::BufferRole::Handed;
  c = exec::cover(handed, 1);
  ASSERT_TRUE(c.parts == 0 && c.skips.size() == 1);
  EXPECT_NE(c.skips[0].reason.find("control flow hands on"), std::string::npos) << c.skips[0].reason;
}

TEST(CudaFunction, ArgumentsWithGapsAreCopiedUnlessItTakesThem) {
  const std::vector<Tensor> inputs{counting({4, 4})};
  const auto call_in = [&](const test::Forward& body) {
    const auto scheduled = for_absent_gpu<compiler::Scheduled>(graph_of(body, inputs));
    EXPECT_EQ(program::interpret(scheduled.program, inputs).at(0).to_vector(), body(inputs).to_vector());
    const program::Extern& call = only_call(scheduled.program);
    EXPECT_TRUE(program::has_gpu_operands(call));
    return std::pair(call.inputs.at(0).memory, scheduled.program.inputs.at(0).buffer);
  };
  const auto [gaps, x] = call_in([](auto& in) { return shift()(select(in[0], 1, 1), 9.0); });
  EXPECT_NE(gaps.buffer, x);
  const auto [part, y] = call_in([](auto& in) { return shift()(select(in[0], 0, 1), 9.0); });
  EXPECT_TRUE(part.buffer == y && part.offset == Expr(4)) << "what is row-major within other memory is taken there";
  const auto [taken, z] = call_in([](auto& in) { return first_row()(transpose(in[0], 0, 1)); });
  EXPECT_TRUE(taken.buffer == z && taken.strides.at(1) == Expr(4));
}

// Two ways to what it writes over: the argument's own memory, or a copy where the old contents are needed later.
TEST(CudaFunction, WritesWhereTheArgumentLiesOrInACopy) {
  const auto in_place = [](auto& in) { return put()(in[1] * 2.0, in[0], 1).first + 1.0; };
  const auto in_a_copy = [](auto& in) {
    const Tensor later = in[0] * 1.0, mine = in[0] * 3.0;
    const auto [before, now] = put()(in[1] * 2.0, mine, 1);
    return sum(mine * later) + sum(before) + sum(now);
  };
  const std::vector<Tensor> inputs{counting({3, 4}), counting({4}) + 50.0};
  for (const bool copies : {false, true}) {
    auto g = graph_of([&](auto& in) { return copies ? in_a_copy(in) : in_place(in); }, inputs);
    const auto scheduled = for_absent_gpu<compiler::Scheduled>(graph::clone(*g));
    const program::Extern& call = only_call(scheduled.program);
    EXPECT_TRUE(program::has_gpu_operands(call));
    EXPECT_EQ(call.inputs.at(1).memory.buffer, call.outputs.at(2).memory.buffer);
    EXPECT_EQ(call.inputs.at(1).memory.buffer == scheduled.program.inputs[0].buffer, !copies);
    test::expect_meaning(scheduled.program, std::move(g), inputs);
  }
}

// A function of the test's that works on any memory is given what the operation's own is, and the stream.
TEST(CudaFunction, GetsArgumentsResultsAndTheStream) {
  const auto types = [](const MemoryType& x, const std::vector<MemoryType>&, const SymInt&, double, bool, const std::string&) {
    return std::pair(x, x);
  };
  const auto unused = [](OutputMemory, const std::vector<InputMemory>&, int64_t, double, bool, const std::string&, OutputMemory,
                         OutputMemory) { throw UserError("the function on the host runs"); };
  static const auto op = opaque_op(
      "cuda_function_test::all_kinds(Tensor(a!) x, Tensor[] list, int n, float f, bool b, str s) -> (Tensor, Tensor)", types, unused);
  static std::string seen;
  static const bool once = [] {
    register_cuda_function(op, [](OutputMemory x, const std::vector<InputMemory>& list, int n, float f, bool b, const std::string& s,
                                  OutputMemory one, OutputMemory two, const CudaStream& stream) {
      seen = fmt::format("{} {} {} {} {} {} cuda:{}", list.size(), n, f, b, s, stream.handle != nullptr, stream.device.index);
      for (size_t i = 0; i < x.as<float>().size(); ++i) {
        one.as<float>()[i] = x.as<float>()[i] + list[0].as<float>()[i], two.as<float>()[i] = list[1].as<float>()[i];
        x.as<float>()[i] = -1;
      }
    });
    return true;
  }();
  (void)once;
  int handle = 0;
  const Tensor x = counting({3}), gaps = select(counting({3, 2}), 1, 1);
  const std::vector<Tensor> results{zeros({3}), zeros({3})};
  const CallArgs args{x, std::vector<Tensor>{gaps, counting({3}) * 10.0}, Expr(7), 0.5, true, std::string("text")};
  ops::run_cuda_function(op.op(), args, results, {&handle, Device::cuda(3)});
  EXPECT_EQ(seen, "2 7 0.5 true text true cuda:3");
  EXPECT_EQ(results[0].to_vector(), (Values{1, 4, 7}));
  EXPECT_EQ(results[1].to_vector(), (Values{0, 10, 20}));
  EXPECT_EQ(x.to_vector(), (Values{-1, -1, -1}));
  static const auto throws = opaque_op("cuda_function_test::throws(Tensor x) -> Tensor", same_type, [](InputMemory, OutputMemory) {});
  register_cuda_function(throws, [](InputMemory, OutputMemory, CudaStream) { throw std::runtime_error("out of handles"); });
  EXPECT_TRUE(has_all(user_error([&] { ops::run_cuda_function(throws.op(), CallArgs{x}, std::vector<Tensor>{zeros({3})}, {}); }),
                      {"cuda_function_test::throws: its function for GPUs threw an exception: out of handles"}));
}

TEST(CudaFunction, MemoryOfAGpuIsNotReadByAccident) {
  float memory[3] = {};
  const Tensor t = Tensor::from_blob(memory, std::vector<int64_t>{3}, DType::F32, {}, nullptr, Device::cuda(1));
  EXPECT_EQ(InputMemory(t).data(), memory);
  EXPECT_EQ(InputMemory(t).data<float>(), memory);
  EXPECT_EQ(OutputMemory(t).data<float>(), memory);
  for (const std::string& error : {user_error([&] { InputMemory(t).as<float>(); }), user_error([&] { OutputMemory(t).as<float>(); })})
    EXPECT_TRUE(has_all(error, {"cuda_function_test.cpp:", "cuda:1", "data<T>()"})) << error;
  EXPECT_TRUE(has_all(user_error([&] { InputMemory(t).data<double>(); }), {"cuda_function_test.cpp:", "f32", "double"}));
}

TEST(CudaFunction, WrongRegistrationsAreRefused) {
  const auto fresh = [](const std::string& name) {
    return opaque_op(
        "cuda_function_test::" + name + "(Tensor x, int n) -> Tensor", [](const MemoryType& x, int64_t) { return x; },
        [](InputMemory, int64_t, OutputMemory) {});
  };
  const auto fits = [](InputMemory, int64_t, OutputMemory, CudaStream) {};
  const CudaKernel kernel{"k", "extern \"C\" __global__ void k(const float* x, float* y) {}",
                          [](const MemoryType&, int64_t) { return CudaLaunch{}; }};
  const auto a = fresh("refused_a"), b = fresh("refused_b");
  const auto composite = custom_op("cuda_function_test::composite(Tensor x) -> Tensor", [](const Tensor& x) { return x * 2.0; });
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_function(composite, [](InputMemory, OutputMemory, CudaStream) {}); }),
                      {"cuda_function_test::composite", "opaque_op"}));
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_function(a, [](InputMemory, OutputMemory, CudaStream) {}); }),
                      {"refused_a", "takes 2 parameters", "expected the 3"}));
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_function(a, [](InputMemory, double, OutputMemory, CudaStream) {}); }),
                      {"refused_a", "parameter 1", "another type"}));
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_function(a, [](OutputMemory, int64_t, OutputMemory, CudaStream) {}); }),
                      {"refused_a", "parameter 0", "another type"}));
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_function(a, CudaFunction()); }), {"refused_a", "empty"}));
  register_cuda_function(a, fits);
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_function(a, fits); }), {"refused_a", "has a function for GPUs already"}));
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_kernel(a, kernel); }), {"refused_a", "has a function for GPUs already"}));
  register_cuda_kernel(b, kernel);
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_function(b, fits); }), {"refused_b", "has a kernel already"}));
}

// A program knows it by its operation's name.
TEST(CudaFunction, IsMissedWhereNobodyRegisteredIt) {
  static const auto bare = opaque_op(
      "cuda_function_test::bare(Tensor x, float first) -> Tensor", [](const MemoryType& x, double) { return x; }, shift_on_host);
  shift();
  exec::Loadable made = plan_of("cuda_function_test::shift(%x, 2.5)");
  auto& h = std::get<exec::HostCall>(made.plan.steps[0]);
  h.op = &bare.op(), h.name = bare.name(), made.plan.code_for = "";
  EXPECT_TRUE(has_all(user_error([&] { exec::load_parts(made.plan, made.store); }),
                      {"\"t\" calls the function for GPUs of cuda_function_test::bare", "register_cuda_function"}));
  package::Program p;
  p.gpu_functions = {"cuda_function_test::shift", "cuda_function_test::bare", put().name() + ".functional", "cuda_function_test::nobody"};
  EXPECT_EQ(package::unknown_functions(p), (std::vector<std::string>{"cuda_function_test::bare", "cuda_function_test::nobody"}));
}

// A package for a GPU says which functions its process must have registered.
TEST(CudaFunction, IsNamedInPackages) {
  const test::TempFolder folder;
  try {
    save_package({packed_entry()}, folder / "m.tpk", for_target("sm_90a"));
  } catch (const EnvironmentError& e) {
    GTEST_SKIP() << e.what();
  }
  const auto made = package::Package::open(folder / "m.tpk");
  const auto& programs = made->manifest().entries.at(0).programs;
  ASSERT_EQ(programs.size(), 1u);
  EXPECT_EQ(programs[0].gpu_functions, (std::vector<std::string>{put().name() + ".functional", shift().name()}));
  EXPECT_TRUE(package::unknown_functions(programs[0]).empty());
}

}  // namespace
}  // namespace toroid
