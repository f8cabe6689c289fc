// Memory for results that later calls write again (option capture_results=pool): who has what of it, and who may overwrite whom.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor_impl.h"

namespace toroid::exec {

// Calls of the calling thread within one of these belong together: only calls after it may overwrite their results (see
// cudagraph_mark_step_begin).
class CallScope {
 public:
  CallScope();
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
};
void mark_step_begin();

// Where the results of one recorded call are.
struct Placement {
  struct Place {
    int buffer = -1;  // of the plan
    int64_t offset = 0, bytes = 0;
  };
  std::vector<Place> places;
  int64_t bytes() const;  // from the first offset to the last byte
};

// Of one lane, hence used by one call at a time.
class SharedResults {
 public:
  // Places for results, each a buffer and its bytes, away from what must stay: results of this step that somebody holds, and `inputs`.
  Placement place(std::span<const std::pair<int, int64_t>> results, std::span<const Tensor> inputs);
  // Whether results may be written to these places now.
  bool fits(const Placement& p, std::span<const Tensor> inputs);
  // Before they are written: what earlier steps left there is moved elsewhere where somebody still holds it, or (move = false) reading it
  // is an error from now on, which names `by`.
  void claim(const Placement& p, bool move, const std::string& by);
  // A result in its place. `what`: "output 0 of decode (computed at model.cpp:12)".
  Tensor lend(const Placement::Place& place, std::span<const int64_t> sizes, DType dtype, const std::string& what);

  // Memory for so many bytes. What is lent already stays where it is.
  void reserve(int64_t bytes, const std::function<std::shared_ptr<Storage>(size_t)>& allocate);
  const std::byte* data() const { return slab_ ? slab_->data : nullptr; }
  std::byte* data() { return slab_ ? slab_->data : nullptr; }
  int64_t bytes() const { return slab_ ? static_cast<int64_t>(slab_->bytes) : 0; }
  bool holds_results();  // that are alive
  void release() { slab_ = nullptr; }

 private:
  struct Range {
    int64_t begin = 0, end = 0;
  };
  struct Result {
    std::weak_ptr<Storage> memory;
    const Storage* slab;
    Range range;
    uint64_t step;
    std::string what;
  };
  std::vector<Range> protected_ranges(std::span<const Tensor> inputs);
  void forget_dead();

  std::shared_ptr<Storage> slab_;
  std::vector<Result> results_;
};

}  // namespace toroid::exec
