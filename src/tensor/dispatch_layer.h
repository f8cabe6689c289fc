// Dispatchers on top of each other: a layer does its own part of a call, and hands it on to the one below.
//
// The scopes of a thread are a stack: the innermost dispatcher takes the calls, and below all of them is the eager one. While a layer hands
// something on, it and all above it are out of the way, so that what a call is made of goes to those below as well: a layer sees calls as
// they were made, and none of their parts.
#pragma once

#include "tensor/dispatch.h"

namespace toroid {

// What derives from it overrides what it has a part in, and calls the functions here for the rest.
class Layer : public Dispatcher {
 public:
  // Puts a layer on top of what is innermost then, for the lifetime of the scope. InternalError where the layer is on a stack already.
  class Scope {
   public:
    explicit Scope(Layer& layer);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Layer& layer_;
    DispatchScope scope_;
  };

  // Each hands on to the dispatcher below. InternalError outside of a scope.
  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override;
  bool decide(const sym::Relation& r) override;
  void require(const sym::Relation& r, const std::string& error) override;
  int64_t specialize(const Expr& e) override;
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override;
  Tensor move(const Tensor& t, const Device& device, const std::source_location& where) override;
  bool copy(const Tensor& from, const Tensor& to) override;

 protected:
  // The dispatcher below. Who asks it for more than its own calls makes it innermost meanwhile: DispatchScope scope(below()).
  Dispatcher& below() const;

 private:
  Dispatcher* below_ = nullptr;  // set while it is on a stack
};

}  // namespace toroid
