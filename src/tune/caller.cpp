#include "tune/caller.h"

#include <chrono>

#include "base/check.h"
#include "choice/region.h"
#include "sched/channels_last.h"
#include "sched/layout.h"
#include "tune/time_limit.h"

namespace toroid::tune {
namespace {

Hash128 key_of(const choice::Program& region, const Choice& d, const Pipeline& pipeline) {
  return Hasher().add(choice::region_key(region)).add(to_string(d)).add(pipeline.device_key).finish();
}

std::unique_ptr<Build> generated(const Pipeline& pipeline, const choice::Program& region, const Choice& choice) {
  return pipeline.build(pipeline.schedule(apply(region, choice, own_numbers(region))));
}

// Of the texts of its kernels.
std::string hash_of(const Build& build) {
  Hasher texts;
  for (auto& k : build.kernels()) texts.add(k.source);
  return texts.finish().hex();
}

}  // namespace

std::string_view name_of(CallerKind kind) {
  switch (kind) {
    case CallerKind::Default:
      return "default";
    case CallerKind::Template:
      return "template";
    case CallerKind::Library:
      return "library";
    case CallerKind::Subgraph:
      return "subgraph";
    case CallerKind::Fused:
      return "fused";
  }
  return "";
}

bool is_layout(const choice::Config& way) { return sched::is_layout(way) || sched::is_channels_last(way); }

CallerKind kind_of(const choice::Config& way) {
  if (way.form == "cublaslt" || way.form == "cudnn" || way.form == "onednn") return CallerKind::Library;
  if (way.form == "decompose_k" || way.form == "mm_plus_mm" || is_layout(way) || way.form.starts_with("alternative "))
    return CallerKind::Subgraph;
  return CallerKind::Template;
}

ChoiceCaller::ChoiceCaller(std::string name, CallerKind kind, Choice choice, std::shared_ptr<const choice::Program> region,
                           std::shared_ptr<const Pipeline> pipeline, double most_ms)
    : name_(std::move(name)),
      kind_(kind),
      choice_(std::move(choice)),
      region_(std::move(region)),
      pipeline_(std::move(pipeline)),
      key_(key_of(*region_, choice_, *pipeline_)),
      most_ms_(most_ms) {}

// Without a build where it takes too long.
ChoiceCaller::Built ChoiceCaller::built() const {
  auto out = std::make_shared<Built>();
  const auto compile = [out, choice = choice_, region = region_, pipeline = pipeline_] {
    out->build = generated(*pipeline, *region, choice);
    out->kernels = hash_of(*out->build);
    out->build->compile();
  };
  if (most_ms_ > 0) return run_within(most_ms_, compile) ? std::move(*out) : Built{};
  compile();
  return std::move(*out);
}

void ChoiceCaller::compile_locked() {
  if (build_) return;
  const auto begun = std::chrono::steady_clock::now();
  Built made = given_up_ ? Built{} : built();
  const auto took = std::chrono::steady_clock::now() - begun;
  compile_ms_ += std::chrono::duration<double, std::milli>(took).count();
  given_up_ = !made.build;
  if (given_up_) fail<EnvironmentError>("compiling took longer than {:.0f} ms (option tune_compile_timeout_ms)", most_ms_);
  ++compiles_;
  kernels_ = std::move(made.kernels);
  build_ = std::move(made.build);
}

void ChoiceCaller::precompile() {
  std::lock_guard lock(mutex_);
  if (build_ || executable_ || !failure_.empty()) return;
  try {
    compile_locked();
  } catch (const std::exception& e) {
    failure_ = e.what();
  }
}

std::shared_ptr<exec::Executable> ChoiceCaller::executable() {
  std::lock_guard lock(mutex_);
  if (executable_) return executable_;
  compile_locked();
  failure_.clear();
  texts_ = build_->kernels();
  executable_ = std::make_shared<exec::Executable>(build_->plan());
  build_.reset();  // its plan is gone
  return executable_;
}

void ChoiceCaller::release() {
  std::lock_guard lock(mutex_);
  build_.reset();
  executable_.reset();
  texts_ = {};
}

std::vector<codegen::KernelText> ChoiceCaller::texts() const {
  std::lock_guard lock(mutex_);
  return texts_;
}

std::string ChoiceCaller::kernels() const {
  std::lock_guard lock(mutex_);
  return kernels_;
}

std::string ChoiceCaller::name_kernels() {
  std::lock_guard lock(mutex_);
  if (kernels_.empty()) try {
      kernels_ = hash_of(*generated(*pipeline_, *region_, choice_));
    } catch (const std::exception&) {  // whoever compiles it is told
    }
  return kernels_;
}

double ChoiceCaller::compile_ms() const {
  std::lock_guard lock(mutex_);
  return compile_ms_;
}

std::string ChoiceCaller::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void ChoiceCaller::mark_failed(std::string why) {
  std::lock_guard lock(mutex_);
  failure_ = std::move(why);
}

}  // namespace toroid::tune
