#include "toroid/train/by_name.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/text.h"
#include "toroid/error.h"

namespace toroid::train {
namespace {

[[noreturn]] void unknown(const std::string& what, const std::string& name, const std::vector<std::string_view>& known) {
  std::string list;
  for (std::string_view k : known) list += (list.empty() ? "" : ", ") + std::string(k);
  throw UserError("unknown " + what + " \"" + name + "\"" + did_you_mean(name, known) + "; there are " + list);
}

// What PyTorch refuses too.
struct ArgumentRange {
  std::string_view name;
  double least, most;
  const char* text;
};
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr ArgumentRange kRanges[] = {
    {"lr", 0, kLargest, "at least 0"},
    {"momentum", 0, kLargest, "at least 0"},
    {"weight_decay", 0, kLargest, "at least 0"},
    {"eps", 0, kLargest, "at least 0"},
    {"alpha", 0, kLargest, "at least 0"},
    {"lr_decay", 0, kLargest, "at least 0"},
    {"initial_accumulator_value", 0, kLargest, "at least 0"},
    {"momentum_decay", 0, kLargest, "at least 0"},
    {"rho", 0, 1, "from 0 to 1"},
    {"betas", 0, 1 - std::numeric_limits<double>::epsilon() / 2, "from 0 on and below 1"},
};

// Takes arguments by name; what nobody has asked for in the end is unknown.
class Reader {
 public:
  Reader(std::string of, const Arguments& arguments) : of_(std::move(of)), arguments_(arguments) {}

  template <class T>
  void operator()(const char* name, T& value) {
    known_.emplace_back(name);
    if (const auto it = arguments_.find(name); it != arguments_.end()) read(name, it->second, value);
  }
  template <class T>
  T get(const char* name, T initial) {
    (*this)(name, initial);
    return initial;
  }
  template <class T>
  T need(const char* name) {
    if (!arguments_.count(name)) throw UserError(of_ + ": the argument \"" + name + "\" is missing");
    return get(name, T{});
  }
  void finish() const {
    for (auto& [name, value] : arguments_)
      if (!std::count(known_.begin(), known_.end(), name)) unknown("argument of " + of_, name, known_);
  }

 private:
  [[noreturn]] void wrong(const char* name, const char* expected) const {
    throw UserError(of_ + ": the argument \"" + name + "\" must be " + expected);
  }
  double in_range(const char* name, double v) const {
    if (std::isnan(v)) wrong(name, "a number, not NaN");
    for (auto& r : kRanges)
      if (r.name == name && !(v >= r.least && v <= r.most)) wrong(name, r.text);
    return v;
  }
  template <class I>
  static bool is_integer(double v) {
    constexpr double kExact = 9007199254740992;  // 2^53: integers are exact up to there
    return std::abs(v) <= kExact && v >= static_cast<double>(std::numeric_limits<I>::min()) &&
           v <= static_cast<double>(std::numeric_limits<I>::max()) && v == std::floor(v);
  }
  void read(const char* name, const ArgumentValue& v, double& out) const {
    auto* d = std::get_if<double>(&v);
    if (!d) wrong(name, "a number");
    out = in_range(name, *d);
  }
  void read(const char* name, const ArgumentValue& v, bool& out) const {
    if (auto* b = std::get_if<bool>(&v)) return void(out = *b);
    wrong(name, "true or false");
  }
  template <class I>
  requires(std::is_integral_v<I> && !std::is_same_v<I, bool>) void read(const char* name, const ArgumentValue& v, I& out) const {
    auto* d = std::get_if<double>(&v);
    if (!d || !is_integer<I>(*d)) wrong(name, "an integer");
    out = static_cast<I>(*d);
  }
  void read(const char* name, const ArgumentValue& v, std::string& out) const {
    if (auto* s = std::get_if<std::string>(&v)) return void(out = *s);
    wrong(name, "a string");
  }
  template <size_t N>
  void read(const char* name, const ArgumentValue& v, std::array<double, N>& out) const {
    auto* l = std::get_if<std::vector<double>>(&v);
    if (!l || l->size() != N) wrong(name, ("a list of " + std::to_string(N) + " numbers").c_str());
    std::transform(l->begin(), l->end(), out.begin(), [&](double d) { return in_range(name, d); });
  }
  void read(const char* name, const ArgumentValue& v, std::vector<int64_t>& out) const {
    auto* l = std::get_if<std::vector<double>>(&v);
    if (!l || !std::all_of(l->begin(), l->end(), is_integer<int64_t>)) wrong(name, "a list of integers");
    out.assign(l->begin(), l->end());
  }
  template <class T>
  void read(const char* name, const ArgumentValue& v, std::optional<T>& out) const {
    T value{};
    read(name, v, value);
    out = value;
  }

  const std::string of_;
  const Arguments& arguments_;
  std::vector<std::string_view> known_;
};

void fields(Reader& r, SGDOptions& o) {
  r("lr", o.lr), r("momentum", o.momentum), r("dampening", o.dampening), r("weight_decay", o.weight_decay);
  r("nesterov", o.nesterov), r("maximize", o.maximize);
}
void fields(Reader& r, AdamOptions& o) {
  r("lr", o.lr), r("betas", o.betas), r("eps", o.eps), r("weight_decay", o.weight_decay);
  r("amsgrad", o.amsgrad), r("maximize", o.maximize), r("decoupled_weight_decay", o.decoupled_weight_decay);
}
void fields(Reader& r, AdamWOptions& o) {
  r("lr", o.lr), r("betas", o.betas), r("eps", o.eps), r("weight_decay", o.weight_decay);
  r("amsgrad", o.amsgrad), r("maximize", o.maximize);
}
void fields(Reader& r, RMSpropOptions& o) {
  r("lr", o.lr), r("alpha", o.alpha), r("eps", o.eps), r("weight_decay", o.weight_decay), r("momentum", o.momentum);
  r("centered", o.centered), r("maximize", o.maximize);
}
void fields(Reader& r, AdagradOptions& o) {
  r("lr", o.lr), r("lr_decay", o.lr_decay), r("weight_decay", o.weight_decay);
  r("initial_accumulator_value", o.initial_accumulator_value), r("eps", o.eps), r("maximize", o.maximize);
}
void fields(Reader& r, AdadeltaOptions& o) {
  r("lr", o.lr), r("rho", o.rho), r("eps", o.eps), r("weight_decay", o.weight_decay), r("maximize", o.maximize);
}
void fields(Reader& r, AdamaxOptions& o) {
  r("lr", o.lr), r("betas", o.betas), r("eps", o.eps), r("weight_decay", o.weight_decay), r("maximize", o.maximize);
}
void fields(Reader& r, NAdamOptions& o) {
  r("lr", o.lr), r("betas", o.betas), r("eps", o.eps), r("weight_decay", o.weight_decay), r("momentum_decay", o.momentum_decay);
  r("decoupled_weight_decay", o.decoupled_weight_decay), r("maximize", o.maximize);
}
void fields(Reader& r, RAdamOptions& o) {
  r("lr", o.lr), r("betas", o.betas), r("eps", o.eps), r("weight_decay", o.weight_decay);
  r("decoupled_weight_decay", o.decoupled_weight_decay), r("maximize", o.maximize);
}
void fields(Reader& r, ASGDOptions& o) {
  r("lr", o.lr), r("lambd", o.lambd), r("alpha", o.alpha), r("t0", o.t0), r("weight_decay", o.weight_decay), r("maximize", o.maximize);
}
void fields(Reader& r, RpropOptions& o) { r("lr", o.lr), r("etas", o.etas), r("step_sizes", o.step_sizes), r("maximize", o.maximize); }
void fields(Reader& r, AdafactorOptions& o) {
  std::array<double, 2> eps{};
  const double none = -1;
  eps = {none, o.eps2};
  r("lr", o.lr), r("beta2_decay", o.beta2_decay), r("eps", eps), r("d", o.d), r("weight_decay", o.weight_decay), r("maximize", o.maximize);
  if (eps[0] != none) o.eps1 = eps[0];
  o.eps2 = eps[1];
}
void fields(Reader& r, MuonOptions& o) {
  std::string adjust = "original";
  r("lr", o.lr), r("weight_decay", o.weight_decay), r("momentum", o.momentum), r("nesterov", o.nesterov);
  r("ns_coefficients", o.ns_coefficients), r("eps", o.eps), r("ns_steps", o.ns_steps), r("adjust_lr_fn", adjust);
  if (adjust != "original" && adjust != "match_rms_adamw")
    throw UserError("Muon: adjust_lr_fn is \"" + adjust + "\"; expected \"original\" or \"match_rms_adamw\"");
  o.match_rms_adamw = adjust == "match_rms_adamw";
}

template <class Kind>
std::unique_ptr<Optimizer> made(const std::string& name, std::vector<Tensor> parameters, const Arguments& arguments) {
  typename Kind::Options options;
  Reader reader(name, arguments);
  fields(reader, options);
  reader.finish();
  return std::make_unique<Kind>(std::move(parameters), options);
}

using Maker = std::unique_ptr<Optimizer> (*)(const std::string&, std::vector<Tensor>, const Arguments&);
constexpr std::pair<const char*, Maker> kOptimizers[] = {
    {"SGD", made<SGD>},         {"Adam", made<Adam>},         {"AdamW", made<AdamW>},   {"RMSprop", made<RMSprop>},
    {"Adagrad", made<Adagrad>}, {"Adadelta", made<Adadelta>}, {"Adamax", made<Adamax>}, {"NAdam", made<NAdam>},
    {"RAdam", made<RAdam>},     {"ASGD", made<ASGD>},         {"Rprop", made<Rprop>},   {"Adafactor", made<Adafactor>},
    {"Muon", made<Muon>},
};

using Scheduler = Schedule (*)(double lr, Reader& r);
constexpr std::pair<const char*, Scheduler> kSchedules[] = {
    {"StepLR", [](double lr, Reader& r) { return step_lr(lr, r.need<int64_t>("step_size"), r.get("gamma", 0.1)); }},
    {"MultiStepLR",
     [](double lr, Reader& r) { return multi_step_lr(lr, r.need<std::vector<int64_t>>("milestones"), r.get("gamma", 0.1)); }},
    {"ConstantLR", [](double lr, Reader& r) { return constant_lr(lr, r.get("factor", 1.0 / 3), r.get("total_iters", int64_t{5})); }},
    {"LinearLR",
     [](double lr, Reader& r) {
       return linear_lr(lr, r.get("start_factor", 1.0 / 3), r.get("end_factor", 1.0), r.get("total_iters", int64_t{5}));
     }},
    {"ExponentialLR", [](double lr, Reader& r) { return exponential_lr(lr, r.need<double>("gamma")); }},
    {"PolynomialLR", [](double lr, Reader& r) { return polynomial_lr(lr, r.get("total_iters", int64_t{5}), r.get("power", 1.0)); }},
    {"CosineAnnealingLR", [](double lr, Reader& r) { return cosine_annealing_lr(lr, r.need<int64_t>("T_max"), r.get("eta_min", 0.0)); }},
    {"CosineAnnealingWarmRestarts",
     [](double lr, Reader& r) {
       return cosine_annealing_warm_restarts(lr, r.need<int64_t>("T_0"), r.get("T_mult", int64_t{1}), r.get("eta_min", 0.0));
     }},
    {"OneCycleLR",
     [](double, Reader& r) {
       OneCycleOptions o;
       std::string strategy = "cos";
       r("pct_start", o.pct_start), r("div_factor", o.div_factor), r("final_div_factor", o.final_div_factor);
       r("three_phase", o.three_phase), r("anneal_strategy", strategy);
       if (strategy != "cos" && strategy != "linear")
         throw UserError("OneCycleLR: anneal_strategy is \"" + strategy + "\"; expected \"cos\" or \"linear\"");
       o.linear = strategy == "linear";
       return one_cycle_lr(r.need<double>("max_lr"), r.need<int64_t>("total_steps"), o);
     }},
    {"CyclicLR",
     [](double, Reader& r) {
       const std::string mode = r.get("mode", std::string("triangular"));
       if (mode != "triangular" && mode != "triangular2" && mode != "exp_range")
         throw UserError("CyclicLR: mode is \"" + mode + "\"; expected \"triangular\", \"triangular2\" or \"exp_range\"");
       const CyclicMode kind = mode == "triangular"    ? CyclicMode::Triangular
                               : mode == "triangular2" ? CyclicMode::Triangular2
                                                       : CyclicMode::ExpRange;
       std::optional<int64_t> down;
       r("step_size_down", down);
       return cyclic_lr(r.need<double>("base_lr"), r.need<double>("max_lr"), r.get("step_size_up", int64_t{2000}), down, kind,
                        r.get("gamma", 1.0));
     }},
};

template <class Rows>
auto find(const Rows& rows, const char* what, const std::string& name) {
  std::vector<std::string_view> known;
  for (auto& [row, maker] : rows) {
    if (row == name) return maker;
    known.emplace_back(row);
  }
  unknown(what, name, known);
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> parameters, const Arguments& arguments) {
  return find(kOptimizers, "optimizer", name)(name, std::move(parameters), arguments);
}

Schedule make_schedule(const std::string& name, double lr, const Arguments& arguments) {
  const Scheduler make = find(kSchedules, "schedule", name);
  Reader reader(name, arguments);
  Schedule out = make(lr, reader);
  reader.finish();
  return out;
}

}  // namespace toroid::train
