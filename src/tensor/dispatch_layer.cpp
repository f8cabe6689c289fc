#include "tensor/dispatch_layer.h"

#include "base/check.h"

namespace toroid {
namespace {

// The layer, which knows now what it lies on.
Layer& laid_on(Layer& layer, Dispatcher*& below) {
  TOROID_CHECK(!below, "a layer of dispatchers is on a stack already; each scope needs a layer of its own");
  below = &current_dispatcher();
  return layer;
}

}  // namespace

Layer::Scope::Scope(Layer& layer) : layer_(layer), scope_(laid_on(layer, layer.below_)) {}
Layer::Scope::~Scope() { layer_.below_ = nullptr; }

Dispatcher& Layer::below() const {
  TOROID_CHECK(below_, "a layer of dispatchers was asked that lies on none; calls reach it within its scope alone");
  return *below_;
}

std::vector<Tensor> Layer::call(const ops::Op& op, CallArgs args, const std::source_location& where) {
  DispatchScope out_of_the_way(below());
  return below().call(op, std::move(args), where);
}
bool Layer::decide(const sym::Relation& r) {
  DispatchScope out_of_the_way(below());
  return below().decide(r);
}
void Layer::require(const sym::Relation& r, const std::string& error) {
  DispatchScope out_of_the_way(below());
  below().require(r, error);
}
int64_t Layer::specialize(const Expr& e) {
  DispatchScope out_of_the_way(below());
  return below().specialize(e);
}
void Layer::read(const Tensor& t, std::string_view what, const std::source_location& where) {
  DispatchScope out_of_the_way(below());
  below().read(t, what, where);
}
Tensor Layer::move(const Tensor& t, const Device& device, const std::source_location& where) {
  DispatchScope out_of_the_way(below());
  return below().move(t, device, where);
}
bool Layer::copy(const Tensor& from, const Tensor& to) {
  DispatchScope out_of_the_way(below());
  return below().copy(from, to);
}

}  // namespace toroid
