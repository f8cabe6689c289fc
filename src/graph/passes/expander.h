// Recording composites as what they are made of.
#pragma once

#include <functional>

#include "graph/custom.h"
#include "graph/recorder.h"
#include "ops/open_number.h"

namespace toroid::graph {

// Hands calls to a recorder: composites as their parts, which come back here through the dispatch hook, unless they are kept.
class Expander : public Dispatcher {
 public:
  // Which composites are kept whole; draws: the call draws random numbers, as no template does.
  using Keeps = std::function<bool(const ops::Op& op, bool draws)>;
  Expander(Recorder& recorder, Keeps keeps) : recorder_(recorder), keeps_(std::move(keeps)) {}

  template <class T>
  bool expands(const ops::Op& op, const std::vector<Arg<T>>& args) const {
    if (ops::is_custom(op)) return !keeps_(op, false) && !stays_whole(recorder_.graph(), op, args);
    return op.decompose && !is_mutating(op) && !keeps_(op, draws(op, args));
  }

  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override {
    if (!expands(op, args)) return recorder_.call(op, std::move(args), where);
    DispatchScope scope(*this);
    for (;;) try {
        return op.decompose(ops::CallReader(op, args));
      } catch (const ops::OpenNumber& e) {
        if (!recorder_.fix_number(args, e.size())) throw;
      }
  }
  bool decide(const sym::Relation& r) override { return recorder_.decide(r); }
  void require(const sym::Relation& r, const std::string& error) override { recorder_.require(r, error); }
  int64_t specialize(const Expr& e) override { return recorder_.specialize(e); }
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override { recorder_.read(t, what, where); }
  Tensor move(const Tensor& t, const Device& device, const std::source_location& where) override {
    return Dispatcher::move(t, device, where);
  }
  bool copy(const Tensor& from, const Tensor& to) override { return Dispatcher::copy(from, to); }

 private:
  template <class T>
  static bool draws(const ops::Op& op, const std::vector<Arg<T>>& args) {
    int at = op.schema.find("dropout_p");
    auto* p = at < 0 ? nullptr : std::get_if<double>(&args[static_cast<size_t>(at)]);
    return p && *p > 0;
  }

  Recorder& recorder_;
  const Keeps keeps_;
};

}  // namespace toroid::graph
