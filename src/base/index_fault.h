// Indices in tensors that are out of range, divisors that are 0, and values that an operation has no meaning for: where they may come from,
// the record that kernels leave them in, and the error that they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace toroid {

// What an operation expects of the values that it is given.
enum class ValueRule : uint8_t {
  Probability,  // in [0, 1]
  NotNegative,
  Weight,   // finite and not negative
  Total,    // finite and above 0
  AtLeast,  // integers: a bound that is above 0
  AtMost,   // integers: from 0 up to a bound
};
inline constexpr ValueRule kValueRules[] = {ValueRule::Probability, ValueRule::NotNegative, ValueRule::Weight,
                                            ValueRule::Total,       ValueRule::AtLeast,     ValueRule::AtMost};
std::string_view name_of(ValueRule rule);  // "probability", "not_negative", ...
ValueRule value_rule(std::string_view name);
// What is wrong with a value, which a record holds as its index.
enum class ValueFault : uint8_t { None, NotANumber, Negative, Infinite, AboveOne, Zero };

// An operand of an operation that holds indices, that it divides integers by, or whose values it has no meaning for.
struct IndexSite {
  static constexpr int64_t kDivisor = -2, kRank = -3, kFirstRule = -4;
  static constexpr int64_t of(ValueRule rule) { return kFirstRule - static_cast<int64_t>(rule); }

  std::string operation, where;  // "embedding"; source line, or empty
  int64_t dim = 0;               // of the tensor that is indexed; -1: indices count all its elements; kDivisor: checks are given 1 for 0;
                                 // kRank: it waits for ranks, `index` is one that has not come in `size` milliseconds, or, of size -1,
                                 // one that runs something else; of(rule): `operation` names the values too ("bernoulli: a probability"),
                                 // `index` is a ValueFault, or the number n that is not as its bound b wants:
                                 // -1 - n of b, or n of b + 1
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
