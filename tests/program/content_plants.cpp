#include "program/content_plants.h"

#include <cmath>

#include "program/fields.h"

namespace toroid::test {
namespace {

using namespace program;
using Plant = std::function<void()>;  // alters what it was made for

struct Plants {
  std::vector<std::pair<std::string, Plant>> list;

  void add(std::string what, Plant plant) { list.emplace_back(std::move(what), std::move(plant)); }
  void number(const std::string& what, int64_t& v) {
    add(what, [&] { ++v; });
  }
  void size(const std::string& what, Expr& e) {
    add(what, [&] { e = e + 1; });
  }
  void sizes(const std::string& what, std::vector<Expr>& list) {
    for (Expr& e : list) size(what, e);
    add(what + ", one more", [&] { list.emplace_back(1); });
  }
  void dtype(const std::string& what, DType& t) {
    add(what, [&] { t = t == DType::F16 ? DType::BF16 : DType::F16; });
  }
  void flag(const std::string& what, bool& set) {
    add(what, [&] { set = !set; });
  }
  void text(const std::string& what, std::string& value) {
    add(what, [&] { value += "x"; });
  }
  template <class Enum>
  void choice(const std::string& what, Enum& value, size_t count) {
    add(what, [&, count] { value = static_cast<Enum>((static_cast<size_t>(value) + 1) % count); });
  }
  // To one that the node does not name.
  void buffer(const std::string& what, int& b, int other) {
    add(what, [&, other] { b = other; });
  }
};

// Of a problem, by its fields; counts those that it has seen.
struct ProblemPlants : NoFields {
  Plants& out;
  int other;
  size_t seen = 0;
  ProblemPlants(Plants& out, int other) : out(out), other(other) {}

  template <class... Size>
  void sizes(std::string_view, Size&... all) {
    (size(all), ...);
  }
  template <class Value>
  void number(std::string_view name, Value& v) {
    ++seen, out.add(std::string(name), [&v] { v += 1; });
  }
  void pair(std::string_view name, int64_t& first, int64_t& second) { number(name, first), number(name, second); }
  void dtype(std::string_view name, DType& t) { ++seen, out.dtype(std::string(name), t); }
  void text(std::string_view name, std::string& value) { ++seen, out.text(std::string(name), value); }
  template <class Inner>
  void presence(std::string_view name, std::optional<Inner>& inner) {
    ++seen;
    if (inner)
      out.add(std::string(name) + ", gone", [&inner] { inner.reset(); });
    else
      out.add(std::string(name) + ", there", [&inner] { inner.emplace(); });
  }
  void flag(std::string_view name, bool& set) { ++seen, out.flag(std::string(name), set); }
  template <class Value>
  void choice(std::string_view name, Value& value, std::span<const std::string_view> names) {
    ++seen, out.choice(std::string(name), value, names.size());
  }
  template <class Extents>
  void operand(std::string_view name, Operand& o, Use, std::string_view, const Extents&) {
    ++seen, add(std::string(name), o);
  }
  template <class Extents>
  void operand(std::string_view name, std::optional<Operand>& o, Use, std::string_view, const Extents&) {
    ++seen;
    const std::string what(name);
    if (!o) return out.add(what + ", there", [other = other, &o] { o = {other, DType::F32, 0, {}}; });
    add(what, *o);
    out.add(what + ", gone", [&o] { o.reset(); });
  }

 private:
  void size(Expr& e) { ++seen, out.size("sizes", e); }
  void size(int64_t& v) { ++seen, out.number("sizes", v); }
  void size(std::vector<Expr>& list) { ++seen, out.sizes("sizes", list); }

  void add(const std::string& what, Operand& o) {
    auto& [buffer, dtype, offset, strides] = o;
    if (buffer < 0) return out.add(what + ", there", [other = other, &o] { o = {other, DType::F32, 0, {}}; });
    out.buffer(what + " buffer", buffer, other);
    out.dtype(what + " dtype", dtype);
    out.size(what + " offset", offset);
    out.sizes(what + " strides", strides);
  }
};

// How many members a kind of problem has.
size_t members(const Gemm& p) {
  [[maybe_unused]] const auto& [batch, m, n, k, a, b, accumulate, b2, tf32] = p;
  return 9;
}
size_t members(const Convolution& p) {
  [[maybe_unused]] const auto& [n, groups, in_channels, out_channels, in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w,
                                pad_h, pad_w, dilation_h, dilation_w, input, weight, tf32, accumulate, zero] = p;
  return 21;
}
size_t members(const Attention& p) {
  [[maybe_unused]] const auto& [batch, heads, kv_heads, queries, keys, head_dim, value_dim, q, k, v, mask, logsumexp, causal, scale] = p;
  return 14;
}
size_t members(const AttentionBackward& p) {
  [[maybe_unused]] const auto& [batch, heads, kv_heads, queries, keys, head_dim, value_dim, q, k, v, grad_out, logsumexp, row_sums,
                                grad_query, grad_key, grad_value, causal, ordered, scale] = p;
  return 19;
}
size_t members(const Sort& p) {
  [[maybe_unused]] const auto& [rows, length, count, descending, keys, values, positions] = p;
  return 7;
}
size_t members(const Scan& p) {
  [[maybe_unused]] const auto& [part, rows, length, input, totals, values] = p;
  return 6;
}
size_t members(const Meeting& p) {
  [[maybe_unused]] const auto& [kind, op, group, ranks, sizes, site, input, peers, faults, product] = p;
  return 10 + (product ? members(*product) : 0);  // in place of the input its dtype
}
// No kernel is generated for these.
size_t members(const std::monostate&) { return 0; }
size_t members(const Collective&) { return 0; }
size_t members(const Extern&) { return 0; }
size_t members(const Open&) { return 0; }

void add_problem(Plants& out, Problem& problem, int other) {
  ProblemPlants fields_of(out, other);
  std::visit(
      [&](auto& p) {
        if (members(p) == 0) return;
        fields(p, fields_of);
        TOROID_CHECK(fields_of.seen == members(p), "{} has {} members and {} fields", kKeyword<std::decay_t<decltype(p)>>, members(p),
                     fields_of.seen);
      },
      problem);
}

// What is known of a value that an index is made of.
Expr with_other_bounds(const Expr& e) {
  return sym::substitute(e, [](const sym::Node& n) -> std::optional<Expr> {
    if (loop::step_of_symbol(n) < 0) return std::nullopt;
    return sym::value_symbol(static_cast<int>(n.id), n.lo, n.hi - 1);
  });
}

void add_step(Plants& out, loop::Body& body, size_t at, int other) {
  auto& [step, op, dtype, args, value, buffer, index, mask, reduction, mode] = body.steps[at];
  using enum loop::Step;
  const std::string what = "step " + std::to_string(static_cast<int>(step)) + ", ";
  const bool constant = step == Scalar && op == ScalarOp::Const;
  const bool memory = step == Load || step == Store || step == Check, indexed = memory || step == Index;
  const auto later = static_cast<int>(body.steps.size());
  if (step == Scalar && !constant) out.add(what + "op", [&] { op = op == ScalarOp::Add ? ScalarOp::Sub : ScalarOp::Add; });
  if (step != Store) out.dtype(what + "dtype", dtype);
  for (int& arg : args)
    if (arg >= 0) out.add(what + "argument", [&arg, later] { arg = later; });
  if (constant) {
    out.add(what + "value", [&] {
      if (value.kind == Number::Kind::Float)
        value = Number::of(std::isfinite(value.f) ? std::nextafter(value.f, 1e300) : 0.5);
      else
        value = value.kind == Number::Kind::Bool ? Number::of(!value.i) : Number::of(value.i + 1);
    });
  }
  if (step == Check || step == Accumulate) out.add(what + "value", [&] { value.i = value.i == 0; });
  if (memory) {
    out.buffer(what + "buffer", buffer, other);
    out.add(what + "mask", [&, later] { mask = mask < 0 ? later : -1; });
  }
  if (indexed) {
    out.size(what + "index", index);
    if (loop::uses_values(index)) out.add(what + "bounds of a value", [&] { index = with_other_bounds(index); });
  }
  if (step == Reduce || step == Scan) out.choice(what + "reduction", reduction, 9);
  if (step == Store) out.choice(what + "mode", mode, 5);
}

void add_nest(Plants& out, loop::Domain& domain, loop::Body& body, int other) {
  auto& [vars] = domain;
  auto& [steps] = body;
  for (auto& v : vars) {
    auto& [symbol, reduction] = v;
    out.flag("reduction", reduction);
    out.add("extent", [&] {
      const Expr old = symbol, now = sym::loop_symbol("w", v.extent() + 1);
      symbol = now;
      body =
          loop::substitute(body, [&](const sym::Node& n) { return sym::same_symbol(n, *old.node()) ? std::optional(now) : std::nullopt; });
    });
  }
  if (vars.size() > 1 && !(vars[0].extent() == vars[1].extent())) out.add("order of variables", [&] { std::swap(vars[0], vars[1]); });
  out.add("variables, one more", [&] { vars.push_back({sym::loop_symbol("w", 1), false}); });
  for (size_t k = 0; k < steps.size(); ++k) add_step(out, body, k, other);
  if (!steps.empty()) out.add("steps, one more", [&] { steps.push_back(steps.back()); });
}

void add_node(Plants& out, Program& p, Node& n, int other) {
  auto& [problem, by, config, options, domain, body, producer, beside, origins, parts, where, pass, after_meeting] = n;
  add_problem(out, problem, other);
  out.choice("by", by, 4);
  auto& [form, numbers] = config;
  if (config.empty()) {
    out.text("form", form);
  } else {
    out.add("config, gone", [&] { config = {}; });
    for (auto& [name, value] : numbers) out.text("config", name), out.number("config", value);
  }
  out.add("after a meeting", [&] { after_meeting = !after_meeting; });
  out.add("options", [&] { options = options ? nullptr : std::make_shared<const OptionValues>(OptionValues{{"a", "b"}}); });
  if (!n.is_whole()) add_nest(out, domain, body, other);
  if (producer) {
    add_nest(out, producer->domain, producer->body, other);
    out.add("producer, gone", [&] { producer.reset(); });
  } else {
    out.add("producer, there", [&] { producer = {domain, body}; });
  }
  for (auto& nest : beside) add_nest(out, nest.domain, nest.body, other);
  if (n.is_loop()) out.add("beside, one more", [&] { beside.push_back({domain, body}); });

  std::vector<int> named = reads(n);
  const std::vector<int> written = writes(n);
  named.insert(named.end(), written.begin(), written.end());
  for (int b : named) {
    auto& [id, name, dtype, numel, kind] = p.buffers[static_cast<size_t>(b)];
    out.dtype("buffer's dtype", dtype);
    out.size("buffer's size", numel);
    out.choice("buffer's kind", kind, 4);
    if (kind == loop::BufferKind::Peers) out.text("buffer's name", name);
  }
}

}  // namespace

void each_plant(const Program& p, size_t at, const std::function<void(std::string_view, const Program&)>& f) {
  size_t count = 1;
  for (size_t i = 0; i < count; ++i) {
    Program own = p;
    const int other = own.new_buffer("other", DType::F64, 4099, loop::BufferKind::Temporary);  // as no other one
    Plants plants;
    add_node(plants, own, own.nodes[at], other);
    count = plants.list.size();
    plants.list[i].second();
    f(plants.list[i].first, own);
  }
}

}  // namespace toroid::test
