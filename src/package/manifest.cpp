#include "package/manifest.h"

#include <fmt/ranges.h>

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
  return fmt::format(R"({{"target": {}, "device": {}, "code_for": {}, "plan": {}, "kernels": {}, "libraries": {}, "operations": {}}})",
                     json_string(p.target), json_string(p.device), json_string(p.code_for), json_string(p.plan), list(p.kernels),
                     list(p.libraries), list(p.operations));
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

constexpr const char* kMakeAgain = "make the package again: toroid compile MODEL -o FILE";

// A field that must have one value.
template <class T>
void require(const std::string& source, std::string_view field, const T& its, const T& ours, std::string_view remedy) {
  TOROID_USER_CHECK(its == ours, "{}: the field \"{}\" is {}, this runtime takes {}; {}", source, field, its, ours, remedy);
}

}  // namespace

std::string to_json(const Manifest& m) {
  std::string constants;
  for (auto& [name, c] : m.constants)
    constants +=
        fmt::format("{}\n    {}: {{\"tensor\": {}, \"dtype\": \"{}\", \"sizes\": [{}], \"strides\": [{}]}}", constants.empty() ? "" : ",",
                    json_string(name), json_string(c.tensor), name_of(c.dtype), fmt::join(c.sizes, ", "), fmt::join(c.strides, ", "));
  const auto entry = [](const Entry& e) { return text(e); };
  const auto part = [](const Part& p) {
    return fmt::format(R"({{"name": {}, "bytes": {}, "sha256": "{}"}})", json_string(p.name), p.bytes, p.sha256);
  };
  return fmt::format(
      "{{\n  \"format_name\": \"{}\",\n  \"format\": {},\n  \"plan_version\": {},\n  \"kernel_abi\": {},\n  \"system\": {},\n"
      "  \"machine\": {},\n  \"compiler\": {},\n  \"mode\": {},\n  \"entries\": {},\n  \"constants\": {{{}}},\n"
      "  \"weights_head\": \"{}\",\n  \"parts\": {}\n}}\n",
      kFormatName, m.format, m.plan_version, m.kernel_abi, json_string(m.system), json_string(m.machine), json_string(m.compiler),
      json_string(m.mode), lines(m.entries, 2, entry), constants, m.weights_head, lines(m.parts, 2, part));
}

Manifest read_manifest(std::string_view json, const std::string& source) {
  const auto doc = import::JsonDocument::parse(json, source);
  const Json j = doc.root();
  require(source, "format_name", string(j, "format_name"), std::string(kFormatName), "is this a package of Toroid?");
  Manifest m;
  m.format = j.at("format").as_int();
  TOROID_USER_CHECK(m.format >= kOldestFormat && m.format <= kFormat, "{}: the field \"format\" is {}, this runtime takes {} to {}; {}",
                    source, m.format, kOldestFormat, kFormat,
                    m.format > kFormat ? "use a newer runtime, or make the package by an older toroid compile" : kMakeAgain);
  m.plan_version = j.at("plan_version").as_int(), m.kernel_abi = j.at("kernel_abi").as_int();
  m.system = string(j, "system"), m.machine = string(j, "machine");
  require<int64_t>(source, "plan_version", m.plan_version, exec::kPlanVersion, kMakeAgain);
  require<int64_t>(source, "kernel_abi", m.kernel_abi, device::cpu::kKernelAbi, kMakeAgain);
  require(source, "system", m.system, std::string("linux"), "run toroid compile on such a system");
  require(source, "machine", m.machine, std::string("x86-64"), "run toroid compile on such a machine");
  m.compiler = string(j, "compiler"), m.mode = string(j, "mode"), m.weights_head = string(j, "weights_head");
  const Json entries = j.at("entries"), constants = j.at("constants"), parts = j.at("parts");
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
    }
  }
  for (size_t i = 0; i < constants.size(); ++i) {
    const Json c = constants.value(i);
    m.constants[std::string(constants.key(i))] = {string(c, "tensor"), dtype_from_name(c.at("dtype").as_str()), integers(c.at("sizes")),
                                                  integers(c.at("strides"))};
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t bytes = parts[i].at("bytes").as_int();
    if (bytes < 0) parts[i].refuse("expected a number of bytes");
    m.parts.push_back({string(parts[i], "name"), static_cast<uint64_t>(bytes), string(parts[i], "sha256")});
  }
  return m;
}

}  // namespace toroid::package
