#include "fuzz_compiled/minimise.h"

#include <cctype>
#include <set>

#include "base/check.h"
#include "graph/random_graph.h"

namespace toroid::fuzz {

using graph::Graph;
using graph::Node;
using graph::Value;

namespace {

// Nodes that no output needs, and inputs that nothing reads and no size needs, go. Writes stay: they change what others read.
void drop_unused(Graph& g) {
  std::set<const Value*> used;
  for (auto& o : g.outputs)
    if (o.value) used.insert(o.value);
  for (size_t i = g.nodes.size(); i-- > 0;) {
    Node& n = *g.nodes[i];
    bool needed = graph::is_mutating(*n.op);
    for (auto* r : n.results) needed = needed || used.count(r);
    if (!needed) {
      g.nodes.erase(g.nodes.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    for_each_operand(n, [&](const Value* v) { used.insert(v); });
  }
  std::erase_if(g.inputs,
                [&](auto& in) { return !used.count(in.value) && in.value->type.sizes.size() != 1 && in.value->type.numel().is_const(); });
  std::set<const Value*> kept;
  for (auto& in : g.inputs) kept.insert(in.value);
  for (auto& n : g.nodes) kept.insert(n->results.begin(), n->results.end());
  std::erase_if(g.values, [&](auto& v) { return !kept.count(v.get()); });
  for (size_t i = 0; i < g.values.size(); ++i) g.values[i]->id = static_cast<int>(i);
}

void replace(Graph& g, const Value* from, Value* to) {
  for (auto& n : g.nodes)
    for (auto& a : n->args) a = map_arg<Value*>(a, [&](Value* v) { return v == from ? to : v; });
  for (auto& o : g.outputs)
    if (o.value == from) o.value = to;
}

class Minimiser {
 public:
  Minimiser(std::unique_ptr<Graph> g, const std::function<bool(const Graph&)>& fails) : best_(std::move(g)), fails_(fails) {}

  std::unique_ptr<Graph> run() {
    for (bool smaller = true; smaller && tried_ < kTries;) {
      smaller = fewer_outputs();
      smaller = fewer_nodes() || smaller;
      smaller = smaller_sizes() || smaller;
    }
    return std::move(best_);
  }

 private:
  static constexpr int kTries = 1500;

  bool accept(std::unique_ptr<Graph> g) {
    if (!g || ++tried_ > kTries) return false;
    try {
      drop_unused(*g);
      if (g->outputs.empty()) return false;
      g = graph::parse(graph::to_string(*g));  // what is printed must be what failed
      graph::fill_parameters(*g);
      if (!fails_(*g)) return false;
    } catch (const std::exception&) {
      return false;
    }
    best_ = std::move(g);
    return true;
  }

  bool fewer_outputs() {
    bool any = false;
    for (size_t i = best_->outputs.size(); i-- > 0 && best_->outputs.size() > 1;) {
      auto g = graph::clone(*best_);
      g->outputs.erase(g->outputs.begin() + static_cast<std::ptrdiff_t>(i));
      any = accept(std::move(g)) || any;
      if (i > best_->outputs.size()) i = best_->outputs.size();
    }
    return earlier_outputs() || any;
  }

  // An operand is returned instead of what is made of it.
  bool earlier_outputs() {
    for (size_t i = 0; i < best_->outputs.size(); ++i) {
      const Value* v = best_->outputs[i].value;
      if (!v || !v->producer) continue;
      std::vector<size_t> operands;
      for_each_operand(*v->producer, [&](const Value* o) { operands.push_back(static_cast<size_t>(o->id)); });
      for (size_t o : operands) {
        auto g = graph::clone(*best_);
        g->outputs[i].value = g->values[o].get();
        if (accept(std::move(g))) return true;
      }
    }
    return false;
  }

  // A result becomes an input of the same type, or one of the node's operands; a write goes altogether.
  bool fewer_nodes() {
    bool any = false;
    for (size_t i = best_->nodes.size(); i-- > 0;) {
      if (i >= best_->nodes.size()) continue;
      const Node& now = *best_->nodes[i];
      bool done = false;
      std::vector<size_t> operands;
      for_each_operand(now, [&](const Value* v) { operands.push_back(static_cast<size_t>(v->id)); });
      for (size_t o = 0; o <= operands.size() && !done; ++o) {
        auto g = graph::clone(*best_);
        Node& n = *g->nodes[i];
        bool fits = true;
        std::vector<Value*> results = n.results;
        for (auto* r : results) {
          Value* to = o < operands.size() ? g->values[operands[o]].get() : nullptr;
          if (to && (to->type.dtype != r->type.dtype || to->type.sizes != r->type.sizes)) fits = false;
          if (!fits) break;
          if (!to) {
            to = g->add_input({r->type.dtype, r->type.sizes, {}}, graph::InputKind::User, "cut");
            g->inputs.back().name = to->name;
          }
          replace(*g, r, to);
        }
        if (!fits) continue;
        g->nodes.erase(g->nodes.begin() + static_cast<std::ptrdiff_t>(i));
        done = accept(std::move(g));
      }
      any = any || done;
    }
    return any;
  }

  // Each number of the text, wherever it stands, becomes a smaller one: most such texts are ill-typed, and refused.
  bool smaller_sizes() {
    std::string text = graph::to_string(*best_);
    std::set<std::string, std::greater<>> numbers;
    for (size_t i = 0; i < text.size(); ++i)
      if (std::isdigit(static_cast<unsigned char>(text[i])) && is_start(text, i)) numbers.insert(text.substr(i, length(text, i)));
    bool any = false;
    for (auto& number : numbers) {
      if (number.size() > 4 || std::stoi(number) < 2) continue;
      int n = std::stoi(number);
      for (int to : {1, 2, n / 2, n - 1}) {
        if (to >= n) continue;
        try {
          auto g = graph::parse(with_number(text, number, std::to_string(to)));
          graph::fill_parameters(*g);
          if (!accept(std::move(g))) continue;
        } catch (const std::exception&) {
          continue;
        }
        any = true;
        text = graph::to_string(*best_);
        break;
      }
    }
    return any;
  }
  static bool is_start(const std::string& text, size_t i) {
    return i > 0 && !std::isalnum(static_cast<unsigned char>(text[i - 1])) && text[i - 1] != '_' && text[i - 1] != '.' &&
           text[i - 1] != '%' && text[i - 1] != ':';
  }
  static size_t length(const std::string& text, size_t i) {
    size_t n = 0;
    while (std::isdigit(static_cast<unsigned char>(text[i + n]))) ++n;
    return text[i + n] == '.' ? 6 : n;  // a float: longer than any size
  }
  static std::string with_number(const std::string& text, const std::string& from, const std::string& to) {
    std::string out;
    for (size_t i = 0; i < text.size();) {
      if (std::isdigit(static_cast<unsigned char>(text[i])) && is_start(text, i) && length(text, i) == from.size() &&
          text.compare(i, from.size(), from) == 0) {
        out += to;
        i += from.size();
      } else {
        out += text[i++];
      }
    }
    return out;
  }

  std::unique_ptr<Graph> best_;
  const std::function<bool(const Graph&)>& fails_;
  int tried_ = 0;
};

}  // namespace

std::unique_ptr<Graph> minimise(std::unique_ptr<Graph> g, const std::function<bool(const Graph&)>& fails) {
  return Minimiser(std::move(g), fails).run();
}

}  // namespace toroid::fuzz
