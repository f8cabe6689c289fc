// A function of control flow that runs as it is called: it writes to what it has made, as a recorded one does (front/region.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ops/table.h"

namespace toroid::front {

// Throws the UserError of a region that writes to a tensor which it has not made.
[[noreturn]] void fail_outside_write(const ops::Op& op, const std::string& region, const std::source_location& where);

// While it lives, what this thread calls is called by the function.
class EagerRegion {
 public:
  explicit EagerRegion(std::string name);
  ~EagerRegion();
  EagerRegion(const EagerRegion&) = delete;
  EagerRegion& operator=(const EagerRegion&) = delete;

  // The innermost one of this thread; null: none.
  static EagerRegion* current();

  // What `run` makes of the call; its parts are not looked at. UserError where it writes to memory that was there before the function.
  std::vector<Tensor> call(const ops::Op& op, const CallArgs& args, const std::source_location& where,
                           const std::function<std::vector<Tensor>()>& run);
  // Tensors whose memory the function has made.
  void note_made(const std::vector<Tensor>& tensors);

 private:
  bool has_made(const Tensor& t) const;

  const std::string name_;
  EagerRegion* const around_;
  std::map<const Storage*, std::weak_ptr<Storage>> made_;
};

}  // namespace toroid::front
