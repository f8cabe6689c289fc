// Targets of tests that schedule.
#pragma once

#include <string>

#include "sched/absorb.h"
#include "target/target.h"

namespace toroid::sched {

// Whose answer is always the same.
struct Answering : target::Target {
  explicit Answering(std::string answer, int workers = 1) : Target({.workers = workers}), answer_(std::move(answer)) {}
  std::string producer_refusal(const program::Node&) const override { return answer_; }
  std::string pair_refusal(const program::Node&) const override { return answer_; }
  std::string sums_refusal(const program::Node&, const program::Program&) const override { return answer_; }
  std::string bringing_refusal(const program::Node&) const override { return answer_; }

 private:
  const std::string answer_;
};

// Whose threads compute rows again.
struct Threads : target::Target {
  explicit Threads(int threads) : Target({.workers = threads}) {}
  std::string producer_refusal(const program::Node& product) const override { return recompute_refusal(product, facts().workers); }
};

}  // namespace toroid::sched
