// Plans as data: their text, their bytes, and the rules that hold of them.
#include <gtest/gtest.h>

#include <random>

#include "errors.h"
#include "exec/bytes.h"
#include "exec/plans.h"
#include "exec/stored.h"
#include "graph/control_flow.h"
#include "toroid/opaque_op.h"

namespace toroid::exec {
namespace {

using test::contains;
using test::user_error;

constexpr const char* kKernel = "0123456789abcdef0123456789abcdef";

HostCall::View view(int buffer, std::vector<Expr> sizes) {
  HostCall::View v{buffer, DType::F32, 0, std::move(sizes), {}};
  Expr stride = 1;
  for (size_t d = v.sizes.size(); d-- > 0; stride = stride * v.sizes[d]) v.strides.insert(v.strides.begin(), stride);
  return v;
}

// A block that takes a vector of s0 and gives one, by a launch.
Block block(const Expr& s, const std::string& name, std::vector<int> results) {
  Plan p;
  p.name = name;
  p.symbols = {{s, false}};
  p.buffers = {{"x", DType::F32, s, BufferRole::Input}, {"y", DType::F32, s, BufferRole::Output}};
  p.inputs = {{"x", {DType::F32, {s}, {}}, 0, 0}};
  p.steps = {add_one_launch(0, 1, s)};
  std::get<Launch>(p.steps[0]).kernel = kKernel;
  p.outputs = {{1, {DType::F32, {s}, {}}}};
  return {name, std::make_shared<const Plan>(std::move(p)), std::move(results)};
}

// Something of everything; it is not meant to run.
Plan everything() {
  const Expr s = sym::symbol("s0", 1, 1000), u = sym::symbol("u 1", 0, sym::kInf - 1);
  const TensorType vector{DType::F32, {s}, {}};
  Plan p;
  p.name = "every \"thing\"\n";
  p.options.set("max_threads", "2");
  p.record = true;
  p.symbols = {{s, false}, {u, true}};
  p.guards = {{sym::Rel::Ge, s, 2}, {sym::Rel::Ne, sym::mod(s, 7), 3}};
  p.buffers = {{"x", DType::F32, s, BufferRole::Input},       {"w", DType::F32, 12, BufferRole::Constant, "aa"},
               {"a", DType::F32, s, BufferRole::Temporary},   {"b", DType::F32, u, BufferRole::Temporary},
               {"h", DType::F32, s, BufferRole::Handed},      {"y", DType::F32, s, BufferRole::Output},
               {"f", DType::I64, 8, BufferRole::Faults},      {"rng", DType::I64, 2, BufferRole::Input},
               {"state", DType::BF16, 12, BufferRole::Input}, {"h2", DType::F32, s, BufferRole::Handed},
               {"m", DType::F32, 6, BufferRole::Temporary}};
  p.inputs = {{"x", vector, 0, 0}, {"rng", {DType::I64, {2}, {}}, 7, -1}, {"state", {DType::BF16, {3, 4}, {1, 3}}, 8, -1, "bb", true}};
  p.inputs[1].draws = s * 4;
  Launch l = add_one_launch(0, 2, s);
  l.kernel = kKernel, l.buffers = {0, 1, 6, 2}, l.written = {false, false, false, true};
  l.bytes = s * 8, l.flops = sym::floor_div(s, 3) + 1, l.scratch_bytes_per_thread = 64, l.serial = true, l.where = "model.cpp:12";
  p.steps.push_back(l);
  p.steps.push_back(HostCall{"add.Tensor", &ops::get("add.Tensor"), {0, 1.5, Expr(1)}, {view(2, {s})}, {view(3, {u})}});
  external::OneDnnProblem product{{DType::F32, {2, 3}, {3, 1}}, {DType::F32, {3, 2}, {2, 1}}, {DType::F32, {2, 2}, {2, 1}}, {}, {}, true};
  product.post_ops = {{external::PostOpKind::Add, {DType::F32, {1, 2}, {2, 1}, 4}}, {external::PostOpKind::Relu, {}}};
  p.steps.push_back(LibraryCall{"onednn_gemm_add_relu", product, 0, {2, 10, 1}, "aa"});
  p.steps.push_back(Branch{"cond", view(2, {}), {}, {view(2, {s})}, {view(4, {s})}, {block(s, "yes", {0}), block(s, "no", {~0})}});
  p.steps.push_back(Loop{"scan", {view(4, {s})}, {view(2, {s, 1})}, {}, {view(9, {s})}, {block(s, "body", {0})}});
  Plan two = *std::get<Loop>(p.steps[4]).blocks[0].plan;
  two.buffers.push_back({"slice", DType::F32, 1, BufferRole::Input});
  two.inputs.push_back({"slice", {DType::F32, {1}, {}}, 2, 1});
  std::get<Loop>(p.steps[4]).blocks[0].plan = std::make_shared<const Plan>(two);
  Launch last = add_one_launch(9, 5, s);
  last.kernel = kKernel;
  p.steps.push_back(last);
  p.outputs = {{5, vector, -1, "model.cpp:15"}, {-1, {DType::BF16, {3, 4}, {}}, 2}};
  p.sites = {{"embedding", "model.cpp:3", -1, true}};
  return p;
}

PiecesProblem in_pieces() {
  PiecesProblem p;
  p.group = "tp", p.ranks = 4, p.stage = 1;
  p.product.m = p.product.n = p.product.k = 4, p.product.a.row = p.product.b.row = p.product.out.row = 4;
  return p;
}

Plan for_gpu() {
  Plan p;
  p.name = "gpu";
  p.device = Device::cuda();
  p.code_for = "sm_90a";
  for (auto role : {BufferRole::Input, BufferRole::Temporary, BufferRole::Temporary, BufferRole::Output})
    p.buffers.push_back({"b", DType::F16, 64, role});
  Launch l;
  l.name = "k", l.kernel = kKernel, l.buffers = {0, 1}, l.written = {false, true};
  l.gpu = {128, 1024, true, 256, 4, {{0, DType::F16, false, 8, {8, 8, 1, 1}, {8, 64, 64}, {8, 1, 1, 1}, 64, {}}}};
  l.gpu.tensor_maps[0].window = device::cuda::TensorMap::Window{{-1, -1}, {1, 1}, {2, 2}};
  p.steps.push_back(l);
  external::CublasLtProblem product;
  product.m = product.n = product.k = 8, product.has_bias = true, product.activation = external::CublasLtActivation::GeluTanh;
  product.a.row = 8, product.b = {4, 1, 8, 0};
  p.steps.push_back(LibraryCall{"cublaslt_gemm", product, 2, {0, 1, 2, 1}});
  external::CudnnProblem conv;
  conv.in_channels = conv.out_channels = conv.in_h = conv.in_w = 2, conv.window.pad[1] = 1, conv.has_bias = conv.relu = true;
  p.steps.push_back(LibraryCall{"cudnn_convolution_bias_relu", conv, 0, {0, 1, 3, 2}});
  p.steps.push_back(LibraryCall{"all_gather_in_pieces_1", in_pieces(), 0, {0, 1, 3}});
  p.inputs = {{"x", {DType::F16, {64}, {}}, 0, 0}};
  p.outputs = {{3, {DType::F16, {64}, {}}}};
  return p;
}

// Ranks of a group that meet, three of them, and GPUs that share memory.
Plan meeting() {
  using distributed::Kind;
  const Expr s = sym::symbol("s0", 1, 1000);
  Plan p;
  p.name = "meeting";
  p.symbols = {{s, false}};
  p.buffers = {{"x", DType::BF16, s, BufferRole::Input},
               {"sum", DType::BF16, s, BufferRole::Temporary},
               {"all", DType::BF16, s * 3, BufferRole::Temporary},
               {"parts", DType::BF16, s * 3, BufferRole::Output},
               {"shared", DType::I64, 1, BufferRole::Peers, "mesh0.tp.0"}};
  p.inputs = {{"x", {DType::BF16, {s}, {}}, 0, 0}};
  const auto flat = [](int buffer, const Expr& n) { return HostCall::View{buffer, DType::BF16, 0, {n}, {1}}; };
  CollectiveCall sum{.name = "_c10d_functional.all_reduce", .kind = Kind::AllReduce, .op = distributed::ReduceOp::Max, .group = "world"};
  sum.count = s, sum.input = flat(0, s), sum.output = flat(1, s), sum.where = "model.cpp:7";
  CollectiveCall gather{.name = "_c10d_functional.all_gather_into_tensor", .kind = Kind::AllGather, .group = "world", .ranks = 3};
  gather.count = s, gather.input = flat(1, s), gather.output = flat(2, s * 3);
  CollectiveCall exchange{.name = "_c10d_functional.all_to_all_single", .kind = Kind::AllToAll, .group = "a \"group\""};
  exchange.given = {s, s, s}, exchange.taken = {s * 3, 0, 0}, exchange.input = flat(2, s * 3), exchange.output = flat(3, s * 3);
  p.steps = {sum, gather, exchange};
  p.outputs = {{3, {DType::BF16, {s * 3}, {}}}};
  return p;
}

TEST(PlanText, ReadsAsTheHeaderSays) {
  Plan p = chain(1, true);
  p.options = {};
  std::get<Launch>(p.steps[0]).kernel = "6a0c";
  EXPECT_EQ(to_string(p),
            "plan(symbols=(s0 in 1..1000), name=\"chain\", device=\"cpu\", record=true) {\n"
            "  buffer 0(name=\"b0\", dtype=f32, numel=s0, role=input)\n"
            "  buffer 1(name=\"b1\", dtype=f32, numel=s0, role=output)\n"
            "  input(name=\"x\", type=f32[s0], buffer=0, user=0)\n"
            "  launch(name=\"add_one\", kernel=\"6a0c\", buffers=[0, 1], written=[false, true], params=[s0], tasks=floordiv(s0 + 15, 16))\n"
            "  output(buffer=1, type=f32[s0], where=\"step.cpp:7\")\n"
            "}\n");
}

TEST(PlanText, EveryFieldComesBack) {
  for (const Plan& p : {everything(), for_gpu(), meeting(), chain(3, false)}) {
    const std::string text = to_string(p);
    EXPECT_EQ(to_string(parse_plan(text)), text);
    EXPECT_EQ(to_string(read_plan(write_plan(p))), text);
    EXPECT_EQ(write_plan(parse_plan(text)), write_plan(p));
    for (auto& f : faults_of(p)) ADD_FAILURE() << f.rule << ": " << f.what;
  }
}

TEST(PlanText, ComplaintsSayWhere) {
  const std::string text = to_string(everything());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string t = text;
    const size_t at = t.find(from);
    EXPECT_NE(at, t.npos) << from;
    return user_error([&] { parse_plan(t.replace(at, from.size(), to)); });
  };
  EXPECT_TRUE(contains(with("role=input", "role=inputs"), "line 2, column 48: expected one of input, constant"));
  EXPECT_TRUE(contains(with("buffer 3(", "buffer 4("), "line 5"));
  EXPECT_TRUE(contains(with("numel=12", "numel=s9"), "the symbol s9 is not declared"));
  EXPECT_TRUE(contains(with("op=\"add.Tensor\"", "op=\"ad\""), "unknown operation \"ad\""));
  EXPECT_TRUE(contains(with("max_threads=2", "max_thread=2"), "max_thread"));
  EXPECT_TRUE(contains(with("tasks=", "task="), "expected tasks="));
  for (size_t n = 0; n < text.size() - 1; n += 7) EXPECT_THROW(parse_plan(text.substr(0, n)), UserError) << n;
}

// Damaged bytes are refused, or read as some plan; neither crashes, also where the checksum was made to fit.
TEST(PlanFile, DamageIsAnErrorThatSaysWhere) {
  Store s;
  s.kernels.add("object");
  s.constants.add("aa", Tensor::full(std::vector<int64_t>{3, 4}, 1));
  const std::string plan = write_plan(everything()), stored = write_store(s);
  EXPECT_TRUE(contains(user_error([&] { read_plan(plan.substr(0, plan.size() - 1)); }), "plan file, offset 20: expected"));
  EXPECT_TRUE(contains(user_error([&] { read_plan(stored); }), "plan file, offset 0: expected \"TOROIDPL\""));
  std::string other = plan;
  other[8] = 9;
  EXPECT_TRUE(contains(user_error([&] { read_plan(other); }), fmt::format("expected version {}, it has 9", kPlanVersion)));
  for (const std::string& whole : {plan, stored}) {
    const bool is_plan = whole == plan;
    const auto read = [&](const std::string& bytes) {
      if (is_plan)
        faults_of(read_plan(bytes));
      else
        read_store(bytes);
    };
    EXPECT_NO_THROW(read(whole));
    for (size_t n = 0; n < whole.size(); ++n) {
      EXPECT_THROW(read(whole.substr(0, n)), UserError) << n;
      std::string bad = whole;
      bad[n] = static_cast<char>(bad[n] ^ 0x41);
      EXPECT_THROW(read(bad), UserError) << n;
    }
    const std::string contents = whole.substr(kFrameHead, whole.size() - kFrameHead - 8);
    std::mt19937 random(7);
    int refused = 0;
    for (int round = 0; round < 4000; ++round) {
      std::string bad = contents;
      for (unsigned i = 0; i <= random() % 3; ++i) bad[random() % bad.size()] = static_cast<char>(random());
      if (round % 8 == 0) bad.resize(random() % bad.size());
      if (round % 8 == 1) bad.insert(random() % bad.size(), 1 + random() % 9, '\xff');
      try {
        read(framed(whole.substr(0, 8), kPlanVersion, bad));
      } catch (const UserError& e) {
        ++refused;
        EXPECT_TRUE(contains(e.what(), ", offset ") && contains(e.what(), "expected ")) << e.what();
      }
    }
    EXPECT_GT(refused, 1000);
  }
}

// Each rule refuses what breaks it.
TEST(PlanRules, PlantedFaultsAreRefusedByTheirRule) {
  const auto refuses = [](const char* rule, Plan p, const std::function<void(Plan&)>& plant) {
    EXPECT_TRUE(faults_of(p).empty());
    plant(p);
    const auto faults = faults_of(p);
    ASSERT_FALSE(faults.empty()) << rule;
    for (auto& f : faults) EXPECT_EQ(f.rule, rule) << f.what;
    EXPECT_TRUE(contains(user_error([&] { verify(p); }), std::string("(rule ") + rule + ")"));
    EXPECT_THROW(load(p, store(), p.device), UserError);
  };
  const auto launch = [](Plan& p) -> Launch& { return std::get<Launch>(p.steps[0]); };
  const auto change_block = [](Block& b, const std::function<void(Plan&)>& f) {
    Plan p = *b.plan;
    f(p);
    b.plan = std::make_shared<const Plan>(p);
  };
  const Expr stranger = sym::symbol("s9", 0, 5);
  const auto e = everything();
  refuses("buffers-in-range", e, [&](Plan& p) { launch(p).buffers[0] = 99; });
  refuses("buffers-in-range", e, [&](Plan& p) { std::get<HostCall>(p.steps[1]).inputs[0].buffer = -1; });
  refuses("buffers-in-range", e, [&](Plan& p) { p.outputs[0].buffer = 11; });
  refuses("buffers-in-range", e, [&](Plan& p) { p.inputs[0].buffer = -2; });
  refuses("buffers-in-range", e, [&](Plan& p) { std::get<Branch>(p.steps[3]).operands[0].buffer = 50; });
  refuses("buffer-sizes", e, [](Plan& p) { p.buffers[10].numel = -6; });
  refuses("roles", e, [](Plan& p) { p.buffers[1].constant = ""; });
  refuses("roles", e, [](Plan& p) { p.buffers[2].constant = "aa"; });
  refuses("roles", e, [](Plan& p) { p.buffers[7].role = BufferRole::Temporary; });
  refuses("inputs-bound", e, [](Plan& p) { p.inputs[0].user = 1; });
  refuses("inputs-bound", e, [](Plan& p) { p.inputs[0].constant = "aa"; });
  refuses("inputs-bound", e, [](Plan& p) { p.inputs[1].draws = {}; });
  refuses("symbols-declared", e, [&](Plan& p) { launch(p).params[0] = stranger; });
  refuses("symbols-declared", e, [&](Plan& p) { p.guards[0].a = stranger; });
  refuses("symbols-declared", e, [](Plan& p) { p.symbols.push_back(p.symbols[0]); });
  refuses("symbols-bound", e, [&](Plan& p) { launch(p).tasks = p.symbols[1].first; });
  refuses("symbols-bound", e, [&](Plan& p) { launch(p).flops = p.symbols[1].first; });
  refuses("symbols-bound", e, [&](Plan& p) { launch(p).gpu.counters = p.symbols[1].first; });
  refuses("symbols-bound", e, [&](Plan& p) {
    std::get<HostCall>(p.steps[1]).outputs[0].sizes[0] = p.symbols[0].first, std::get<Launch>(p.steps[5]).params[0] = p.symbols[1].first;
  });
  refuses("views-inside", e, [](Plan& p) { std::get<HostCall>(p.steps[1]).inputs[0].strides.clear(); });
  refuses("views-inside", e, [](Plan& p) { std::get<HostCall>(p.steps[1]).inputs[0] = view(1, {13}); });
  refuses("views-inside", e,
          [](Plan& p) { std::get<HostCall>(p.steps[1]).inputs[0] = view(1, {12}), std::get<HostCall>(p.steps[1]).inputs[0].offset = 1; });
  refuses("launch-arguments", e, [&](Plan& p) { launch(p).written.pop_back(), launch(p).written[2] = true; });
  refuses("launch-arguments", e, [&](Plan& p) { launch(p).kernel = ""; });
  refuses("launch-arguments", e, [&](Plan& p) { launch(p).gpu.threads = 32; });
  refuses("launch-arguments", for_gpu(), [&](Plan& p) { launch(p).gpu.threads = 2048; });
  refuses("launch-arguments", for_gpu(), [&](Plan& p) { launch(p).gpu.tensor_maps[0].buffer = 2; });
  refuses("writes", e, [&](Plan& p) { launch(p).written[1] = true; });
  refuses("writes", e, [&](Plan& p) { launch(p).written[0] = true; });
  refuses("read-before-write", e, [](Plan& p) { p.steps.erase(p.steps.begin() + 3); });
  refuses("outputs-defined", e, [](Plan& p) { p.steps.pop_back(); });
  refuses("mutations", e, [](Plan& p) { p.outputs[1].mutates = 3; });
  refuses("mutations", e, [](Plan& p) { p.inputs[2].mutated = false; });
  refuses("host-calls", e, [](Plan& p) { std::get<HostCall>(p.steps[1]).args[0] = 1; });
  refuses("host-calls", e, [](Plan& p) { std::get<HostCall>(p.steps[1]).args.pop_back(); });
  refuses("host-calls", e, [](Plan& p) { std::get<HostCall>(p.steps[1]).op = nullptr; });
  // A plan of a function of another process, whose name is another function's here.
  static const auto opaque = opaque_op(
      "plan_test::opaque(Tensor x, Tensor[] list, int n) -> Tensor",
      [](const MemoryType& x, const std::vector<MemoryType>&, int64_t) { return x; },
      [](InputMemory, const std::vector<InputMemory>&, int64_t, OutputMemory) {});
  static const auto writes = opaque_op("plan_test::writes(Tensor(a!) x) -> ()", [](OutputMemory) {});
  using Args = std::vector<Arg<int>>;
  const auto calls = [](Plan& p, const CustomOpBase& op, Args args) {
    auto& h = std::get<HostCall>(p.steps[1]);
    h.name = op.name(), h.op = &op.op(), h.args = std::move(args);
  };
  Plan fits = e;
  calls(fits, opaque, {0, std::vector<int>{0}, Expr(1)});
  EXPECT_TRUE(faults_of(fits).empty());
  for (const Args& args : {Args{0, 0, Expr(1)}, Args{-1, std::vector<int>{0}, Expr(1)}, Args{0, std::vector<int>{0}, 0},
                           Args{2.0, std::vector<int>{0}, Expr(1)}})
    refuses("host-calls", e, [&](Plan& p) { calls(p, opaque, args); });
  refuses("host-calls", fits, [](Plan& p) { std::get<HostCall>(p.steps[1]).outputs.push_back(view(2, {1})); });
  refuses("host-calls", e, [&](Plan& p) { calls(p, writes, {0}); });
  refuses("library-calls", e, [](Plan& p) { std::get<LibraryCall>(p.steps[2]).buffers.pop_back(); });
  refuses("library-calls", e, [](Plan& p) { std::get<LibraryCall>(p.steps[2]).constant = ""; });
  refuses("library-calls", for_gpu(), [](Plan& p) { std::get<LibraryCall>(p.steps[1]).choice = -1; });
  refuses("blocks", e, [](Plan& p) { std::get<Branch>(p.steps[3]).blocks.pop_back(); });
  refuses("blocks", e, [](Plan& p) { std::get<Branch>(p.steps[3]).blocks[0].results = {1}; });
  refuses("blocks", e, [](Plan& p) { std::get<Branch>(p.steps[3]).operands.clear(); });
  refuses("blocks", e, [](Plan& p) { std::get<Branch>(p.steps[3]).blocks[1].plan = nullptr; });
  refuses("blocks", e, [](Plan& p) { p.buffers[4].role = BufferRole::Temporary; });
  refuses("launch-arguments", e, [&](Plan& p) {
    change_block(std::get<Branch>(p.steps[3]).blocks[0], [](Plan& b) { std::get<Launch>(b.steps[0]).kernel = ""; });
  });
  const auto collective = [](Plan& p, size_t i) -> CollectiveCall& { return std::get<CollectiveCall>(p.steps[i]); };
  const auto m = meeting();
  refuses("collectives", m, [&](Plan& p) { collective(p, 0).count = 7; });
  refuses("collectives", m, [&](Plan& p) { collective(p, 0).group = ""; });
  refuses("collectives", m, [&](Plan& p) { collective(p, 0).output.dtype = DType::F16; });
  refuses("collectives", m, [&](Plan& p) { collective(p, 1).ranks = 2; });
  refuses("collectives", m, [&](Plan& p) { collective(p, 1).root = -1; });
  refuses("collectives", m, [&](Plan& p) { collective(p, 2).taken.pop_back(); });
  refuses("collectives", m, [&](Plan& p) { collective(p, 2).given[0] = 1; });
  refuses("roles", m, [](Plan& p) { p.buffers[4].constant = ""; });
  refuses("faults", e, [](Plan& p) { p.sites.clear(); });
  refuses("faults", e, [](Plan& p) { p.buffers.push_back({"g", DType::I64, 8, BufferRole::Faults}); });
}

TEST(Store, NamesWhatItHas) {
  Store s;
  const Tensor a = Tensor::full(std::vector<int64_t>{4}, 1), b = Tensor::full(std::vector<int64_t>{4}, 1);
  EXPECT_EQ(s.kernels.add("one"), s.kernels.add("one"));
  EXPECT_NE(s.kernels.add("one"), s.kernels.add("two"));
  EXPECT_EQ(s.constants.add(a), s.constants.add(a)) << "the same tensor";
  EXPECT_NE(s.constants.add(a), s.constants.add(b)) << "another of the same contents";
  EXPECT_TRUE(contains(user_error([&] { s.kernels.at("none"); }), "no kernel none"));
  EXPECT_TRUE(contains(user_error([&] { s.constants.at("none"); }), "no constant none"));
  Plan p = chain(1, false);
  EXPECT_TRUE(contains(user_error([&] { by_content(p, store()); }), "a function of this process"));
  std::get<Launch>(p.steps[0]).kernel = s.kernels.add("one");
  p.buffers.push_back({"w", DType::F32, 4, BufferRole::Constant, s.constants.add(a)});
  p.buffers.push_back({"w", DType::F32, 4, BufferRole::Constant, s.constants.add(b)});
  const Loadable l = by_content(p, s);
  EXPECT_EQ(l.plan.buffers[2].constant, l.plan.buffers[3].constant);
  EXPECT_EQ(l.store.constants.all().size(), 1u);
  EXPECT_EQ(l.store.kernels.all().size(), 1u) << "what the plan does not name is left out";
  p.buffers[2] = {"state", DType::F32, 4, BufferRole::Input};
  p.inputs.push_back(
      {"state", {DType::F32, {4}, {}}, 2, -1, s.constants.add(a.as_strided(std::vector<int64_t>{4}, std::vector<int64_t>{1})), true});
  p.buffers[3].constant = s.constants.add(a);
  EXPECT_TRUE(contains(user_error([&] { by_content(p, s); }), "lies, too; such a program cannot be stored"));
}

TEST(Load, RefusesOtherMachines) {
  Plan p = chain(1, false);
  EXPECT_TRUE(contains(user_error([&] { load(p, store(), Device::cuda()); }), "was compiled for cpu, and cannot be loaded on cuda:0"));
  p.code_for = code_for_this_processor();
  EXPECT_NO_THROW(load(p, store(), Device::cpu()));
  p.code_for = "scalar";
  EXPECT_NO_THROW(load(p, store(), Device::cpu()));
  p.code_for = "avx512 +amx";
  EXPECT_THROW(load(p, store(), Device::cpu()), EnvironmentError);
  std::get<Launch>(p.steps[0]).kernel = "none";
  p.code_for = "";
  EXPECT_TRUE(contains(user_error([&] { load(p, store(), Device::cpu()); }), "the store has no kernel none"));
}

}  // namespace
}  // namespace toroid::exec
