#include "package/manifest.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/json_text.h"
#include "device/cpu/launch.h"
#include "exec/plan_file.h"
#include "import/json.h"

namespace toroid::package {
namespace {

using import::Json;

std::string list(const std::vector<std::string>& items) {
  std::string out;
  for (auto& s : items) out += (out.empty() ? "" : ", ") + json_string(s);
  return "[" + out + "]";
}

// The lines of a list of objects, at an indent.
template <class T, class F>
std::string lines(const T& items, int indent, F&& text) {
  std::string out, before(static_cast<size_t>(indent), ' ');
  for (auto& item : items) out += fmt::format("{}\n{}  {}", out.empty() ? "" : ",", before, text(item));
  return "[" + out + (out.empty() ? "]" : "\n" + before + "]");
}

std::string text(const Value& v) {
  return fmt::format(R"({{"name": {}, "type": {}, "written": {}}})", json_string(v.name), json_string(v.type), v.written);
}

std::string text(const Program& p) {
  std::string states;
  for (auto& s : p.states) states += fmt::format(R"({}{{"input": {}, "state": {}}})", states.empty() ? "" : ", ", s.input, s.state);
  states = "[" + states + "]";
  return fmt::format(
      R"({{"target": {}, "device": {}, "code_for": {}, "plan": {}, "kernels": {}, "libraries": {}, "operations": {}, "gpu_functions": {}, )"
      R"("driver": {}, "precision": {}, "tolerance": {}, "tuning": {{"by": {}, "lock": {}, "device": {}}}, "states": {}}})",
      json_string(p.target), json_string(p.device), json_string(p.code_for), json_string(p.plan), list(p.kernels), list(p.libraries),
      list(p.operations), list(p.gpu_functions), p.driver, json_string(p.precision), p.tolerance, json_string(p.tuning.by),
      json_string(p.tuning.lock), json_string(p.tuning.device), states);
}

std::string text(const Entry& e) {
  const auto value = [](const Value& v) { return text(v); };
  return fmt::format("{{\"name\": {},\n     \"inputs\": {},\n     \"outputs\": {},\n     \"sizes\": {},\n     \"programs\": {}}}",
                     json_string(e.name), lines(e.inputs, 5, value), lines(e.outputs, 5, value),
                     lines(e.sizes, 5,
                           [](const Size& s) {
                             return fmt::format(R"({{"name": {}, "least": {}, "greatest": {}}})", json_string(s.name), s.least, s.greatest);
                           }),
                     lines(e.programs, 5, [](const Program& p) { return text(p); }));
}

std::string text(const Layout& l) {
  return fmt::format(R"("dtype": "{}", "sizes": [{}], "strides": [{}])", name_of(l.dtype), fmt::join(l.sizes, ", "),
                     fmt::join(l.strides, ", "));
}

std::string text(const State& s) { return fmt::format(R"({{"name": {}, {}}})", json_string(s.name), text(s.layout)); }

std::string text(const Weight& w) { return fmt::format(R"({{"names": {}, {}, "sha256": "{}"}})", list(w.names), text(w.layout), w.sha256); }

std::string text(const Recipe& r) {
  return fmt::format(
      R"({{{}, "weight": {}, "constant": {}, "call": {}, "step": {}, "result": {}, "packing": {}, "numbers": [{}], "of": [{}]}})",
      text(r.layout), r.weight, json_string(r.constant), json_string(r.call), r.step, r.result, json_string(r.packing),
      fmt::join(r.numbers, ", "), fmt::join(r.of, ", "));
}

std::vector<std::string> strings(const Json& j) {
  std::vector<std::string> out;
  for (size_t i = 0; i < j.size(); ++i) out.emplace_back(j[i].as_str());
  return out;
}

std::vector<int64_t> integers(const Json& j) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < j.size(); ++i) out.push_back(j[i].as_int());
  return out;
}

std::vector<Value> values(const Json& j) {
  std::vector<Value> out;
  for (size_t i = 0; i < j.size(); ++i)
    out.push_back({std::string(j[i].at("name").as_str()), std::string(j[i].at("type").as_str()), j[i].at("written").as_bool()});
  return out;
}

std::string string(const Json& j, std::string_view key) { return std::string(j.at(key).as_str()); }

Layout layout(const Json& j) {
  Layout l{dtype_from_name(j.at("dtype").as_str()), integers(j.at("sizes")), integers(j.at("strides"))};
  if (l.sizes.size() != l.strides.size()) j.refuse("expected as many strides as sizes");
  return l;
}

// Of a list that packages of the format's first days have not.
std::vector<Json> items(const Json& j, std::string_view key) {
  std::vector<Json> out;
  if (const auto list = j.find(key))
    for (size_t i = 0; i < list->size(); ++i) out.push_back((*list)[i]);
  return out;
}

// A number below `end`, or -1.
int place(const Json& j, size_t end) {
  const int64_t n = j.as_int();
  if (n < -1 || n >= static_cast<int64_t>(end)) j.refuse(fmt::format("expected a number below {}", end));
  return static_cast<int>(n);
}

uint64_t bytes_of(const Json& j) {
  const int64_t bytes = j.at("bytes").as_int();
  if (bytes < 0) j.refuse("expected a number of bytes");
  return static_cast<uint64_t>(bytes);
}

// It becomes the name of a file, and so is nothing else.
std::string hash_of(const Json& j, std::string_view key) {
  std::string out = string(j, key);
  if (out.size() != 64 || out.find_first_not_of("0123456789abcdef") != out.npos)
    j.at(key).refuse("expected a SHA-256: 64 digits of 0 to 9 and a to f");
  return out;
}

constexpr const char* kMakeAgain = "make the package again: toroid compile MODEL -o FILE";

std::vector<Requirement> requirements_of(const Json& j) {
  std::vector<Requirement> out;
  const auto require = [&](const char* field, auto its, auto ours, const char* remedy) {
    out.push_back({field, fmt::format("{}", its), fmt::format("{}", ours), remedy, its == ours});
  };
  require("format_name", j.at("format_name").as_str(), kFormatName, "is this a package of Toroid?");
  if (!out[0].met) return out;  // the others mean nothing
  const int64_t format = j.at("format").as_int();
  out.push_back({"format", std::to_string(format), fmt::format("{} to {}", kOldestFormat, kFormat),
                 format > kFormat ? "use a newer runtime, or make the package by an older toroid compile" : kMakeAgain,
                 format >= kOldestFormat && format <= kFormat});
  if (!out[1].met) return out;
  require("plan_version", j.at("plan_version").as_int(), int64_t{exec::kPlanVersion}, kMakeAgain);
  require("kernel_abi", j.at("kernel_abi").as_int(), int64_t{device::cpu::kKernelAbi}, kMakeAgain);
  require("system", j.at("system").as_str(), std::string_view("linux"), "run toroid compile on such a system");
  require("machine", j.at("machine").as_str(), std::string_view("x86-64"), "run toroid compile on such a machine");
  return out;
}

}  // namespace

std::string to_json(const Manifest& m) {
  std::string constants;
  for (auto& [name, c] : m.constants)
    constants += fmt::format("{}\n    {}: {{\"tensor\": {}, {}, \"recipe\": {}, \"file\": {}}}", constants.empty() ? "" : ",",
                             json_string(name), json_string(c.tensor), text(c.layout), c.recipe, c.file);
  const auto entry = [](const Entry& e) { return text(e); };
  const auto part = [](const Part& p) {
    return fmt::format(R"({{"name": {}, "bytes": {}, "sha256": "{}"}})", json_string(p.name), p.bytes, p.sha256);
  };
  return fmt::format(
      "{{\n  \"format_name\": \"{}\",\n  \"format\": {},\n  \"plan_version\": {},\n  \"kernel_abi\": {},\n  \"system\": {},\n"
      "  \"machine\": {},\n  \"compiler\": {},\n  \"toroid\": {},\n  \"mode\": {},\n  \"entries\": {},\n  \"constants\": {{{}}},\n"
      "  \"states\": {},\n  \"weights\": {},\n  \"recipes\": {},\n  \"files\": {},\n  \"weights_head\": \"{}\",\n  \"parts\": {}\n}}\n",
      kFormatName, m.format, m.plan_version, m.kernel_abi, json_string(m.system), json_string(m.machine), json_string(m.compiler),
      json_string(m.toroid), json_string(m.mode), lines(m.entries, 2, entry), constants,
      lines(m.states, 2, [](const State& s) { return text(s); }), lines(m.weights, 2, [](const Weight& w) { return text(w); }),
      lines(m.recipes, 2, [](const Recipe& r) { return text(r); }),
      lines(m.files, 2,
            [](const WeightFile& f) { return fmt::format(R"({{"sha256": "{}", "bytes": {}, "head": "{}"}})", f.sha256, f.bytes, f.head); }),
      m.weights_head, lines(m.parts, 2, part));
}

std::vector<std::string> swappable_weights(const Manifest& m) {
  std::vector<std::string> out;
  for (size_t i = 0; i < m.weights.size(); ++i) {
    const bool used = std::any_of(m.recipes.begin(), m.recipes.end(), [&](auto& r) { return r.weight == static_cast<int>(i); });
    if (used && m.weights[i].sha256.empty()) out.insert(out.end(), m.weights[i].names.begin(), m.weights[i].names.end());
  }
  return out;
}

std::vector<Requirement> requirements(std::string_view json, const std::string& source) {
  return requirements_of(import::JsonDocument::parse(json, source).root());
}

Manifest read_manifest(std::string_view json, const std::string& source) {
  const auto doc = import::JsonDocument::parse(json, source);
  const Json j = doc.root();
  for (auto& r : requirements_of(j))
    TOROID_USER_CHECK(r.met, "{}: the field \"{}\" is {}, this runtime takes {}; {}", source, r.field, r.its, r.ours, r.remedy);
  Manifest m;
  m.format = j.at("format").as_int();
  m.plan_version = j.at("plan_version").as_int(), m.kernel_abi = j.at("kernel_abi").as_int();
  m.system = string(j, "system"), m.machine = string(j, "machine");
  if (const auto toroid = j.find("toroid")) m.toroid = toroid->as_str();
  m.compiler = string(j, "compiler"), m.mode = string(j, "mode"), m.weights_head = string(j, "weights_head");
  const Json entries = j.at("entries"), constants = j.at("constants"), parts = j.at("parts");
  const auto weights = items(j, "weights"), recipes = items(j, "recipes"), files = items(j, "files"), states = items(j, "states");
  for (const Json& s : states) m.states.push_back({string(s, "name"), layout(s)});
  for (size_t i = 0; i < entries.size(); ++i) {
    const Json e = entries[i], sizes = e.at("sizes"), programs = e.at("programs");
    Entry& entry = m.entries.emplace_back();
    entry.name = string(e, "name"), entry.inputs = values(e.at("inputs")), entry.outputs = values(e.at("outputs"));
    for (size_t k = 0; k < sizes.size(); ++k)
      entry.sizes.push_back({string(sizes[k], "name"), sizes[k].at("least").as_int(), sizes[k].at("greatest").as_int()});
    for (size_t k = 0; k < programs.size(); ++k) {
      const Json p = programs[k];
      entry.programs.push_back({string(p, "target"), string(p, "device"), string(p, "code_for"), string(p, "plan"),
                                strings(p.at("kernels")), strings(p.at("libraries")), strings(p.at("operations"))});
      Program& read = entry.programs.back();
      if (const auto list = p.find("gpu_functions")) read.gpu_functions = strings(*list);
      if (const auto driver = p.find("driver")) read.driver = driver->as_int();
      if (const auto precision = p.find("precision")) read.precision = precision->as_str();
      if (const auto tolerance = p.find("tolerance")) read.tolerance = tolerance->as_double();
      if (!(read.tolerance >= 0 && read.tolerance < 1)) p.at("tolerance").refuse("expected a part of an output's range, from 0 to 1");
      if (const auto tuning = p.find("tuning")) read.tuning = {string(*tuning, "by"), string(*tuning, "lock"), string(*tuning, "device")};
      for (const Json& s : items(p, "states")) {
        const int64_t input = s.at("input").as_int();
        const int state = place(s.at("state"), states.size());
        if (input < 0 || input > std::numeric_limits<int>::max() || state < 0) s.refuse("expected the numbers of an input and of a state");
        read.states.push_back({static_cast<int>(input), state});
      }
    }
  }
  for (size_t i = 0; i < constants.size(); ++i) {
    const Json c = constants.value(i);
    Constant& read = m.constants[std::string(constants.key(i))] = {string(c, "tensor"), layout(c)};
    if (const auto recipe = c.find("recipe")) read.recipe = place(*recipe, recipes.size());
    if (const auto file = c.find("file")) read.file = place(*file, files.size());
  }
  for (size_t i = 0; i < weights.size(); ++i)
    m.weights.push_back({strings(weights[i].at("names")), layout(weights[i]), string(weights[i], "sha256")});
  for (size_t i = 0; i < recipes.size(); ++i) {
    const Json r = recipes[i];
    Recipe& read = m.recipes.emplace_back();
    read.layout = layout(r), read.weight = place(r.at("weight"), weights.size()), read.constant = string(r, "constant");
    read.call = string(r, "call"), read.step = static_cast<int>(r.at("step").as_int()), read.result = r.at("result").as_int();
    read.packing = string(r, "packing"), read.numbers = integers(r.at("numbers"));
    for (size_t k = 0; k < r.at("of").size(); ++k) read.of.push_back(place(r.at("of")[k], i));
  }
  for (const Json& f : files) m.files.push_back({hash_of(f, "sha256"), bytes_of(f), hash_of(f, "head")});
  for (size_t i = 0; i < parts.size(); ++i) m.parts.push_back({string(parts[i], "name"), bytes_of(parts[i]), string(parts[i], "sha256")});
  return m;
}

}  // namespace toroid::package
