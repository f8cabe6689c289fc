// Dispatchers on top of each other: who is asked, in which order, and what is left behind.
#include <gtest/gtest.h>

#include "base/check.h"
#include "ops/autocast.h"
#include "ops/reference.h"
#include "ops/table.h"
#include "tensor/dispatch_layer.h"

namespace toroid {
namespace {

const sym::Relation kTrue{sym::Rel::Eq, 1, 1};
using Log = std::vector<std::string>;

// Notes each operation on its way down and up.
class Noting : public Layer {
 public:
  Noting(std::string name, Log& log) : name_(std::move(name)), log_(log) {}
  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override {
    log_.push_back(name_ + " " + op.name);
    auto out = Layer::call(op, std::move(args), where);
    log_.push_back(name_ + " done");
    return out;
  }
  bool decide(const sym::Relation& r) override {
    log_.push_back(name_ + " decides");
    return Layer::decide(r);
  }

 private:
  const std::string name_;
  Log& log_;
};

// The lowest: evaluates, or fails.
class Bottom : public ops::ReferenceDispatcher {
 public:
  Bottom(Log& log) : log_(log) {}
  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override {
    log_.push_back("bottom " + op.name);
    if (&current_dispatcher() != this) log_.push_back("parts of a call would not come here");
    if (fails) fail<UserError>("planted");
    return ReferenceDispatcher::call(op, std::move(args), where);
  }
  bool decide(const sym::Relation& r) override {
    log_.push_back("bottom decides");
    return ReferenceDispatcher::decide(r);
  }
  bool fails = false;

 private:
  Log& log_;
};

// Casts the operands of products, as autocast does, by calls of its own to those below.
class Casting : public Layer {
 public:
  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override {
    if (op.name == "mm") {
      DispatchScope scope(below());
      for (auto& a : args) a = ops::call1("_to_copy", {std::get<Tensor>(a), DType::F64});
    }
    return Layer::call(op, std::move(args), where);
  }
};

TEST(DispatchLayers, EachHandsOnToTheOneBelow) {
  Log log;
  Bottom bottom(log);
  DispatchScope lowest(bottom);
  Noting tape("tape", log), trace("trace", log);
  Casting cast;
  Layer::Scope on_bottom(trace), on_trace(cast), on_cast(tape);
  const Tensor x = Tensor::full(std::vector<int64_t>{2, 2}, 3, DType::F32);
  const Tensor y = ops::call1("mm", {x, x});
  EXPECT_EQ(y.dtype(), DType::F64);
  EXPECT_EQ(log, (Log{"tape mm", "trace _to_copy", "bottom _to_copy", "trace done", "trace _to_copy", "bottom _to_copy", "trace done",
                      "trace mm", "bottom mm", "trace done", "tape done"}));
  log.clear();
  EXPECT_TRUE(current_dispatcher().decide(kTrue));
  EXPECT_EQ(log, (Log{"tape decides", "trace decides", "bottom decides"}));
}

// Answers everything by its name, and says so where a layer is still in the way.
class Answering : public Dispatcher {
 public:
  Answering(Log& log) : log_(log) {}
  std::vector<Tensor> call(const ops::Op& op, CallArgs, const std::source_location&) override {
    return asked("call " + op.name), Tensors{};
  }
  bool decide(const sym::Relation& r) override { return asked("decide " + sym::to_string(r)), true; }
  void require(const sym::Relation& r, const std::string& error) override { asked("require " + sym::to_string(r) + ": " + error); }
  int64_t specialize(const Expr& e) override { return asked("specialize " + sym::to_string(e)), 7; }
  void read(const Tensor&, std::string_view what, const std::source_location&) override { asked("read " + std::string(what)); }
  Tensor move(const Tensor& t, const Device& device, const std::source_location&) override {
    return asked("move to " + to_string(device)), t;
  }
  bool copy(const Tensor&, const Tensor&) override { return asked("copy"), true; }

 private:
  using Tensors = std::vector<Tensor>;
  void asked(const std::string& what) { log_.push_back(&current_dispatcher() == this ? what : "not out of the way: " + what); }
  Log& log_;
};

// A layer that adds nothing is not seen by whoever is below, whatever is asked.
TEST(DispatchLayers, HandOnEachFunctionAsItIs) {
  const Expr s = sym::symbol("s", 2, 9);
  const sym::Relation even{sym::Rel::Eq, sym::mod(s, 2), 0};
  const Tensor x = Tensor::full(std::vector<int64_t>{2}, 3, DType::F32);
  const auto where = std::source_location::current();
  const auto ask_everything = [&](Dispatcher& d) {
    d.call(ops::get("exp"), {x}, where);
    EXPECT_TRUE(d.decide(even));
    d.require(even, "s must be even");
    EXPECT_EQ(d.specialize(s), 7);
    d.read(x, "item()", where);
    EXPECT_EQ(d.move(x, Device::cpu(), where).impl(), x.impl());
    EXPECT_TRUE(d.copy(x, x));
  };
  Log direct, through;
  {
    Answering bottom(direct);
    DispatchScope lowest(bottom);
    ask_everything(current_dispatcher());
  }
  {
    Answering bottom(through);
    Layer lower, upper;
    DispatchScope lowest(bottom);
    Layer::Scope first(lower), second(upper);
    ask_everything(current_dispatcher());
  }
  EXPECT_EQ(direct.size(), 7u);
  EXPECT_EQ(through, direct);
}

TEST(DispatchLayers, AnExceptionLeavesTheStackAsItWas) {
  Log log;
  Bottom bottom(log);
  Dispatcher* const before = innermost_dispatcher();
  {
    DispatchScope lowest(bottom);
    Noting outer("outer", log), middle("middle", log), inner("inner", log);
    Layer::Scope first(outer), second(middle);
    const Tensor x = Tensor::full(std::vector<int64_t>{2}, 3, DType::F32);
    bottom.fails = true;
    try {
      Layer::Scope third(inner);
      ops::call1("exp", {x});
      FAIL() << "the planted error was expected";
    } catch (const UserError& e) {
      EXPECT_STREQ(e.what(), "planted");
    }
    EXPECT_EQ(log, (Log{"inner exp", "middle exp", "outer exp", "bottom exp"}));
    EXPECT_EQ(innermost_dispatcher(), &middle);
    bottom.fails = false;
    log.clear();
    ops::call1("exp", {x});
    EXPECT_EQ(log, (Log{"middle exp", "outer exp", "bottom exp", "outer done", "middle done"}));
    log.clear();
    Layer::Scope third(inner);  // it lies on nothing any more, and can be used again
    ops::call1("exp", {x});
    EXPECT_EQ(log.front(), "inner exp");
  }
  EXPECT_EQ(innermost_dispatcher(), before);
}

TEST(DispatchLayers, OneLayerLiesInOnePlace) {
  Log log;
  Bottom bottom(log);
  DispatchScope lowest(bottom);
  Noting layer("layer", log);
  EXPECT_THROW(layer.decide(kTrue), InternalError) << "it lies on nothing";
  Layer::Scope scope(layer);
  EXPECT_THROW(Layer::Scope again(layer), InternalError);
  EXPECT_EQ(innermost_dispatcher(), &layer);
  EXPECT_TRUE(layer.decide(kTrue)) << "and is still on its place";
}

}  // namespace
}  // namespace toroid
