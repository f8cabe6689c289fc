// Indices in tensors that are out of range, and divisors that are 0: where they may come from, the record that kernels leave them in, and
// the error that they are.
#pragma once

#include <cstdint>
#include <string>

namespace toroid {

// An operand of an operation that holds indices, or that it divides integers by.
struct IndexSite {
  static constexpr int64_t kDivisor = -2, kRank = -3;

  std::string operation, where;  // "embedding"; source line, or empty
  int64_t dim = 0;               // of the tensor that is indexed; -1: indices count all its elements; kDivisor: checks are given 1 for 0;
                                 // kRank: it waits for ranks, `index` is one that has not come in `size` milliseconds, or, of size -1,
                                 // one that runs something else
  bool wraps = false;            // negative indices count from the end; the record holds what they stand for
  bool operator==(const IndexSite&) const = default;
};

// What kernels write: 0 until a check fails, then the first failure. `flag`, where it is not null, is set afterwards (on a GPU).
struct IndexFault {
  static constexpr int64_t kNone = 0, kBeingWritten = 1, kFound = 2;
  int64_t state = kNone, site = 0, index = 0, size = 0;
  int64_t* flag = nullptr;
  int64_t unused[3] = {};
};
inline constexpr int64_t kIndexFaultWords = sizeof(IndexFault) / sizeof(int64_t);

// "embedding: index 50 is out of range for dimension 0 of size 10 (called at model.cpp:12)", "remainder: division of integers by zero
// (called at model.cpp:12)". index: as the caller gave it.
std::string index_error(const IndexSite& site, int64_t index, int64_t size);
// Throws what a record holds: EnvironmentError where a rank has not come, UserError else.
[[noreturn]] void fail_at(const IndexSite& site, const IndexFault& fault);
// Of the index that a record holds.
std::string index_error(const IndexSite& site, const IndexFault& fault);

// Names the source line of the operation that the calling thread's reference implementations run for, for the life of this object.
class OperationPlace {
 public:
  explicit OperationPlace(const std::string& where);
  ~OperationPlace();
  OperationPlace(const OperationPlace&) = delete;
  OperationPlace& operator=(const OperationPlace&) = delete;
  static std::string current();  // empty where there is none

 private:
  const std::string* before_;
};

}  // namespace toroid
