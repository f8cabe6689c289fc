// Eager execution: each operation on ordinary tensors is a program of one operation, compiled once and kept.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "front/backend.h"
#include "front/guards.h"

namespace toroid::front {

// Safe to use from several threads.
class EagerDispatcher : public Dispatcher {
 public:
  // The one of the process.
  static EagerDispatcher& instance();

  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override;
  bool decide(const sym::Relation& r) override;
  void require(const sym::Relation& r, const std::string& error) override { Dispatcher::require(r, error); }
  int64_t specialize(const Expr& e) override;
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override;
  Tensor move(const Tensor& t, const Device& device, const std::source_location& where) override {
    return Dispatcher::move(t, device, where);
  }
  bool copy(const Tensor& from, const Tensor& to) override;

  struct Counts {
    int64_t compiles = 0;                          // programs of one operation made
    int64_t reference = 0;                         // calls by the reference evaluator
    std::map<std::string, std::string> fallbacks;  // operation (and "on cuda") -> why it is not compiled
  };
  Counts counts() const;
  // Drops all programs.
  void reset();
  // "compiled" unless set otherwise.
  void set_backend(Backend backend);

 private:
  struct Variant {
    Guards guards;
    Program program;
  };
  // What of a call's tensors a program leaves open, so that it serves other calls, too.
  struct Open {
    std::vector<std::vector<bool>> sizes;  // empty: none
    std::vector<bool> strides;             // empty: none
    bool any_size() const;
  };
  // All variants of one operation with equal attributes, dtypes and ranks.
  struct Family {
    std::vector<std::shared_ptr<const Variant>> variants;  // the latest last
    std::vector<std::vector<int64_t>> sizes;               // of the tensors of the latest variant
    Open seen;                                             // sizes that have differed between calls, tensors that were not contiguous
    bool fixed = false;                                    // it cannot be compiled with open sizes: each size is a variant
    bool refused = false;                                  // nor with known ones: the reference evaluator runs it
    // The machine could not compile it (no disk space, no compiler), which may pass: no other attempt before, milliseconds after the last.
    std::chrono::steady_clock::time_point not_before = {};
    int64_t pause_ms = 0;
    Open see(std::span<const Tensor* const> tensors, const Device& device);
  };
  struct Traced {
    std::unique_ptr<graph::Graph> graph;
    std::vector<int> positions;      // of its inputs among the call's tensors
    std::vector<std::string> names;  // of its inputs, for reasons
    std::vector<bool> any_layout;    // of its inputs: the program makes them dense
  };
  using FamilyKey = std::string;

  std::vector<Tensor> call_taped(const ops::Op& op, CallArgs args, const std::source_location& where);
  std::vector<Tensor> call_part(const ops::Op& op, CallArgs args, const std::source_location& where);
  std::vector<Tensor> functional(const ops::Op& op, CallArgs args, const Device& device, const std::source_location& where);
  std::vector<Tensor> parts(const ops::Op& op, const CallArgs& args, const Device& device);
  std::vector<Tensor> opaque(const ops::Op& op, CallArgs args, const Device& device, const std::source_location& where);
  std::vector<Tensor> reference(const ops::Op& op, CallArgs args, const Device& device, const std::source_location& where);
  std::shared_ptr<const Variant> find(const FamilyKey& key, std::span<const Tensor* const> tensors) const;
  std::shared_ptr<const Variant> make(const ops::Op& op, const FamilyKey& key, const CallArgs& args, std::span<const Tensor* const> tensors,
                                      const Device& device, const CompileOptions& options, const std::source_location& where);
  void try_later(const ops::Op& op, const FamilyKey& key, const Device& device, const EnvironmentError& e);
  void drop_programs();
  Family& family(const ops::Op& op, const FamilyKey& key);
  static Traced trace(const ops::Op& op, const CallArgs& args, const Open& open, const Device& device, const std::source_location& where);

  mutable std::shared_mutex mutex_;
  std::unordered_map<FamilyKey, Family> families_;
  std::unordered_map<const ops::Op*, size_t> family_counts_;
  size_t kept_ = 0;  // programs of all families
  std::map<std::pair<const ops::Op*, DeviceType>, std::string> fallbacks_;
  class Turn;
  std::mutex turns_mutex_;
  std::condition_variable turn_ended_;
  std::multiset<FamilyKey> making_;  // families that a program is being made for, with turns_mutex_
  Backend backend_;
  std::atomic<int64_t> compiles_{0}, reference_{0};
};

// Moves a call's tensors to where it runs: those without dimensions, and indices, may come from the CPU.
void bring(CallArgs& args, const Device& device);

// Runs a traced graph operation by operation: views share memory and writes happen where they stand, whatever the inputs overlap with.
std::vector<Tensor> run_one_by_one(const graph::Graph& g, std::span<const Tensor> user_inputs);

}  // namespace toroid::front
