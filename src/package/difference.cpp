#include "package/difference.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/json_text.h"
#include "base/scalar.h"
#include "exec/plan_text.h"
#include "exec/steps.h"
#include "import/json.h"

namespace toroid::package {
namespace {

using import::Json;
using import::JsonKind;
using Text = std::optional<std::string>;

// What the other lists say: kernels, programs and weights.
constexpr std::string_view kElsewhere[] = {"parts", "constants", "weights_head", "files"};

std::string text_of(const Json& j) {
  std::string out;
  switch (j.kind()) {
    case JsonKind::Null:
      return "null";
    case JsonKind::Bool:
      return j.as_bool() ? "true" : "false";
    case JsonKind::Int:
      return std::to_string(j.as_int());
    case JsonKind::Double:
      return fmt::format("{}", j.as_double());
    case JsonKind::String:
      return json_string(j.as_str());
    case JsonKind::Array:
      for (size_t i = 0; i < j.size(); ++i) out += (i ? ", " : "") + text_of(j[i]);
      return "[" + out + "]";
    case JsonKind::Object:
      for (size_t i = 0; i < j.size(); ++i) out += fmt::format("{}{}: {}", i ? ", " : "", json_string(j.key(i)), text_of(j.value(i)));
      return "{" + out + "}";
  }
  return out;
}

// What an item of a list is known by: its name, else its place.
std::string known_by(const Json& item, size_t place) {
  if (item.is_object())
    for (const char* key : {"name", "target", "names"})
      if (const auto found = item.find(key)) return found->is_string() ? std::string(found->as_str()) : text_of(*found);
  return std::to_string(place);
}

// Members or items in their order, each with what it is known by, which is unique.
std::vector<std::pair<std::string, Json>> children(const Json& j) {
  std::vector<std::pair<std::string, Json>> out;
  std::set<std::string> seen;
  for (size_t i = 0; i < j.size(); ++i) {
    const Json child = j.is_object() ? j.value(i) : j[i];
    const std::string name = j.is_object() ? std::string(j.key(i)) : known_by(child, i);
    std::string unique = name;
    for (int k = 2; !seen.insert(unique).second; ++k) unique = fmt::format("{}#{}", name, k);
    out.emplace_back(std::move(unique), child);
  }
  return out;
}

// Whether its members or items are compared one by one: numbers in a list are not.
bool has_parts(const Json& j) {
  if (j.kind() != JsonKind::Array) return j.is_object();
  bool any = false;
  for (size_t i = 0; i < j.size(); ++i) any = any || j[i].is_object();
  return any;
}

void compare_json(const std::string& path, const Json& a, const Json& b, std::vector<Differences::Field>& out) {
  const bool is_all = path == "recipes" || a.kind() != b.kind() || !has_parts(a) || !has_parts(b) || a.size() == 0 || b.size() == 0;
  if (is_all) {
    if (const std::string x = text_of(a), y = text_of(b); x != y) out.push_back({path, x, y});
    return;
  }
  const auto ours = children(a), theirs = children(b);
  const auto names_of = [](auto& of, auto& in) {
    std::vector<std::string> names;
    for (auto& [name, child] : of)
      if (std::any_of(in.begin(), in.end(), [&](auto& o) { return o.first == name; })) names.push_back(name);
    return names;
  };
  const auto inner = [&](const std::string& name) { return path.empty() ? name : path + "." + name; };
  const auto is_elsewhere = [&](const std::string& name, const Json& j) {
    return (path.empty() && std::count(std::begin(kElsewhere), std::end(kElsewhere), name)) ||
           (name == "kernels" && j.kind() == JsonKind::Array);
  };
  for (auto& [name, child] : ours) {
    if (is_elsewhere(name, child)) continue;
    const auto at = std::find_if(theirs.begin(), theirs.end(), [&](auto& o) { return o.first == name; });
    if (at == theirs.end())
      out.push_back({inner(name), text_of(child), {}});
    else
      compare_json(inner(name), child, at->second, out);
  }
  for (auto& [name, child] : theirs)
    if (std::none_of(ours.begin(), ours.end(), [&](auto& o) { return o.first == name; }) && !is_elsewhere(name, child))
      out.push_back({inner(name), {}, text_of(child)});
  // Of programs the first that fits is taken, and inputs have places.
  const auto order = names_of(ours, theirs), other = names_of(theirs, ours);
  const auto listed = [](const std::vector<std::string>& names) {
    std::string text;
    for (auto& n : names) text += (text.empty() ? "" : ", ") + json_string(n);
    return "[" + text + "]";
  };
  if (!a.is_object() && order != other) out.push_back({path + " (order)", listed(order), listed(other)});
}

// Hashes of kernels by the function's name, in the order of the steps.
void note_kernels(const exec::Plan& plan, std::map<std::string, std::vector<std::string>>& out) {
  for (auto& step : plan.steps) {
    if (auto* l = std::get_if<exec::Launch>(&step)) out[l->name].push_back(l->kernel);
    for (auto& block : exec::blocks_of(step)) note_kernels(*block.plan, out);
  }
}

void compare_kernels(const std::string& program, const exec::Plan& a, const exec::Plan& b, std::vector<Differences::Kernel>& out) {
  std::map<std::string, std::vector<std::string>> ours, theirs;
  note_kernels(a, ours), note_kernels(b, theirs);
  std::set<std::string> names;
  for (auto& [name, hashes] : ours) names.insert(name);
  for (auto& [name, hashes] : theirs) names.insert(name);
  for (auto& name : names) {
    const auto &x = ours[name], &y = theirs[name];
    for (size_t i = 0; i < std::max(x.size(), y.size()); ++i) {
      const Text left = i < x.size() ? Text(x[i]) : Text(), right = i < y.size() ? Text(y[i]) : Text();
      if (left != right) out.push_back({program, name, left, right});
    }
  }
}

// The lines of a plan, hashes left out.
std::vector<std::string> lines_of(const exec::Plan& plan) {
  constexpr size_t kHash = 32;
  std::string text = exec::to_string(plan);
  for (size_t at = text.find('"'); at != text.npos; at = text.find('"', at + 1))
    if (at + kHash + 1 < text.size() && text[at + kHash + 1] == '"' && text.find_first_not_of("0123456789abcdef", at + 1) == at + kHash + 1)
      text.replace(at + 1, kHash, "...");
  std::vector<std::string> out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

void compare_lines(const std::string& program, const exec::Plan& a, const exec::Plan& b, std::vector<Differences::Line>& out) {
  const auto ours = lines_of(a), theirs = lines_of(b);
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const std::string x = i < ours.size() ? ours[i] : "", y = i < theirs.size() ? theirs[i] : "";
    if (x == y) continue;
    out.push_back({program, i + 1, x, y});
    return;
  }
}

std::string constant_type(const Layout& l) {
  std::string sizes;
  for (int64_t n : l.sizes) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", n);
  return fmt::format("{}[{}]", name_of(l.dtype), sizes);
}

std::complex<double> element(const std::byte* p, DType t) {
  if (!is_complex(t)) return load_number(p, t).as_double();
  const DType part = t == DType::C64 ? DType::F32 : DType::F64;
  return {load_number(p, part).as_double(), load_number(p + size_of(part), part).as_double()};
}

void compare_elements(const Tensor& a_any, const Tensor& b_any, Differences::Weight& out) {
  const Tensor a = a_any.contiguous(), b = b_any.contiguous();
  const size_t step = size_of(a.dtype());
  const std::byte *x = a.raw_data(), *y = b.raw_data();
  out.elements = a.numel();
  for (int64_t i = 0; i < out.elements; ++i, x += step, y += step) {
    if (std::memcmp(x, y, step) == 0) continue;
    ++out.differ;
    const double apart = std::abs(element(x, a.dtype()) - element(y, a.dtype()));
    out.largest = std::max(out.largest, std::isnan(apart) ? HUGE_VAL : apart);
  }
}

struct Held {
  const Constant* constant;
  Tensor tensor;
};

void compare_constants(const Held& x, const Held& y, std::vector<Differences::Weight>& out) {
  const Layout &ours = x.constant->layout, &theirs = y.constant->layout;
  Differences::Weight w{x.constant->tensor, constant_type(ours), constant_type(theirs)};
  w.layout = w.a == w.b && ours.strides != theirs.strides;
  if (w.a == w.b) compare_elements(x.tensor, y.tensor, w);
  if (w.a != w.b || w.differ > 0 || w.layout) out.push_back(w);
}

// Those that plans know by one name are compared, whatever they are called in the weights; the others by what they are called there.
void compare_weights(const Package& a, const Package& b, std::vector<Differences::Weight>& out) {
  std::map<std::string, Held> ours, theirs;
  const auto note = [](const Package& p, auto& into) {
    const Tensors constants = p.constants();
    for (auto& [name, c] : p.manifest().constants) into[name] = {&c, constants.at(name)};
  };
  note(a, ours), note(b, theirs);
  std::map<std::string, Held> left, right;
  for (auto& [name, x] : ours) {
    const auto at = theirs.find(name);
    if (at == theirs.end())
      left[x.constant->tensor] = x;
    else
      compare_constants(x, at->second, out);
  }
  for (auto& [name, y] : theirs)
    if (!ours.count(name)) right[y.constant->tensor] = y;
  for (auto& [name, x] : left) {
    const auto at = right.find(name);
    if (at == right.end())
      out.push_back({name, constant_type(x.constant->layout), {}});
    else
      compare_constants(x, at->second, out);
  }
  for (auto& [name, y] : right)
    if (!left.count(name)) out.push_back({name, {}, constant_type(y.constant->layout)});
}

// Parts whose difference nothing else tells: bytes around tensors, or a kernel that no step names.
void compare_parts(const Manifest& a, const Manifest& b, Differences& out) {
  std::map<std::string, std::pair<Text, Text>> parts;
  for (auto& p : a.parts) parts[p.name].first = p.sha256;
  for (auto& p : b.parts) parts[p.name].second = p.sha256;
  const bool told = !out.none();
  for (auto& [name, hashes] : parts)
    if (hashes.first != hashes.second && !told) {
      const auto text = [](const Text& t) { return t ? Text(json_string(*t)) : t; };
      out.fields.push_back({"parts." + name, text(hashes.first), text(hashes.second)});
    }
}

}  // namespace

Differences differences(const Package& a, const Package& b) {
  Differences out;
  const std::string ours = to_json(a.manifest()), theirs = to_json(b.manifest());
  compare_json("", import::JsonDocument::parse(ours, a.source()).root(), import::JsonDocument::parse(theirs, b.source()).root(),
               out.fields);
  for (auto& e : a.manifest().entries)
    for (auto& other : b.manifest().entries)
      for (auto& p : e.programs)
        for (auto& q : other.programs) {
          if (e.name != other.name || p.target != q.target) continue;
          const std::string program = fmt::format("{} for {}", e.name, p.target);
          const exec::Plan x = a.plan(p), y = b.plan(q);
          compare_kernels(program, x, y, out.kernels);
          compare_lines(program, x, y, out.lines);
        }
  compare_weights(a, b, out.weights);
  compare_parts(a.manifest(), b.manifest(), out);
  return out;
}

}  // namespace toroid::package
