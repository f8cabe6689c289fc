// Keys of programs on disk: whatever reaches what a compile makes is in them, found by planting a difference everywhere.
#include "compile/program_key.h"

#include <gtest/gtest.h>

#include <set>

#include "base/option_table.h"
#include "compile/harness.h"
#include "errors.h"
#include "graph/random_graph.h"

namespace toroid::compiler {
namespace {

using test::contains;

// Options of the process that do not reach what is made. One that is added has to be put here, or into keys.
const std::set<std::string_view> kOfTheProcess = {
    "cache", "cache_programs", "cache_wait_ms",       "cache_dir",      "cache_size_mb",     "compile_threads", "spin_us",
    "logs",  "cuda_dir",       "cuda_shared_percent", "onednn_library", "replay_timeout_ms", "dist_timeout_ms", "tune_worker"};

// Another value than the default.
std::string other_value(const OptionRow& row) {
  if (row.type == OptionType::Bool) return row.default_value == "1" ? "0" : "1";
  if (row.type == OptionType::Int) return row.default_value == "1" ? "2" : "1";
  for (const char* value :
       {"scalar", "max-autotune", "per-node", "refuse", "pool", "any", "onednn", "0.5", "epilogue", "template", "4", "x"})
    try {
      if (canonical(row, value, "a test") != row.default_value) return value;
    } catch (const UserError&) {
    }
  ADD_FAILURE() << "no value of " << row.name << " is known to this test";
  return "";
}

compiler::Setup setup_with(const std::string& mode, std::string_view name = "", const std::string& value = "") {
  compiler::Setup setup;
  setup.options.set("mode", mode);
  if (!name.empty()) setup.options.set(name, value);
  return setup;
}

TEST(ProgramKey, HasEveryOptionThatDecides) {
  size_t decided = 0;
  for (const OptionRow& row : option_rows()) {
    if (row.scope == OptionScope::Process) continue;
    for (const std::string mode : {"default", "reduce-overhead", "max-autotune"}) {
      const std::string value = row.name == "mode" ? "max-autotune-no-cudagraphs" : other_value(row);
      const ProgramKey was = key_of("f", setup_with(mode)), now = key_of("f", setup_with(mode, row.name, value));
      const bool decides = row.scope == OptionScope::Code || row.scope == OptionScope::Function ||
                           (row.scope == OptionScope::Tuning && mode == "max-autotune") ||
                           (row.scope == OptionScope::Recording && mode != "default");
      EXPECT_EQ(was.hash() != now.hash(), decides) << row.name << "=" << value << " in mode " << mode;
      decided += decides;
      const std::string said = difference(was, now);
      EXPECT_EQ(contains(said, std::string(row.name)), decides) << row.name << ": " << said;
    }
  }
  EXPECT_GT(decided, 50u);
}

TEST(ProgramKey, OptionsOfTheProcessAreKnown) {
  for (const OptionRow& row : option_rows()) {
    if (row.scope != OptionScope::Process || row.name == "threads") continue;
    EXPECT_TRUE(kOfTheProcess.count(row.name)) << "does the option " << row.name << " reach what a compile makes? Then keys need it";
  }
  const ProgramKey was = key_of("f", {});
  const ScopedOption one("threads", was.hash() == key_of("f", setup_with("default", "max_threads", "1")).hash() ? "2" : "1");
  EXPECT_NE(was.hash(), key_of("f", {}).hash()) << difference(was, key_of("f", {}));
}

TEST(ProgramKey, WatchedRunsAreNotKept) {
  for (const auto& [name, value] : {std::pair("compile_debug", "1"), {"verify_passes", "1"}, {"kernel_dir", "/tmp/kernels"}})
    EXPECT_TRUE(contains(refusal_to_keep(setup_with("default", name, value)), name));
  EXPECT_EQ(refusal_to_keep(setup_with("default")), "");
  for (const std::string artifact : {"fusion", "graph"}) {
    const ScopedOption logs("logs", artifact);
    EXPECT_TRUE(contains(refusal_to_keep(setup_with("default")), artifact));
  }
}

TEST(ProgramKey, TensorsOfOtherDevicesAreNotKept) {
  auto g = graph::parse("graph \"g\"(%x: f32[2], param %w: f32[2]) {\n  %y: f32[2] = aten.add.Tensor(%x, %w)\n  return %y\n}\n");
  g->inputs[1].data = Tensor::full(std::vector<int64_t>{2}, 1);
  const std::vector<Tensor> bound = {{}, g->inputs[1].data};
  EXPECT_EQ(refusal_to_keep(*g, Device::cpu(), bound), "");
  EXPECT_TRUE(contains(refusal_to_keep(*g, Device::cuda(), bound), "captures a tensor of another device"));
  EXPECT_EQ(refusal_to_keep(*g, Device::cuda(), {}), "") << "a model's own weights are kept with its program";
  g->inputs[1].kind = graph::InputKind::Constant;
  EXPECT_EQ(refusal_to_keep(*g, Device::cuda(), bound), "") << "its elements are part of the key";
}

// Each part, in the place of which another value is another key that names it.
TEST(ProgramKey, EveryPartCountsAndIsNamed) {
  compiler::Setup setup;
  setup.donated = {0};
  ProgramKey key = key_of("f", setup);
  add_graph(key, *graph::random_graph(3), setup);
  for (const char* name : {"version", "toroid", "compiler", "target", "processor", "options", "donated inputs", "graph"})
    EXPECT_EQ(std::count_if(key.parts.begin(), key.parts.end(), [&](auto& p) { return p.first == name; }), 1) << name;
  for (auto& part : key.parts) {
    ProgramKey other = key;
    for (auto& p : other.parts)
      if (p.first == part.first) p.second = part.first == "options" ? "allow_tf32=1" : part.second + "x";
    EXPECT_NE(key.hash(), other.hash()) << part.first;
    EXPECT_TRUE(contains(difference(key, other), part.first == "options" ? "allow_tf32" : part.first)) << difference(key, other);
  }
  ProgramKey shorter = key;
  shorter.parts.pop_back();
  EXPECT_NE(key.hash(), shorter.hash());
  EXPECT_NE(difference(key, shorter), "");
}

Hash128 hash_of_graph(const graph::Graph& g, bool frozen = false, const char* mode = "default") {
  ProgramKey key{"g"};
  compiler::Setup setup;
  setup.options.set("mode", mode);
  if (frozen) setup.options.set("freezing", "1");
  add_graph(key, g, setup);
  return key.hash();
}

// Changes one argument that is no tensor; whether there was one to change.
bool change(graph::NodeArg& a) {
  if (auto* x = std::get_if<Expr>(&a)) return *x = *x + Expr(1), true;
  if (auto* x = std::get_if<double>(&a)) return *x = *x == 0 ? 1 : -*x, true;
  if (auto* x = std::get_if<bool>(&a)) return *x = !*x, true;
  if (auto* x = std::get_if<std::string>(&a)) return *x += "x", true;
  if (auto* x = std::get_if<DType>(&a)) return *x = *x == DType::F32 ? DType::F64 : DType::F32, true;
  if (auto* x = std::get_if<std::vector<Expr>>(&a); x && !x->empty()) return x->back() = x->back() + Expr(1), true;
  if (auto* x = std::get_if<std::vector<double>>(&a); x && !x->empty()) return x->back() += 1, true;
  if (auto* x = std::get_if<std::vector<bool>>(&a); x && !x->empty()) return x->back() = !x->back(), true;
  return false;
}

TEST(ProgramKey, HasEveryAttributeTypeOrderAndPlaceOfAGraph) {
  size_t attributes = 0, operands = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const auto g = graph::random_graph(seed, {.control_flow = seed % 4 == 0});
    const Hash128 was = hash_of_graph(*g);
    EXPECT_EQ(was, hash_of_graph(*graph::clone(*g))) << seed;
    const auto expect_other = [&](const std::string& what) { EXPECT_NE(was, hash_of_graph(*g)) << seed << ": " << what; };
    for (auto& n : g->nodes) {
      for (size_t i = 0; i < n->args.size(); ++i) {
        const graph::NodeArg before = n->args[i];
        if (auto* v = std::get_if<graph::Value*>(&n->args[i]); v && *v && *v != g->inputs[0].value) {
          *v = g->inputs[0].value, ++operands;
          expect_other(n->op->name + ", another operand");
        } else if (change(n->args[i])) {
          ++attributes;
          expect_other(fmt::format("{}, argument {}", n->op->name, i));
        }
        n->args[i] = before;
      }
      const std::string where = n->where;
      n->where += "x", expect_other("source line");
      n->where = where;
      for (auto* v : n->results) {
        const TensorType type = v->type;
        v->type.dtype = type.dtype == DType::F32 ? DType::F64 : DType::F32, expect_other(n->op->name + ", dtype");
        v->type = type;
      }
    }
    for (auto& in : g->inputs) {
      if (in.kind == graph::InputKind::Random) continue;
      const auto kind = in.kind;
      in.kind = kind == graph::InputKind::User ? graph::InputKind::Buffer : graph::InputKind::User, expect_other("kind of input");
      in.kind = kind;
    }
    for (auto& s : g->symbols) {
      const auto hint = s.hint;
      const Hash128 tuned = hash_of_graph(*g, false, "max-autotune");
      s.hint = hint.value_or(6) + 1;
      EXPECT_EQ(was, hash_of_graph(*g)) << seed << ": a program that is not tuned serves other usual sizes, too";
      EXPECT_NE(tuned, hash_of_graph(*g, false, "max-autotune")) << seed << ": usual size";
      s.hint = hint;
    }
    if (!g->nodes.empty()) {
      sym::Guard planted;
      planted.rel = sym::Rel::Ge, planted.a = g->symbols.empty() ? Expr(1) : g->symbols[0].expr, planted.b = 1;
      g->guards.push_back(planted);
      expect_other("guard");
      g->guards.pop_back();
    }
    EXPECT_EQ(was, hash_of_graph(*g)) << seed << ": a change was not undone";
  }
  EXPECT_GT(attributes, 300u);
  EXPECT_GT(operands, 300u);
}

TEST(ProgramKey, HasTheElementsThatAreCompiledInAndNoOthers) {
  const auto make = [](graph::InputKind kind, const Tensor& a, const Tensor& b) {
    auto g = graph::parse(
        "graph \"g\"(%x: f32[2], param %w: f32[2], param %v: f32[2]) {\n  %y: f32[2] = aten.add.Tensor(%x, %w)\n"
        "  %z: f32[2] = aten.add.Tensor(%y, %v)\n  return %z\n}\n");
    g->inputs[1].kind = g->inputs[2].kind = kind;
    g->inputs[1].data = a, g->inputs[2].data = b;
    return g;
  };
  const auto tensor = [](double v) { return Tensor::full(std::vector<int64_t>{2}, v); };
  using graph::InputKind;
  const Tensor shared = tensor(1);
  for (auto [kind, frozen] : {std::pair(InputKind::Constant, false), {InputKind::Parameter, true}, {InputKind::Buffer, true}})
    EXPECT_NE(hash_of_graph(*make(kind, tensor(1), tensor(1)), frozen), hash_of_graph(*make(kind, tensor(1), tensor(2)), frozen));
  EXPECT_EQ(hash_of_graph(*make(InputKind::Buffer, tensor(1), tensor(1))), hash_of_graph(*make(InputKind::Buffer, tensor(1), tensor(2))));
  EXPECT_NE(hash_of_graph(*make(InputKind::Buffer, tensor(1), tensor(1))), hash_of_graph(*make(InputKind::Buffer, shared, shared)));
}

}  // namespace
}  // namespace toroid::compiler
