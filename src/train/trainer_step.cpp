// What a Trainer computes: one compiled function for a step, or two where gradients are accumulated.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "toroid/autocast.h"
#include "toroid/autograd.h"
#include "toroid/grad.h"
#include "toroid/ops.h"
#include "train/trainer_impl.h"

namespace toroid::train {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Tensor in_f32(const Tensor& t) { return t.dtype() == DType::F64 ? t : to(t, DType::F32); }

// Puts a module into evaluation mode, and back.
class Evaluating {
 public:
  explicit Evaluating(nn::Module& model) : model_(model), before_(model.is_training()) { model_.eval(); }
  ~Evaluating() { model_.train(before_); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  nn::Module& model_;
  bool before_;
};

}  // namespace

Tensor Trainer::Impl::loss_of(const Batch& batch) {
  std::optional<toroid::autocast> scope;
  if (options.autocast) scope.emplace(device.type, *options.autocast);
  return in_f32(loss(batch));
}

Tensor Trainer::Impl::evaluated(const Batch& batch) {
  std::vector<Tensor> values{reshape(to(loss_of(batch), DType::F32), {1})};
  metric_names.clear();
  if (metrics) {
    std::optional<toroid::autocast> scope;
    if (options.autocast) scope.emplace(device.type, *options.autocast);
    for (auto& [name, value] : metrics(batch)) {
      const bool is_plain = std::all_of(name.begin(), name.end(), [](unsigned char c) { return c >= ' ' && c != '"' && c != '\\'; });
      require(!name.empty() && is_plain, "evaluate: the metric \"{}\" needs a name without quotes, backslashes and line ends", name);
      require(
          std::find(metric_names.begin(), metric_names.end(), name) == metric_names.end() && !(options.perplexity && name == "perplexity"),
          "evaluate: there are two metrics \"{}\"", name);
      require(value.defined() && value.numel() == 1, "evaluate: the metric \"{}\" is not one number; reduce it, as with mean()", name);
      metric_names.push_back(name);
      values.push_back(reshape(to(value, DType::F32), {1}));
    }
  }
  return cat(values, 0);
}

std::pair<Tensor, std::vector<Tensor>> Trainer::Impl::differentiate(const Batch& batch) {
  auto [value, gradients] = value_and_gradients(
      [&] {
        Tensor l = loss_of(batch);
        if (options.accumulate > 1) l = l / static_cast<double>(options.accumulate);
        return scaler ? scaler->scale(l) : l;
      },
      differentiated);
  if (scaler) value = value / scaler->get_scale();
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = to(gradients[i], trained[i].dtype());
  return {value, gradients};
}

Tensor Trainer::Impl::apply(const Tensor& value, std::vector<Tensor> gradients) {
  Tensor are_finite;
  if (scaler) std::tie(gradients, are_finite) = scaler->unscale(gradients);
  std::vector<Tensor> norms;
  for (auto& g : gradients) norms.push_back(to(toroid::norm(g), DType::F32));
  Tensor norm;
  if (options.clip_norm > 0)
    std::tie(gradients, norm) = clip_grad_norm(gradients, options.clip_norm);
  else
    norm = grad_norm(gradients);
  if (options.clip_value > 0) gradients = clip_grad_value(gradients, options.clip_value);
  Tensor is_taken = isfinite(norm) & isfinite(value);
  if (scaler) is_taken = is_taken & are_finite;
  optimizer.step_if(is_taken, gradients);
  if (scaler) scaler->update(are_finite);
  if (options.masters)
    for (size_t i = 0; i < trained.size(); ++i) copy_(differentiated[i], trained[i]);
  for (size_t i = 0; i < averages.size(); ++i)
    copy_(averages[i], where(is_taken, averages[i] * options.ema_decay + trained[i] * (1 - options.ema_decay), averages[i]));
  const Tensor scale = scaler ? scaler->get_scale() : ones_like(norm);
  return cat({stack({to(value, DType::F32), norm, to(is_taken, DType::F32), scale}), stack(norms)}, 0);
}

void Trainer::Impl::make_functions() {
  CompileConfig config = options.compile;
  config.fullgraph = true;
  const auto named = [&](const char* name) {
    config.name = name;
    return config;
  };
  whole_step = toroid::compile(
      [this](const Batch& batch) {
        auto [value, gradients] = differentiate(batch);
        return apply(value, std::move(gradients));
      },
      named("training step"));
  first_part = toroid::compile(
      [this](const Batch& batch) {
        auto [value, gradients] = differentiate(batch);
        for (size_t i = 0; i < gradients.size(); ++i) add_(sums[i], gradients[i]);
        add_(sums.back(), to(value, DType::F32));
      },
      named("part of a training step"));
  last_part = toroid::compile(
      [this](const Batch& batch) {
        auto [value, gradients] = differentiate(batch);
        for (size_t i = 0; i < gradients.size(); ++i) {
          gradients[i] = gradients[i] + sums[i];
          zero_(sums[i]);
        }
        value = to(value, DType::F32) + sums.back();
        zero_(sums.back());
        return apply(value, std::move(gradients));
      },
      named("last part of a training step"));
  make_evaluation();
}

void Trainer::Impl::make_evaluation() {
  CompileConfig config = options.compile;
  config.fullgraph = true;
  config.name = "evaluation";
  evaluation = toroid::compile(
      [this](const Batch& batch) {
        const NoGrad no_gradients;
        return evaluated(batch);
      },
      config);
}

std::string Trainer::Impl::first_not_finite(const std::vector<Batch>& batches, const std::vector<double>& result) const {
  const NoGrad only_looks;
  const auto is_bad = [](const Tensor& t) { return is_float(t.dtype()) && !all_finite(std::span(&t, 1)).item(); };
  for (auto& batch : batches)
    for (size_t i = 0; i < batch.size(); ++i)
      if (is_bad(batch[i])) return fmt::format("tensor {} of the batch", i);
  for (size_t i = 0; i < names.size(); ++i)
    if (is_bad(differentiated[i])) return "weight " + names[i];
  if (!std::isfinite(result[0])) return "loss";
  for (size_t i = 0; i < names.size(); ++i)
    if (!std::isfinite(result.at(4 + i))) return "gradient of " + names[i];
  return "norm of all gradients";
}

Batch Trainer::Impl::next_batch() {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < options.batch_size; ++i) samples.push_back(order.at(place++));
  Batch batch = data.batch(samples);
  for (auto& t : batch) t = t.to(device);
  return batch;
}

StepReport Trainer::Impl::step() {
  const NoGrad steps_have_no_history;  // parameters that require gradients are written
  const double start = now();
  StepReport r;
  r.step = steps + 1;
  for (size_t group = 0; group < schedules.size(); ++group) optimizer.set_learning_rate(schedules[group](steps), group);
  r.lr = schedules.empty() ? optimizer.learning_rate().item() : schedules[0](steps);
  const int64_t begin = place;
  Tensor result;
  std::vector<Batch> batches;
  try {
    for (int64_t i = 0; i + 1 < options.accumulate; ++i) first_part(batches.emplace_back(next_batch()));
    const Batch& last = batches.emplace_back(next_batch());
    result = options.accumulate > 1 ? last_part(last) : whole_step(last);
  } catch (...) {
    place = begin;  // the step was not done
    for (auto& s : sums) zero_(s);
    throw;
  }
  const std::vector<double> values = result.to_vector();
  ++steps;
  r.loss = values[0], r.grad_norm = values[1], r.skipped = values[2] == 0, r.loss_scale = values[3];
  r.seconds = now() - start;
  r.unit = data.unit();
  r.units_per_second = static_cast<double>((place - begin) * data.units_per_sample()) / r.seconds;
  r.compiling = std::exchange(is_first, false);
  if (r.skipped) r.not_finite = first_not_finite(batches, values);
  skipped = r.skipped ? skipped + 1 : 0;
  return r;
}

EvaluationReport Trainer::Impl::evaluate() {
  require(held_out, "evaluate: there is no data for it; call set_evaluation() first");
  const double start = now();
  const Evaluating scope(model);
  const int64_t rows = std::min(options.batch_size, held_out->size());
  int64_t batches = held_out->size() / rows;
  if (options.evaluation_batches > 0) batches = std::min(batches, options.evaluation_batches);
  EvaluationReport r;
  r.step = steps;
  for (int64_t b = 0; b < batches; ++b) {
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < rows; ++i) samples.push_back(b * rows + i);
    Batch batch = held_out->batch(samples);
    for (auto& t : batch) t = t.to(device);
    const std::vector<double> values = evaluation(batch).to_vector();
    r.loss += values[0] / static_cast<double>(batches);
    for (size_t i = 0; i < metric_names.size(); ++i) {
      if (r.metrics.size() == i) r.metrics.emplace_back(metric_names[i], 0);
      r.metrics[i].second += values.at(1 + i) / static_cast<double>(batches);
    }
  }
  if (options.perplexity) r.metrics.emplace_back("perplexity", std::exp(r.loss));
  r.samples = batches * rows;
  r.seconds = now() - start;
  return r;
}

Tensor next_token_loss(nn::TokenModel& model, const Tensor& tokens) {
  const Tensor logits = model(slice(tokens, 1, 0, -1));
  return cross_entropy(flatten(logits, 0, 1), flatten(slice(tokens, 1, 1)));
}

}  // namespace toroid::train
