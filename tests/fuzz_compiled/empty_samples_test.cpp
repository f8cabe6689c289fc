// Every sample of the operations' gradients with one of its sizes 0: as a program of its own, and recorded with a size that
// is open and turns out to be 0; one in a few also eagerly, and compiled. All give what the reference gives, or refuse it as the reference
// does, by a UserError.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "autograd/checks.h"
#include "base/options.h"
#include "compile/pipeline.h"
#include "front/compile_model.h"
#include "fuzz_compiled/differential.h"
#include "graph/interpreter.h"
#include "graph/recorder.h"
#include "ops/reference.h"
#include "program/interpret.h"
#include "toroid/error.h"

namespace toroid::fuzz {
namespace {

using autograd::Sample;
using Tensors = std::vector<Tensor>;

// The dimensions that are 0, by the place of their tensor among the call's.
using Cut = std::set<std::pair<size_t, size_t>>;

Tensors tensors_of(const Sample& s) {
  Tensors out;
  for (auto& a : s.args) map_arg<Tensor>(a, [&](const Tensor& t) { return out.push_back(t), t; });
  return out;
}

// The call on other tensors.
CallArgs with(const Sample& s, const Tensors& tensors) {
  CallArgs out;
  size_t at = 0;
  for (auto& a : s.args) out.push_back(map_arg<Tensor>(a, [&](const Tensor&) { return tensors[at++]; }));
  return out;
}

// Each dimension by itself, and each size of the call wherever it is a dimension.
std::vector<Cut> cuts_of(const Tensors& tensors) {
  std::map<int64_t, Cut> by_size;
  std::set<Cut> out;
  for (size_t i = 0; i < tensors.size(); ++i)
    for (size_t d = 0; tensors[i].defined() && d < tensors[i].sizes().size(); ++d)
      if (const int64_t size = tensors[i].sizes()[d]; size > 0) out.insert(Cut{{i, d}}), by_size[size].insert({i, d});
  for (auto& [size, cut] : by_size) out.insert(cut);
  return {out.begin(), out.end()};
}

Tensors emptied(const Tensors& tensors, const Cut& cut) {
  Tensors out = tensors;
  for (auto& [i, d] : cut) {
    std::vector<int64_t> sizes = out[i].sizes();
    sizes[d] = 0;
    out[i] = Tensor::empty(sizes, out[i].dtype());
  }
  return out;
}

// What came of a call: its results; nothing where it was refused.
struct Outcome {
  std::optional<Tensors> results;
  std::string refusal, fault;  // the UserError; any other error
};

Outcome outcome_of(const std::function<Tensors()>& run) {
  try {
    return {run(), "", ""};
  } catch (const UserError& e) {
    return {std::nullopt, e.what(), ""};
  } catch (const std::exception& e) {
    return {std::nullopt, "", e.what()};
  }
}

std::string text_of(const Outcome& o) {
  if (!o.results) return o.fault.empty() ? "refused: " + o.refusal : "fault: " + o.fault;
  std::string out;
  for (auto& t : *o.results) out += to_string(TensorType{t.dtype(), {t.sizes().begin(), t.sizes().end()}, {}}) + " ";
  return out;
}

// A refusal that says what to do about an open size.
bool wants_static_size(const Outcome& o) { return o.refusal.find("make the size static") != o.refusal.npos; }

// "" where one is what the other is. Random numbers differ, and what gives nothing need not look at indices.
std::string difference_of(const Outcome& found, const Outcome& expected, bool random) {
  const std::string both = fmt::format("{}, expected {}", text_of(found), text_of(expected));
  if (found.results && expected.refusal.find("is out of range for") != std::string::npos)
    return std::all_of(found.results->begin(), found.results->end(), [](auto& t) { return t.numel() == 0; }) ? "" : both;
  if (!found.fault.empty() || found.results.has_value() != expected.results.has_value()) return both;
  if (!found.results) return "";
  if (text_of(found) != text_of(expected)) return both;
  for (size_t i = 0; !random && i < found.results->size(); ++i) {
    const Tensor &a = (*found.results)[i], &b = (*expected.results)[i];
    if (is_complex(a.dtype())) continue;
    if (const std::string d = difference(a, b, 1e-5); !d.empty()) return fmt::format("result {}: {}", i, d);
  }
  return "";
}

// The call as a graph whose inputs are its tensors, those dimensions of them a size that is `hint` at hand.
std::unique_ptr<graph::Graph> recorded(const Sample& s, const Tensors& tensors, const Cut& cut, int64_t hint, bool open) {
  auto g = std::make_unique<graph::Graph>();
  graph::Recorder recorder(*g);
  const Expr size = open ? g->new_symbol("s", 0, 64, false) : Expr(0);
  if (open) recorder.set_hint(size.node()->name, hint);
  Tensors proxies;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) {
      proxies.push_back(tensors[i]);
      continue;
    }
    TensorType type{tensors[i].dtype(), {tensors[i].sizes().begin(), tensors[i].sizes().end()}, {}};
    for (auto& [tensor, d] : cut)
      if (tensor == i) type.sizes[d] = size;
    proxies.push_back(recorder.proxy(g->add_input(type, graph::InputKind::User, "x")));
  }
  const DispatchScope scope(recorder);
  for (const Tensor& t : ops::call(s.op, with(s, proxies))) g->outputs.push_back({recorder.value_of(t), {}, -1});
  return g;
}

// Whether the graph is for a size of 0: what it assumes of sizes holds there. Requirements are errors of its operations.
bool is_for_0(const graph::Graph& g) {
  return std::all_of(g.guards.begin(), g.guards.end(),
                     [](auto& guard) { return guard.is_requirement() || sym::holds(guard, [](const sym::Node&) { return int64_t{0}; }); });
}

// What the scheduled program of the graph computes, interpreted.
Tensors by_program(std::unique_ptr<graph::Graph> g, const Tensors& inputs) {
  compiler::CompileReport report;
  const compiler::Job job = compiler::job_of(g->name, compiler::Setup());
  return program::interpret(compiler::advance<compiler::Fused>(compiler::Imported{std::move(g)}, job, report).program, inputs);
}

Tensors compiled(std::unique_ptr<graph::Graph> g, const Tensors& inputs) { return front::compile_model(std::move(g)).run(inputs); }

class EmptySamples : public testing::Test {
 protected:
  // What is wrong with the sample, a line each. runs: kernels, too.
  std::vector<std::string> faults(const Sample& s, const Cut& cut, bool runs) {
    const Tensors whole = tensors_of(s), inputs = emptied(whole, cut);
    Tensors given;
    for (auto& t : inputs)
      if (t.defined()) given.push_back(t);
    const bool random = ops::get(s.op).random || s.op.find("dropout") != s.op.npos;
    const Outcome expected = outcome_of([&] {
      const DispatchScope scope(reference_);
      return ops::call(s.op, with(s, inputs));
    });
    std::vector<std::string> out;
    const auto compare = [&](const std::string& way, const Outcome& found) {
      if (const std::string d = difference_of(found, expected, random); !d.empty()) out.push_back(fmt::format("{} {}: {}", s.op, way, d));
    };
    if (!expected.fault.empty()) out.push_back(fmt::format("{} reference: {}", s.op, text_of(expected)));
    if (runs) compare("eager", outcome_of([&] { return ops::call(s.op, with(s, inputs)); }));
    if (std::any_of(given.begin(), given.end(), [](auto& t) { return is_complex(t.dtype()); })) return out;  // programs take none
    const auto run = [&](std::unique_ptr<graph::Graph> g) {
      return runs ? compiled(std::move(g), given) : by_program(std::move(g), given);
    };
    compare("compiled", outcome_of([&] { return run(recorded(s, whole, cut, 0, false)); }));
    for (const int64_t hint : {int64_t{0}, whole[cut.begin()->first].sizes()[cut.begin()->second]}) {
      bool other = false;  // at 0 another graph is recorded
      const Outcome found = outcome_of([&] {
        auto g = recorded(s, whole, cut, hint, true);
        other = !is_for_0(*g);
        return other ? Tensors() : run(std::move(g));
      });
      if (!other && !wants_static_size(found)) compare(fmt::format("recorded at {}", hint), found);
    }
    return out;
  }

  ops::ReferenceDispatcher reference_;
};

TEST_F(EmptySamples, AreWhatTheReferenceGives) {
  ScopedOption no_cache("cache", "0");
  std::vector<Sample> all;
  {
    const DispatchScope samples_are_made_by(reference_);
    all = autograd::samples();
    for (auto& s : autograd::composite_samples()) all.push_back(s);
  }
  size_t cuts = 0;
  std::set<std::string> told;
  for (auto& s : all)
    for (const Cut& cut : cuts_of(tensors_of(s)))
      for (auto& f : faults(s, cut, ++cuts % 64 == 0))
        if (told.insert(f).second) ADD_FAILURE() << f;
  EXPECT_GT(cuts, 1000u);
}

}  // namespace
}  // namespace toroid::fuzz
