#include "toroid/train/trainer.h"

#include <algorithm>
#include <cmath>

#include "toroid/autograd.h"
#include "toroid/ops.h"
#include "train/trainer_impl.h"

namespace toroid::train {
namespace {

// 41523 -> "41.5k".
std::string short_number(double v) {
  for (auto [limit, letter] : {std::pair(1e9, "G"), std::pair(1e6, "M"), std::pair(1e3, "k")})
    if (v >= limit) return fmt::format("{:.1f}{}", v / limit, letter);
  return fmt::format("{:.1f}", v);
}

std::string duration(double seconds) { return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.1f} s", seconds); }

void check(const TrainerOptions& o) {
  const auto at_least = [](const char* name, int64_t value, int64_t least) {
    require(value >= least, "Trainer: {} must be at least {}, not {}", name, least, value);
  };
  at_least("steps", o.steps, 0);
  at_least("batch_size", o.batch_size, 1);
  at_least("accumulate", o.accumulate, 1);
  at_least("max_skipped", o.max_skipped, 1);
  at_least("evaluate_every", o.evaluate_every, 0);
  at_least("evaluation_batches", o.evaluation_batches, 0);
  at_least("save_every", o.save_every, 0);
  at_least("keep", o.keep, 0);
  require(o.clip_norm >= 0, "Trainer: clip_norm must not be negative, not {}", o.clip_norm);
  require(o.clip_value >= 0, "Trainer: clip_value must not be negative, not {}", o.clip_value);
  require(o.ema_decay >= 0 && o.ema_decay < 1, "Trainer: ema_decay must be from 0 on and below 1, not {}", o.ema_decay);
}

bool same(const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); }

// What the loss is differentiated by, so that `trained` can take a step.
std::vector<Tensor> counterparts(const nn::Module& model, const std::vector<Tensor>& trained, const std::optional<MasterWeights>& masters) {
  const std::vector<Tensor> own = model.parameters();
  const std::vector<Tensor>& candidates = masters ? masters->masters : own;
  const std::vector<Tensor>& weights = masters ? masters->weights : own;
  std::vector<Tensor> out;
  for (size_t i = 0; i < trained.size(); ++i) {
    const auto it = std::find_if(candidates.begin(), candidates.end(), [&](const Tensor& t) { return same(t, trained[i]); });
    require(it != candidates.end(), "Trainer: parameter {} of the optimizer is {}", i,
            masters ? "none of options.masters; give the optimizer their masters"
                    : "no parameter of the module as it is now; make the "
                      "optimizer from model.parameters() after load_state() and to()");
    const Tensor& weight = weights[static_cast<size_t>(it - candidates.begin())];
    require(std::any_of(own.begin(), own.end(), [&](const Tensor& t) { return same(t, weight); }),
            "Trainer: the weight of master {} is no parameter of the module as it is now", i);
    out.push_back(weight);
  }
  return out;
}

std::vector<std::string> names_in(const nn::Module& model, const std::vector<Tensor>& tensors) {
  const auto named = model.named_parameters();
  std::vector<std::string> out;
  for (auto& t : tensors) out.push_back(std::find_if(named.begin(), named.end(), [&](auto& n) { return same(n.second, t); })->first);
  return out;
}

}  // namespace

std::string to_string(const StepReport& r) {
  std::string out = fmt::format("step {}  loss {:.4f}  grad norm {:.3g}  lr {:.2e}  {}  {} {}/s", r.step, r.loss, r.grad_norm, r.lr,
                                duration(r.seconds), short_number(r.units_per_second), r.unit);
  if (r.loss_scale != 1) out += fmt::format("  scale {:g}", r.loss_scale);
  if (r.skipped) out += fmt::format("  (skipped: {} is not finite)", r.not_finite);
  if (r.compiling) out += "  (compiling)";
  return out;
}

std::string to_string(const EvaluationReport& r) {
  std::string metrics;
  for (auto& [name, value] : r.metrics) metrics += fmt::format("  {} {:.4f}", name, value);
  return fmt::format("step {}  held-out loss {:.4f}{}  {} samples  {}", r.step, r.loss, metrics, r.samples, duration(r.seconds));
}

MasterWeights make_master_weights(nn::Module& model, DType dtype) {
  MasterWeights out;
  const NoGrad copies;
  for (auto& p : model.parameters()) out.masters.push_back(p.dtype() == DType::F32 ? clone(p) : toroid::to(p, DType::F32));
  model.to(dtype);
  out.weights = model.parameters();
  return out;
}

Trainer::Impl::Impl(nn::Module& m, Loss l, Optimizer& o, const DataSource& d, TrainerOptions given)
    : model(m),
      loss(std::move(l)),
      optimizer(o),
      data(d),
      options(std::move(given)),
      order(d.size(), options.seed, options.shuffle),
      trained(o.parameters()),
      log(options.folder) {
  check(options);
  require(static_cast<bool>(loss), "Trainer: there is no loss");
  require(!trained.empty(), "Trainer: the optimizer has no parameters");
  device = trained[0].device();
  differentiated = counterparts(model, trained, options.masters);
  names = names_in(model, differentiated);
  for (size_t group = 0; group < optimizer.group_count(); ++group) initial_rates.push_back(optimizer.learning_rate(group).item());
  if (options.scaler) scaler.emplace(*options.scaler, device);
  if (options.accumulate > 1) {
    for (auto& t : trained) sums.push_back(Tensor::full(t.sizes(), 0, t.dtype(), device));
    sums.push_back(Tensor::full({}, 0, DType::F32, device));
  }
  if (options.ema_decay > 0)
    for (auto& t : trained) averages.push_back(no_grad([&] { return clone(t); }));
  model.train();
  make_functions();
}

Trainer::Trainer(nn::Module& model, Loss loss, Optimizer& optimizer, const DataSource& data, TrainerOptions options)
    : impl_(std::make_unique<Impl>(model, std::move(loss), optimizer, data, std::move(options))) {}
Trainer::~Trainer() = default;

void Trainer::set_schedule(Schedule schedule) {
  const std::vector<double>& initial = impl_->initial_rates;
  if (!schedule) return impl_->schedules.clear();
  require(
      initial.size() == 1 || initial[0] != 0,
      "set_schedule: the first group's learning rate was 0, so that the other groups have no share of it; give a schedule for each group");
  std::vector<Schedule> schedules{schedule};
  for (size_t group = 1; group < initial.size(); ++group)
    schedules.push_back([schedule, share = initial[group] / initial[0]](int64_t step) { return share * schedule(step); });
  impl_->schedules = std::move(schedules);
}

void Trainer::set_schedule(std::vector<Schedule> schedules) {
  require(schedules.size() == impl_->initial_rates.size(), "set_schedule: {} schedules for an optimizer with {} groups of parameters",
          schedules.size(), impl_->initial_rates.size());
  impl_->schedules = std::move(schedules);
}

void Trainer::set_evaluation(const DataSource& data, Metrics metrics) {
  impl_->held_out = &data;
  impl_->metrics = std::move(metrics);
  impl_->make_evaluation();
}
void Trainer::request_stop() noexcept { impl_->stop = true; }
int64_t Trainer::steps_done() const { return impl_->steps; }
StepReport Trainer::step() { return impl_->step(); }
EvaluationReport Trainer::evaluate() { return impl_->evaluate(); }
std::string Trainer::save() { return impl_->save(); }
void Trainer::load(const std::string& checkpoint) { impl_->load(checkpoint); }

bool Trainer::resume() {
  const auto all = list_checkpoints(impl_->options.folder);
  if (all.empty()) return false;
  impl_->load(all.back());
  return true;
}

nn::NamedTensors Trainer::averages() const {
  require(!impl_->averages.empty(), "averages: this trainer has none (option ema_decay)");
  nn::NamedTensors out;
  for (auto& [name, p] : impl_->model.named_parameters())
    for (size_t i = 0; i < impl_->differentiated.size(); ++i)
      if (same(p, impl_->differentiated[i])) out.emplace_back(name, impl_->averages[i]);
  return out;
}

bool Trainer::run() {
  Impl& t = *impl_;
  const TrainerOptions& o = t.options;
  const bool writes = !o.folder.empty();
  const auto tell = [&](const auto& report, const auto& callback) {
    t.log.add(report);
    if (callback) callback(report);
  };
  const auto save = [&] {
    if (!writes || t.saved_at == t.steps) return;
    const std::string folder = t.save();
    t.log.write_page();
    if (o.on_checkpoint) o.on_checkpoint(folder);
  };
  t.log.begin(t.steps);
  std::optional<int64_t> evaluated_at;
  if (t.log.has_evaluation(t.steps)) evaluated_at = t.steps;
  const auto evaluate = [&] {
    if (!t.held_out || evaluated_at == t.steps) return;
    tell(t.evaluate(), o.on_evaluation);
    evaluated_at = t.steps;
  };
  while (t.steps < o.steps) {
    if (t.stop) {
      save();
      return false;
    }
    const StepReport report = t.step();
    tell(report, o.on_step);
    require(t.skipped == 0 || (o.not_finite == NotFinite::Skip && t.skipped < o.max_skipped),
            "training stopped at step {}: {} is not finite{}; a lower learning rate, clip_norm or bf16 in place of f16 may help", t.steps,
            report.not_finite, t.skipped > 1 ? fmt::format(", and {} steps in a row were skipped", t.skipped) : "");
    if (o.evaluate_every > 0 && t.steps % o.evaluate_every == 0) evaluate();
    if (o.save_every > 0 && t.steps % o.save_every == 0) save();
  }
  evaluate();
  save();
  if (writes) t.log.write_page();
  return true;
}

}  // namespace toroid::train
