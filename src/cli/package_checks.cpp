// toroid diff, and toroid doctor of a package.
#include <fmt/core.h>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/package_text.h"
#include "package/check_up.h"
#include "package/difference.h"

namespace toroid::cli {
namespace {

using package::Differences;
using Text = std::optional<std::string>;

// A value beside the other's, long ones cut.
std::string beside(const Text& a, const Text& b) {
  constexpr size_t kLongest = 120;
  const auto text = [](const Text& t) { return !t ? "none" : shown(t->size() > kLongest ? t->substr(0, kLongest) + " ..." : *t); };
  return fmt::format("{} | {}", text(a), text(b));
}

const char* change_of(const Text& a, const Text& b) { return !a ? "added" : !b ? "removed" : "changed"; }

std::string text_of(const Differences::Weight& w) {
  if (w.a != w.b) return beside(w.a, w.b);
  std::string out = *w.a;
  if (w.differ > 0) out += fmt::format(", {} of {} elements differ, by {:.3g} at most", w.differ, w.elements, w.largest);
  return out + (w.layout ? ", laid out in another order" : "");
}

void print_differences(const DiffArgs& args, const Differences& d) {
  if (d.none()) {
    fmt::print("{} and {} are equal\n", args.a, args.b);
    return;
  }
  fmt::print("{} | {}\n", args.a, args.b);
  for (auto& f : d.fields) fmt::print("  {}: {}\n", shown(f.path), beside(f.a, f.b));
  for (auto& k : d.kernels)
    fmt::print("  kernel of {} {}: {}: {}\n", shown(k.program), change_of(k.a, k.b), shown(k.name), beside(k.a, k.b));
  for (auto& l : d.lines) fmt::print("  program {}, from line {} on: {}\n", shown(l.program), l.line, beside(l.a, l.b));
  for (auto& w : d.weights) fmt::print("  weight {} {}: {}\n", change_of(w.a, w.b), shown(w.name), text_of(w));
}

std::string json_of(const Text& t) { return t ? json_string(*t) : "null"; }

template <class T, class F>
std::string rows(const std::vector<T>& items, F&& row) {
  std::string out;
  for (auto& item : items) out += (out.empty() ? "" : ",\n ") + row(item);
  return out;
}

void print_json(const Differences& d) {
  const auto field = [](const Differences::Field& f) {
    return fmt::format(R"({{"path":{},"a":{},"b":{}}})", json_string(f.path), f.a.value_or("null"), f.b.value_or("null"));
  };
  const auto kernel = [](const Differences::Kernel& k) {
    return fmt::format(R"({{"program":{},"name":{},"change":"{}","a":{},"b":{}}})", json_string(k.program), json_string(k.name),
                       change_of(k.a, k.b), json_of(k.a), json_of(k.b));
  };
  const auto line = [](const Differences::Line& l) {
    return fmt::format(R"({{"program":{},"line":{},"a":{},"b":{}}})", json_string(l.program), l.line, json_string(l.a), json_string(l.b));
  };
  const auto weight = [](const Differences::Weight& w) {
    const std::string largest = w.largest <= 1e308 ? fmt::format("{}", w.largest) : "null";  // JSON has no infinity
    return fmt::format(R"({{"name":{},"change":"{}","a":{},"b":{},"elements":{},"differ":{},"largest":{},"layout":{}}})",
                       json_string(w.name), change_of(w.a, w.b), json_of(w.a), json_of(w.b), w.elements, w.differ, largest, w.layout);
  };
  fmt::print("{{\"equal\":{},\"fields\":[{}],\n\"kernels\":[{}],\n\"programs\":[{}],\n\"weights\":[{}]}}\n", d.none(),
             rows(d.fields, field), rows(d.kernels, kernel), rows(d.lines, line), rows(d.weights, weight));
}

}  // namespace

int diff(const DiffArgs& args) {
  const auto a = package::Package::open(args.a), b = package::Package::open(args.b);
  const Differences d = package::differences(*a, *b);
  if (args.json)
    print_json(d);
  else
    print_differences(args, d);
  return d.none() ? kOk : kMismatch;
}

int doctor_of_package(const DoctorArgs& args) {
  using State = package::Check::State;
  Checks checks(args.json);
  const auto found = package::check_up(args.package, args.device.empty() ? std::nullopt : std::optional(device_from_name(args.device)),
                                       args.weights_folder);
  int code = kOk;
  for (auto& c : found) {
    if (c.state == State::Passed) checks.ok(c.name.c_str(), shown(c.text));
    if (c.state == State::Note) checks.note(fmt::format("{}: {}", c.name, shown(c.text)));
    if (c.state != State::Failed) continue;
    checks.failed(c.name.c_str(), shown(c.text));
    if (code == kOk) code = c.of_machine ? kEnvironmentError : kUserError;
  }
  checks.finish("it loads here", "it does not load here: see above");
  return code;
}

}  // namespace toroid::cli
