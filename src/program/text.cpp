// Programs as text.
#include "graph/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "program/fields.h"

namespace toroid::program {
namespace {

using sym::in_quotes;

std::string list(const std::vector<Expr>& items) {
  std::string out;
  for (auto& e : items) out += (out.empty() ? "" : ", ") + sym::to_string(e);
  return "[" + out + "]";
}

std::string text_of(const Operand& o) {
  if (o.buffer < 0) return "none";
  std::vector<Expr> at = {o.offset};
  at.insert(at.end(), o.strides.begin(), o.strides.end());
  return fmt::format("%{} {}{}", o.buffer, name_of(o.dtype), list(at));
}

std::string text_of(const std::vector<Extern::View>& views) {
  std::string out;
  for (auto& v : views) out += (out.empty() ? "" : ", ") + text_of(v.memory) + " of " + list(v.sizes);
  return "(" + out + ")";
}

std::string text_of(const OptionValues& options) {
  std::string out;
  for (auto& [name, value] : options) out += (out.empty() ? "" : ", ") + in_quotes(name) + "=" + in_quotes(value);
  return "options(" + out + ")";
}

std::string text_of(const loop::Nest& n) { return loop::to_string(n.domain, n.body); }

// What stands behind the keyword of a kind.
struct FieldText : NoFields {
  std::string out;

  template <class... Size>
  void sizes(std::string_view, const Size&... all) {
    std::vector<Expr> items;
    (add(items, all), ...);
    word(list(items));
  }
  void word(std::string_view text) { out.append(" ").append(text); }
  template <class Value>
  void number(std::string_view name, const Value& value) {
    out += fmt::format(" {} {}", name, value);
  }
  void pair(std::string_view name, int64_t first, int64_t second) { out += fmt::format(" {} {}x{}", name, first, second); }
  void dtype(std::string_view name, DType t) { out += fmt::format(" {} {}", name, name_of(t)); }
  void text(std::string_view name, const std::string& value) { out += fmt::format(" {} {}", name, in_quotes(value)); }
  void flag(std::string_view name, bool set) {
    if (set) word(name);
  }
  template <class Inner>
  void presence(std::string_view name, const std::optional<Inner>& inner) {
    if (inner) word(name);
  }
  template <class Value>
  void choice(std::string_view name, const Value& value, std::span<const std::string_view> names) {
    word(name);
    word(names[static_cast<size_t>(value)]);
  }
  template <class Extents>
  void operand(std::string_view name, const Operand& o, Use, std::string_view, const Extents&) {
    out += fmt::format(" {}={}", name, text_of(o));
  }
  template <class Extents>
  void operand(std::string_view name, const std::optional<Operand>& o, Use use, std::string_view what, const Extents& extents) {
    if (o) operand(name, *o, use, what, extents);
  }

 private:
  static void add(std::vector<Expr>& items, const std::vector<Expr>& list) { items.insert(items.end(), list.begin(), list.end()); }
  static void add(std::vector<Expr>& items, const Expr& size) { items.push_back(size); }
};

// The first line of a node: its problem.
struct ProblemText {
  std::string operator()(std::monostate) const { return "loops"; }
  template <class Kind>
  std::string operator()(const Kind& problem) const {
    FieldText text{{}, std::string(kKeyword<Kind>)};
    fields(problem, text);
    return text.out;
  }
  std::string operator()(const Extern& e) const {
    std::vector<std::string> args;
    for (auto& a : e.args) args.push_back(graph::argument_text(a, [](int i) { return i < 0 ? "none" : fmt::format("#{}", i); }));
    return fmt::format("call {}({}) {} -> {}{}", e.op->name, fmt::join(args, ", "), text_of(e.inputs), text_of(e.outputs),
                       e.fresh_symbols.empty() ? "" : " fresh " + list(e.fresh_symbols));
  }
  std::string operator()(const Open& o) const {
    return fmt::format(
        "choose {} {} -> {}{}", o.name, text_of(o.inputs), text_of(o.outputs),
        o.split_points.empty() ? "" : fmt::format(" by {} at [{}] top {}", list({o.size}), fmt::join(o.split_points, ", "), o.top));
  }
};

class Printer {
 public:
  explicit Printer(bool places) : places_(places) {}

  std::string print(const Program& p) {
    std::string out = "program " + in_quotes(p.name) + graph::symbols_text(p.symbols) + graph::guards_text(p.guards) + " {\n";
    for (auto& b : p.buffers) out += text_of(b);
    for (auto& r : p.rearranged)
      for (auto& part : r.parts)
        out += fmt::format("constant %{}: [{}] of {} at {} strides [{}]\n", r.buffer, fmt::join(part.sizes, ", "),
                           program::text_of(part.from), part.offset, fmt::join(part.strides, ", "));
    for (auto& in : p.inputs) out += text_of(in);
    for (auto& o : p.outputs) out += text_of(o);
    for (auto& s : p.sites) out += text_of(s);
    for (auto& n : p.nodes) out += text_of(n);
    for (auto& [a, b] : p.apart) out += fmt::format("apart {} {}\n", a, b);
    return out + "}\n";
  }

 private:
  std::string place(const std::string& where) const { return places_ && !where.empty() ? " @ " + in_quotes(where) : ""; }

  static std::string text_of(const loop::Buffer& b) {
    constexpr std::string_view kKinds[] = {"input", "constant", "temporary", "output", "faults", "peers"};
    return fmt::format("buffer %{} {}: {}[{}] {}\n", b.id, in_quotes(b.name), name_of(b.dtype), sym::to_string(b.numel),
                       kKinds[static_cast<size_t>(b.kind)]);
  }
  static std::string text_of(const ProgramInput& in) {
    constexpr std::string_view kKinds[] = {"user", "param", "buffer", "constant", "random"};
    return fmt::format("in %{} {}{} {}: {}\n", in.buffer, kKinds[static_cast<size_t>(in.kind)],
                       in.draws ? fmt::format("({})", sym::to_string(*in.draws)) : "", in_quotes(in.name), graph::type_text(in.type));
  }
  std::string text_of(const IndexSite& s) const {
    return fmt::format("site {} dim {}{}{}\n", in_quotes(s.operation), s.dim, s.wraps ? " wraps" : "", place(s.where));
  }
  std::string text_of(const ProgramOutput& o) const {
    const std::string what = o.buffer >= 0    ? fmt::format("%{}: {}", o.buffer, graph::type_text(o.type))
                             : o.mutates >= 0 ? "in place: " + graph::type_text(o.type)
                                              : "literal " + graph::argument_text(o.literal, [](const graph::Value*) { return "none"; });
    return "out " + what + (o.mutates >= 0 ? fmt::format(" -> {}", o.mutates) : "") + place(o.where) + "\n";
  }

  std::string text_of(const Node& n) {
    std::string out = std::visit(ProblemText{}, n.problem);
    if (n.is_library()) out += fmt::format(" by {}", name_of(n.by));
    if (!n.config.empty()) out += " as " + in_quotes(to_string(n.config));
    if (n.options) out += " " + program::text_of(*n.options);
    if (n.pass != graph::Pass::Forward) out += fmt::format(" {}", graph::kPassNames[static_cast<size_t>(n.pass)]);
    if (n.after_meeting) out += " after_meeting";
    if (!n.parts.empty()) out += fmt::format(" parts [{}]", fmt::join(n.parts, ", "));
    out += " #";
    for (auto& o : n.origins) out += " " + in_quotes(o);
    out += place(n.where) + "\n";
    if (n.producer) out += "rows " + program::text_of(*n.producer);
    if (auto* e = std::get_if<Extern>(&n.problem)) return out + blocks(*e);
    if (auto* o = std::get_if<Open>(&n.problem)) return out + alternatives(*o);
    if (!n.is_whole()) out += loop::to_string(n.domain, n.body);
    for (auto& nest : n.beside) out += "beside " + program::text_of(nest);
    return out;
  }

  static std::string blocks(const Extern& e) {
    std::string out;
    for (size_t i = 0; i < e.blocks.size(); ++i) {
      if (i < e.conditions.size()) out += "where (" + sym::to_string(e.conditions[i]) + ") ";
      if (i < e.options.size()) out += program::text_of(e.options[i]) + " ";
      out += "block " + graph::to_string(*e.blocks[i]);
    }
    return out;
  }

  std::string alternatives(const Open& o) {
    std::string out;
    for (auto& a : o.alternatives)
      out += fmt::format("alternative {} key {} {} {}{}", in_quotes(a.name), in_quotes(a.key), program::text_of(a.options),
                         print(*a.program), places_ && a.graph ? "from " + graph::to_string(*a.graph) : "");
    for (auto& r : o.refused) out += fmt::format("refused {}: {}\n", in_quotes(r.name), in_quotes(r.reason));
    return out;
  }

  bool places_;
};

}  // namespace

std::string to_string(const Program& p, bool places) { return Printer(places).print(p); }

}  // namespace toroid::program
