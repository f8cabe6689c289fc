// A compiler for tests of tuning: its code is the fused loops' text and the configurations, and its plans do nothing of interest.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/check.h"
#include "exec/plans.h"
#include "sched/passes.h"
#include "tune/programs.h"
#include "tune/region/caller.h"

namespace toroid::tune {

class FakePipeline : public std::enable_shared_from_this<FakePipeline> {
 public:
  explicit FakePipeline(std::string device = "a device") : device_(std::move(device)) {}

  std::atomic<int> compiles{0}, schedules{0}, plans{0}, failures{0}, alive{0};
  std::vector<program::Config> ways;
  std::string generators;  // part of all texts of kernels
  std::function<std::vector<program::Config>(const program::Config&)> neighbours;
  std::function<void()> before_compile;

  std::shared_ptr<const Pipeline> get() {
    auto p = std::make_shared<Pipeline>();
    p->target = std::make_shared<FakeTarget>(shared_from_this());
    p->build = [self = shared_from_this()](program::Program scheduled) { return std::make_unique<Made>(self, std::move(scheduled)); };
    return p;
  }

 private:
  struct FakeTarget : target::Target {
    explicit FakeTarget(std::shared_ptr<FakePipeline> of) : Target({.key = of->device_}), of_(std::move(of)) {}
    std::span<const target::ProgramPass> passes(program::Stage to) const override {
      static constexpr target::ProgramPass kSchedule[] = {sched::kInlineDefaults, sched::kFuse};
      if (to == program::Stage::Lowered) return {};
      ++of_->schedules;
      return kSchedule;
    }
    std::vector<program::Config> proposals(const program::Program&, size_t) const override { return of_->ways; }
    std::vector<program::Config> neighbours(const program::Program&, size_t, const program::Config& from) const override {
      return of_->neighbours(from);
    }

   private:
    const std::shared_ptr<FakePipeline> of_;
  };

  class Made : public Build {
   public:
    Made(std::shared_ptr<FakePipeline> of, const program::Program& scheduled) : of_(std::move(of)) {
      ++of_->alive;
      for (auto& n : scheduled.nodes) {
        codegen::KernelText k;
        k.source = loop::to_string(n.domain, n.body) + program::to_string(n.config) + of_->generators;
        kernels_.push_back(std::move(k));
      }
    }
    ~Made() override { --of_->alive; }
    void compile() override {
      if (of_->before_compile) of_->before_compile();
      if (of_->failures > 0) {
        --of_->failures;
        fail<InternalError>("planted");
      }
      ++of_->compiles;
    }
    exec::Loadable plan() override {
      ++of_->plans;
      return {exec::chain(1, false), exec::store()};
    }
    const std::vector<codegen::KernelText>& kernels() const override { return kernels_; }

   private:
    const std::shared_ptr<FakePipeline> of_;
    std::vector<codegen::KernelText> kernels_;
  };

  const std::string device_;
};

// An operation with two implementations, "ring" (two loops that end in one) and "tree" (one), then a root and another loop: %0 -> %1 -> %2
// -> %3.
inline program::Program reduced_and_scaled(const char* last = "Sqrt") {
  const auto way = [](const char* op, const std::string& name) {
    auto p = std::make_shared<program::Program>();
    add_input(*p, "x");
    p->new_buffer("y", DType::F32, kPoints, loop::BufferKind::Temporary);
    p->nodes.push_back(unary(op, 0, 1, 0));
    set_output(*p, 1);
    program::Alternative a;
    a.name = name;
    a.program = p;
    a.key = name;
    return a;
  };
  program::Program p = chain_of_loops(3);
  p.nodes[2] = unary(last, 2, 3, 2);
  program::Open open;
  open.name = "all_reduce";
  open.inputs = {{{0, DType::F32, 0, {1}}, {kPoints}}};
  open.outputs = {{{1, DType::F32, 0, {1}}, {kPoints}}};
  open.alternatives = {way("Neg", "ring"), way("Abs", "tree")};
  p.nodes[0].body = {};
  p.nodes[0].domain = {};
  p.nodes[0].problem = open;
  p.nodes[0].origins = {"all_reduce"};
  p.nodes[1].origins = {"relu"};
  p.nodes[2].origins = {"scale"};
  return p;
}

}  // namespace toroid::tune
