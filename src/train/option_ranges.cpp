// The ranges of torch.optim, which NaN is in none of.
#include "train/option_ranges.h"

#include "train/errors.h"

namespace toroid::train {
namespace {

// Of one optimizer, or of one group where there are several: "AdamW", "AdamW, group 1".
class Ranges {
 public:
  Ranges(const char* optimizer, size_t group, size_t groups)
      : of_(groups > 1 ? fmt::format("{}, group {}", optimizer, group) : std::string(optimizer)) {}

  void in(bool is_valid, const char* what, double value) const { train::require(is_valid, "{}: {}{}", of_, what, value); }
  void lr(double v) const { in(v >= 0, "Invalid learning rate: ", v); }
  void eps(double v) const { in(v >= 0, "Invalid epsilon value: ", v); }
  void weight_decay(double v) const { in(v >= 0, "Invalid weight_decay value: ", v); }
  void momentum(double v) const { in(v >= 0, "Invalid momentum value: ", v); }
  void betas(const std::array<double, 2>& v) const {
    in(v[0] >= 0 && v[0] < 1, "Invalid beta parameter at index 0: ", v[0]);
    in(v[1] >= 0 && v[1] < 1, "Invalid beta parameter at index 1: ", v[1]);
  }
  template <class O>
  void adam(const O& o) const {
    lr(o.lr), eps(o.eps), betas(o.betas), weight_decay(o.weight_decay);
  }
  void require(bool is_valid, const char* what) const { train::require(is_valid, "{}: {}", of_, what); }

 private:
  std::string of_;
};

template <class Options>
constexpr const char* kName = nullptr;

#define TOROID_RANGES(Name) \
  template <> \
  constexpr const char* kName<Name##Options> = #Name; \
  void check(const Ranges& r, const Name##Options& o)

TOROID_RANGES(SGD) {
  r.lr(o.lr), r.momentum(o.momentum), r.weight_decay(o.weight_decay);
  r.require(!o.nesterov || (o.momentum > 0 && o.dampening == 0), "Nesterov momentum requires a momentum and zero dampening");
}
TOROID_RANGES(Adam) { r.adam(o); }
TOROID_RANGES(AdamW) { r.adam(o); }
TOROID_RANGES(Adamax) { r.adam(o); }
TOROID_RANGES(RAdam) { r.adam(o); }
TOROID_RANGES(NAdam) {
  r.adam(o);
  r.in(o.momentum_decay >= 0, "Invalid momentum_decay value: ", o.momentum_decay);
}
TOROID_RANGES(RMSprop) {
  r.lr(o.lr), r.eps(o.eps), r.momentum(o.momentum), r.weight_decay(o.weight_decay);
  r.in(o.alpha >= 0, "Invalid alpha value: ", o.alpha);
}
TOROID_RANGES(Adagrad) {
  r.lr(o.lr), r.weight_decay(o.weight_decay), r.eps(o.eps);
  r.in(o.lr_decay >= 0, "Invalid lr_decay value: ", o.lr_decay);
  r.in(o.initial_accumulator_value >= 0, "Invalid initial_accumulator_value value: ", o.initial_accumulator_value);
}
TOROID_RANGES(Adadelta) {
  r.lr(o.lr), r.eps(o.eps), r.weight_decay(o.weight_decay);
  r.in(o.rho >= 0 && o.rho <= 1, "Invalid rho value: ", o.rho);
}
TOROID_RANGES(ASGD) {
  r.lr(o.lr), r.weight_decay(o.weight_decay);
  r.in(o.lambd >= 0, "Invalid lambd value: ", o.lambd);
  r.in(o.alpha >= 0, "Invalid alpha value: ", o.alpha);
}
TOROID_RANGES(Rprop) {
  r.lr(o.lr);
  r.require(o.etas[0] > 0 && o.etas[0] < 1 && o.etas[1] > 1, fmt::format("Invalid eta values: {}, {}", o.etas[0], o.etas[1]).c_str());
}
TOROID_RANGES(Adafactor) {
  r.in(o.lr >= 0, "Learning rate should be >= 0 but is: ", o.lr);
  r.in(o.beta2_decay <= 0, "beta2_decay should be <= 0 but is: ", o.beta2_decay);
  r.in(o.eps1.value_or(0) >= 0, "epsilon1 should be >= 0 but is: ", o.eps1.value_or(0));
  r.in(o.eps2 >= 0, "epsilon2 should be >= 0 but is: ", o.eps2);
  r.in(o.d >= 1, "Clipping threshold d should be >= 1 but is: ", o.d);
  r.in(o.weight_decay >= 0, "weight_decay should be >= 0 but is: ", o.weight_decay);
}
TOROID_RANGES(Muon) {
  r.in(o.lr >= 0, "Learning rate should be >= 0 but is: ", o.lr);
  r.in(o.momentum >= 0, "momentum should be >= 0 but is: ", o.momentum);
  r.in(o.weight_decay >= 0, "weight decay should be >= 0 but is: ", o.weight_decay);
}
#undef TOROID_RANGES

}  // namespace

template <class Options>
std::vector<Options> checked_options(const std::vector<GroupOf<Options>>& groups) {
  std::vector<Options> out;
  size_t parameters = 0;
  for (auto& g : groups) {
    check(Ranges(kName<Options>, out.size(), groups.size()), g.options);
    parameters += g.parameters.size();
    out.push_back(g.options);
  }
  train::require(parameters > 0, "{}: optimizer got an empty parameter list", kName<Options>);
  return out;
}

#define TOROID_OPTIONS(Name) template std::vector<Name##Options> checked_options(const std::vector<GroupOf<Name##Options>>& groups);
TOROID_OPTIONS(SGD)
TOROID_OPTIONS(Adam)
TOROID_OPTIONS(AdamW)
TOROID_OPTIONS(RMSprop)
TOROID_OPTIONS(Adagrad)
TOROID_OPTIONS(Adadelta)
TOROID_OPTIONS(Adamax)
TOROID_OPTIONS(NAdam)
TOROID_OPTIONS(RAdam)
TOROID_OPTIONS(ASGD)
TOROID_OPTIONS(Rprop)
TOROID_OPTIONS(Adafactor)
TOROID_OPTIONS(Muon)
#undef TOROID_OPTIONS

}  // namespace toroid::train
