#include "front/variant.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::front {

using detail::ArgumentView;

std::vector<Tensor> Call::run_eagerly() const {
  std::vector<Tensor> own;
  for (auto* t : tensors) own.push_back(*t);
  return run(own);
}

Call call_of(std::span<const ArgumentView> arguments, detail::Body body, void* function) {
  Call c{{}, arguments, body, function};
  c.tensors.reserve(arguments.size());
  for (auto& a : arguments) {
    if (auto* t = std::get_if<const Tensor*>(&a)) c.tensors.push_back(*t);
    if (auto* list = std::get_if<const std::vector<Tensor>*>(&a))
      for (auto& t : **list) c.tensors.push_back(&t);
  }
  return c;
}

bool Entry::matches(const Call& c, const OptionsNow& now) const {
  if (!fits(c, now)) return false;
  if (!program) return memory_is_shared(c);  // else there can be compiled code
  if (!writes) return true;
  for (auto* t : c.tensors)
    for (auto& w : captures->tensors())
      if (t->defined() && share_memory(*t, w)) return false;
  return true;
}

bool Entry::fits(const Call& c, const OptionsNow& now) const {
  size_t next = 0;
  for (auto& a : c.arguments)
    if (!std::holds_alternative<const Tensor*>(a) && (next >= scalars.size() || !equal(a, scalars[next++]))) return false;
  if (next != scalars.size() || options->key != now.key || surroundings != Surroundings::now()) return false;
  return guards.hold(c.tensors);
}

bool Entry::memory_is_shared(const Call& c) const {
  std::vector<const Tensor*> all;
  for (auto* t : c.tensors)
    if (t->defined() && std::none_of(all.begin(), all.end(), [&](auto* o) { return o->impl() == t->impl(); })) all.push_back(t);
  for (auto& w : captures->tensors()) all.push_back(&w);
  return some_share_memory(all);
}

std::vector<Tensor> Entry::operands(std::span<const Tensor> arguments) const {
  std::vector<Tensor> out;
  size_t next = 0, captured = 0;
  for (bool argument : from_call) out.push_back(argument ? arguments[next++] : captures->tensors()[captured++]);
  return out;
}

std::vector<std::string> Entry::failures(const Call& c, const OptionsNow& now) const {
  std::vector<std::string> out;
  size_t next = 0;
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    if (std::holds_alternative<const Tensor*>(c.arguments[i])) continue;
    if (next >= scalars.size()) return {"the number of arguments changed"};
    const Scalar& s = scalars[next++];
    if (equal(c.arguments[i], s)) continue;
    auto values = scalars_of(c.arguments.subspan(i, 1));
    if (std::holds_alternative<const std::vector<Tensor>*>(c.arguments[i]))
      out.push_back(fmt::format("argument {}: had {} tensors, has {}", i, text_of(s), text_of(values[0])));
    else
      out.push_back(fmt::format("argument {}: was {}, is {}", i, text_of(s), text_of(values[0])));
  }
  if (const Surroundings here = Surroundings::now(); surroundings != here) out.push_back(surroundings.change(here));
  if (options->key != now.key) out.push_back(difference(options->options, now.options));
  for (auto& f : guards.failures(c.tensors)) out.push_back(f);
  if (out.empty())
    out.push_back(program ? "an argument shares memory with a captured tensor that the function writes"
                          : "tensors shared memory and the function writes to them, now they do not");
  return out;
}

std::string failure_of_nearest(const Entries& entries, const Call& c, const OptionsNow& now) {
  std::vector<std::string> least;
  for (auto& e : entries)
    if (auto why = e->failures(c, now); least.empty() || why.size() <= least.size()) least = std::move(why);
  return least.empty() ? "" : least[0];
}

}  // namespace toroid::front
