#include "front/guards.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/grad_state.h"

namespace toroid::front {
namespace {

constexpr size_t kMaxSymbols = 64;
constexpr size_t kMaxSteps = 64;

std::string list_text(std::span<const int64_t> v) {
  std::string out = "[";
  for (size_t i = 0; i < v.size(); ++i) out += (i ? ", " : "") + std::to_string(v[i]);
  return out + "]";
}

std::pair<const std::byte*, const std::byte*> memory_of(const Tensor& t) {
  const TensorImpl& i = *t.impl();
  int64_t lo = i.offset, hi = i.offset;
  for (size_t d = 0; d < i.sizes.size(); ++d) {
    if (i.sizes[d] == 0) return {nullptr, nullptr};
    (i.strides[d] < 0 ? lo : hi) += (i.sizes[d] - 1) * i.strides[d];
  }
  auto width = static_cast<int64_t>(size_of(i.dtype));
  return {i.storage->data + lo * width, i.storage->data + (hi + 1) * width};
}

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

}  // namespace

std::string Surroundings::change(const Surroundings& now) const {
  if (autocast != now.autocast) return ops::difference(autocast, now.autocast);
  return fmt::format("the default device was {}, is {}", to_string(device), to_string(now.device));
}

bool share_memory(const Tensor& a, const Tensor& b) {
  auto [a0, a1] = memory_of(a);
  auto [b0, b1] = memory_of(b);
  return a0 < b1 && b0 < a1;
}

bool some_share_memory(std::span<const Tensor* const> tensors) {
  std::vector<std::pair<const std::byte*, const std::byte*>> parts;
  for (auto* t : tensors)
    if (const auto part = memory_of(*t); part.first != part.second) parts.push_back(part);
  std::sort(parts.begin(), parts.end());
  for (size_t i = 1; i < parts.size(); ++i)  // none before has reached into the next one, so that its neighbour reaches farthest
    if (parts[i].first < parts[i - 1].second) return true;
  return false;
}

int Guards::symbol_of(const Expr& e) {
  const sym::Node& n = *e.node();
  for (size_t i = 0; i < symbols_.size(); ++i)
    if (symbols_[i].name == n.name) return static_cast<int>(i);
  TOROID_USER_CHECK(symbols_.size() < kMaxSymbols,
                    "the function has more than {} different symbolic sizes; compile with dynamic = false, or mark sizes static",
                    kMaxSymbols);
  symbols_.push_back({n.name, "", n.lo, n.hi});
  return static_cast<int>(symbols_.size()) - 1;
}

bool Guards::is_bound(const Expr& e) const {
  bool bound = true;
  sym::for_each_symbol(e, [&](const Expr& s) {
    bound = bound && std::any_of(symbols_.begin(), symbols_.end(), [&](const Symbol& known) { return known.name == s.node()->name; });
  });
  return bound;
}

void Guards::append(std::vector<Step>& steps, const Expr& e) {
  switch (e.kind()) {
    case sym::Kind::Const:
      steps.push_back({Step::Number, e.constant()});
      return;
    case sym::Kind::Symbol:
      steps.push_back({Step::Symbol, symbol_of(e)});
      return;
    case sym::Kind::Poly: {
      bool first = true;
      for (auto& term : e.node()->terms) {
        steps.push_back({Step::Number, term.coef});
        for (auto& f : term.factors) {
          append(steps, f);
          steps.push_back({Step::Mul});
        }
        if (!first) steps.push_back({Step::Add});
        first = false;
      }
      return;
    }
    default:
      break;
  }
  append(steps, e.node()->args[0]);
  append(steps, e.node()->args[1]);
  constexpr std::pair<sym::Kind, Step::Kind> kKinds[] = {
      {sym::Kind::FloorDiv, Step::FloorDiv}, {sym::Kind::Mod, Step::Mod}, {sym::Kind::Min, Step::Min}, {sym::Kind::Max, Step::Max}};
  for (auto& [from, to] : kKinds)
    if (e.kind() == from) steps.push_back({to});
}

int64_t Guards::value(const std::vector<Step>& steps, const int64_t* symbols) {
  int64_t stack[kMaxSteps];
  size_t n = 0;
  for (auto& s : steps) {
    if (s.kind == Step::Number) {
      stack[n++] = s.value;
      continue;
    }
    if (s.kind == Step::Symbol) {
      stack[n++] = symbols[s.value];
      continue;
    }
    int64_t b = stack[--n], &a = stack[n - 1];
    switch (s.kind) {
      case Step::Add:
        a = static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        break;
      case Step::Mul:
        a = static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        break;
      case Step::FloorDiv:
        a = b == 0 ? 0 : floor_quotient(a, b);
        break;
      case Step::Mod:
        a = b == 0 ? 0 : a - b * floor_quotient(a, b);
        break;
      case Step::Min:
        a = std::min(a, b);
        break;
      default:
        a = std::max(a, b);
        break;
    }
  }
  return n ? stack[0] : 0;
}

Guards::Guards(const graph::Graph& g, std::span<const Tensor* const> tensors, std::vector<int> positions, std::vector<std::string> names,
               bool no_overlap)
    : names_(std::move(names)), no_overlap_(no_overlap) {
  std::vector<const graph::Input*> users;
  for (auto& in : g.inputs)
    if (in.kind == graph::InputKind::User) users.push_back(&in);
  std::vector<int> argument_of(users.size(), -1);
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorGuard guard;
    guard.first = static_cast<uint32_t>(dimensions_.size());
    const Tensor& t = *tensors[i];
    guard.defined = t.defined();
    if (guard.defined) {
      const TensorType& type = users.at(static_cast<size_t>(positions[i]))->value->type;
      int& argument = argument_of[static_cast<size_t>(positions[i])];
      guard.same_as = argument;
      if (argument < 0) argument = static_cast<int>(i);
      guard.dtype = t.dtype();
      guard.device = t.device();
      guard.requires_grad = t.requires_grad();
      guard.rank = static_cast<uint32_t>(t.sizes().size());
      bool symbolic = false;
      for (size_t d = 0; d < guard.rank; ++d) {
        Dimension dim{t.sizes()[d], -1, false};
        if (!type.sizes[d].is_const()) {
          TOROID_CHECK(type.sizes[d].kind() == sym::Kind::Symbol, "the size of an argument is an expression");
          size_t before = symbols_.size();
          dim.symbol = symbol_of(type.sizes[d]);
          dim.binds = symbols_.size() > before;
          if (dim.binds) symbols_.back().what = fmt::format("size of dimension {} of {}", d, names_[i]);
          symbolic = true;
        }
        dimensions_.push_back(dim);
        sizes_.push_back(t.sizes()[d]);
        strides_.push_back(t.strides()[d]);
      }
      guard.fixed = !symbolic;
      guard.layout = t.is_contiguous() ? Layout::RowMajor : symbolic ? Layout::Any : Layout::Strided;
    }
    tensors_.push_back(guard);
  }
  for (auto& r : g.guards) {
    if (!is_bound(r.a) || !is_bound(r.b)) continue;  // a size that only the run tells: the executable looks at it
    Condition c{r.rel, {}, {}, sym::to_string(r)};
    append(c.a, r.a);
    append(c.b, r.b);
    const bool fits = c.a.size() < kMaxSteps && c.b.size() < kMaxSteps;
    if (!fits && r.is_requirement()) continue;  // the executable refuses what does not satisfy it
    TOROID_USER_CHECK(fits, "the condition {} on the sizes is too long to be a guard", c.text);
    conditions_.push_back(std::move(c));
  }
}

bool Guards::tensor_holds(const TensorGuard& g, std::span<const Tensor* const> tensors, size_t i) const noexcept {
  const TensorImpl* t = tensors[i]->impl();
  if (!t) return !g.defined;
  if (!g.defined || t->proxy || t->dtype != g.dtype || t->sizes.size() != g.rank || t->storage->device != g.device ||
      (!any_requires_grad_ && requires_grad(*t) != g.requires_grad))
    return false;
  if (g.same_as >= 0 && tensors[static_cast<size_t>(g.same_as)]->impl() != t) return false;
  if (g.fixed) {
    const int64_t *sizes = sizes_.data() + g.first, *strides = strides_.data() + g.first;
    int64_t other_size = 0, other_stride = 0;
    for (uint32_t d = 0; d < g.rank; ++d) {
      other_size |= t->sizes[d] ^ sizes[d];
      other_stride |= t->strides[d] ^ strides[d];
    }
    if (other_size) return false;
    return !other_stride || g.layout == Layout::Any || (g.layout == Layout::RowMajor && tensors[i]->is_contiguous());
  }
  const Dimension* dims = dimensions_.data() + g.first;
  for (uint32_t d = 0; d < g.rank; ++d)
    if (dims[d].symbol < 0 && t->sizes[d] != dims[d].size) return false;
  if (g.layout == Layout::Strided) return std::equal(t->strides.begin(), t->strides.end(), strides_.begin() + g.first);
  if (g.layout == Layout::RowMajor) {
    int64_t step = 1;
    for (uint32_t d = g.rank; d-- > 0;) {
      if (t->sizes[d] != 1 && t->strides[d] != step) return tensors[i]->is_contiguous();
      step *= t->sizes[d];
    }
  }
  return true;
}

bool Guards::bind(std::span<const Tensor* const> tensors, int64_t* symbols) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Dimension* dims = dimensions_.data() + tensors_[i].first;
    for (uint32_t d = 0; d < tensors_[i].rank; ++d) {
      if (dims[d].symbol < 0) continue;
      int64_t size = tensors[i]->impl()->sizes[d];
      int64_t& s = symbols[dims[d].symbol];
      if (dims[d].binds) {
        const Symbol& known = symbols_[static_cast<size_t>(dims[d].symbol)];
        if (size < known.lo || size > known.hi) return false;
        s = size;
      } else if (s != size) {
        return false;
      }
    }
  }
  return true;
}

bool Guards::overlaps(std::span<const Tensor* const> tensors, size_t* first, size_t* second) const noexcept {
  for (size_t i = 0; i < tensors.size(); ++i)
    for (size_t k = i + 1; k < tensors.size(); ++k)
      if (tensors[i]->defined() && tensors[k]->defined() && tensors_[k].same_as < 0 && tensors_[i].same_as < 0 &&
          share_memory(*tensors[i], *tensors[k])) {
        *first = i;
        *second = k;
        return true;
      }
  return false;
}

bool Guards::hold(std::span<const Tensor* const> tensors) const noexcept {
  if (tensors.size() != tensors_.size()) return false;
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!tensor_holds(tensors_[i], tensors, i)) return false;
  if (!symbols_.empty()) {
    int64_t symbols[kMaxSymbols];
    if (!bind(tensors, symbols)) return false;
    for (auto& c : conditions_)
      if (!sym::holds({c.rel, value(c.a, symbols), value(c.b, symbols)}, nullptr)) return false;
  }
  size_t a, b;
  return !no_overlap_ || !overlaps(tensors, &a, &b);
}

std::string Guards::why_fixed(const std::string& what) const {
  const auto at = std::find_if(fixed_.begin(), fixed_.end(), [&](auto& f) { return f.what == what; });
  return at == fixed_.end() ? "" : fmt::format("; it is a number in the program because {}", at->why);
}

// What makes tensor i another one, each in words; all of its sizes that do, the first of the rest.
void Guards::tensor_failures(std::span<const Tensor* const> tensors, size_t i, std::vector<std::string>& out) const {
  const TensorGuard& g = tensors_[i];
  if (tensor_holds(g, tensors, i)) return;
  const std::string& name = names_[i];
  const Tensor& t = *tensors[i];
  const size_t before = out.size();
  if (t.defined() != g.defined) {
    out.push_back(fmt::format("{}: was {}, is {}", name, g.defined ? "a tensor" : "undefined", t.defined() ? "a tensor" : "undefined"));
    return;
  }
  if (t.device() != g.device) out.push_back(fmt::format("{}: device was {}, is {}", name, to_string(g.device), to_string(t.device())));
  if (t.dtype() != g.dtype) out.push_back(fmt::format("{}: dtype was {}, is {}", name, name_of(g.dtype), name_of(t.dtype())));
  if (t.sizes().size() != g.rank) {
    out.push_back(fmt::format("{}: rank was {}, is {}", name, g.rank, t.sizes().size()));
    return;
  }
  if (t.requires_grad() != g.requires_grad && !any_requires_grad_)
    out.push_back(fmt::format("{}: requires_grad was {}, is {}", name, g.requires_grad, t.requires_grad()));
  for (uint32_t d = 0; d < g.rank; ++d)
    if (auto& dim = dimensions_[g.first + d]; dim.symbol < 0 && dim.size != t.sizes()[d])
      out.push_back(fmt::format("{}: size of dimension {} was {}, is {}{}", name, d, dim.size, t.sizes()[d],
                                why_fixed(fmt::format("size of dimension {} of {}", d, name))));
  if (out.size() > before) return;
  if (g.same_as >= 0 && tensors[static_cast<size_t>(g.same_as)]->impl() != t.impl())
    out.push_back(fmt::format("{}: was the same tensor as {}, is another", name, names_[static_cast<size_t>(g.same_as)]));
  else if (g.layout == Layout::RowMajor)
    out.push_back(fmt::format("{}: was contiguous, has strides {}", name, list_text(t.strides())));
  else
    out.push_back(
        fmt::format("{}: strides were {}, are {}", name, list_text(std::span(strides_).subspan(g.first, g.rank)), list_text(t.strides())));
}

// What open sizes may not be. Where there is such a thing, the conditions on them say nothing more.
void Guards::size_failures(std::span<const Tensor* const> tensors, std::vector<std::string>& out) const {
  int64_t symbols[kMaxSymbols] = {};
  const size_t before = out.size();
  for (size_t i = 0; i < tensors_.size(); ++i)
    for (uint32_t d = 0; d < tensors_[i].rank; ++d) {
      const Dimension& dim = dimensions_[tensors_[i].first + d];
      if (dim.symbol < 0) continue;
      const Symbol& s = symbols_[static_cast<size_t>(dim.symbol)];
      int64_t size = tensors[i]->sizes()[d];
      if (!dim.binds && symbols[dim.symbol] != size)
        out.push_back(fmt::format("{}: size of dimension {} was equal to the {}, which is {}; it is {}", names_[i], d, s.what,
                                  symbols[dim.symbol], size));
      if (!dim.binds) continue;
      if (size < s.lo || size > s.hi)
        out.push_back(fmt::format("{}: size of dimension {} was {}, is {}", names_[i], d,
                                  s.hi >= sym::kInf - 1 ? fmt::format("at least {}", s.lo) : fmt::format("in {}..{}", s.lo, s.hi), size));
      symbols[dim.symbol] = size;
    }
  if (out.size() > before) return;
  for (auto& c : conditions_)
    if (!sym::holds({c.rel, value(c.a, symbols), value(c.b, symbols)}, nullptr)) {
      std::string values;
      for (size_t i = 0; i < symbols_.size(); ++i)
        values += fmt::format("{}{} = {} is the {}", i ? ", " : "", symbols_[i].name, symbols[i], symbols_[i].what);
      out.push_back(fmt::format("the sizes had {}; now {}", c.text, values));
    }
}

std::vector<std::string> Guards::failures(std::span<const Tensor* const> tensors) const {
  if (tensors.size() != tensors_.size()) return {fmt::format("the number of tensors was {}, is {}", tensors_.size(), tensors.size())};
  std::vector<std::string> out;
  for (size_t i = 0; i < tensors_.size(); ++i) tensor_failures(tensors, i, out);
  if (out.empty()) size_failures(tensors, out);
  size_t a, b;
  if (out.empty() && no_overlap_ && overlaps(tensors, &a, &b))
    out.push_back(fmt::format("{} and {} shared no memory, now they do, and the function writes to its inputs", names_[a], names_[b]));
  return out;
}

std::vector<std::string> Guards::describe() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorGuard& g = tensors_[i];
    if (!g.defined) {
      out.push_back(names_[i] + ": undefined");
      continue;
    }
    std::string sizes;
    for (uint32_t d = 0; d < g.rank; ++d) {
      const Dimension& dim = dimensions_[g.first + d];
      sizes += (d ? ", " : "") + (dim.symbol < 0 ? std::to_string(dim.size) : symbols_[static_cast<size_t>(dim.symbol)].name);
    }
    std::string layout = g.layout == Layout::RowMajor ? ", contiguous"
                         : g.layout == Layout::Any    ? ""
                                                      : ", strides " + list_text(std::span(strides_).subspan(g.first, g.rank));
    out.push_back(fmt::format("{}: {}[{}]{}{}", names_[i], name_of(g.dtype), sizes, layout, g.requires_grad ? ", requires_grad" : ""));
    if (g.same_as >= 0) out.push_back(fmt::format("{} is {}", names_[i], names_[static_cast<size_t>(g.same_as)]));
  }
  for (auto& s : symbols_)
    out.push_back(s.hi >= sym::kInf - 1 ? fmt::format("{} >= {}", s.name, s.lo) : fmt::format("{} <= {} <= {}", s.lo, s.name, s.hi));
  for (auto& c : conditions_) out.push_back(c.text);
  for (auto& f : fixed_) out.push_back(fmt::format("the {} is a number in the program because {}", f.what, f.why));
  if (no_overlap_) out.push_back("no two inputs share memory");
  return out;
}

}  // namespace toroid::front
