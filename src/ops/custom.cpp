#include "ops/custom.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

#include "base/check.h"
#include "base/compile_options.h"
#include "ops/opaque.h"

namespace toroid {
namespace ops {
namespace {

using Kind = CustomFunction::Kind;
constexpr size_t kEvents = 5;
constexpr int kMaxDepth = 64;  // of custom operations that call each other

struct Tuning {
  std::vector<CustomOpConfig> configs;
  CustomConfigGenerator generator;
  CustomTuning rules;
};

struct Entry {
  Op row, functional;  // functional: only where the row writes
  CustomFunction function;
  std::vector<size_t> written;
  std::shared_ptr<const Tuning> tuning;  // guarded by the registry's mutex until it is set, and then never changed
  std::array<std::atomic<size_t>, kEvents> counts = {};
};

struct Registry {
  std::shared_mutex mutex;
  std::deque<Entry> entries;
  std::unordered_map<std::string, const Op*> by_name;
  std::unordered_map<const Op*, Entry*> by_row;
};

Registry& registry() {
  static Registry& r = *new Registry;  // never destroyed: threads may outlive main
  return r;
}

Entry& entry_of(const Op& op) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  auto it = r.by_row.find(&op);
  TOROID_CHECK(it != r.by_row.end(), "{} is no custom operation", op.name);
  return *it->second;
}

std::shared_ptr<const Tuning> tuning_in(const Entry& e) {
  std::shared_lock lock(registry().mutex);
  return e.tuning;
}

std::vector<Tensor> run_own(const CallReader& c) { return run_custom(c.op(), nullptr, c.args()); }

struct KindRow {
  Kind kind;
  ParamType type;
  bool list;
  const char* name;      // in a schema
  const char* expected;  // for people
};
constexpr KindRow kKinds[] = {{Kind::Tensor, ParamType::Tensor, false, "Tensor", "a tensor"},
                              {Kind::WrittenTensor, ParamType::Tensor, false, "Tensor(a!)", "a tensor that it writes to"},
                              {Kind::Tensors, ParamType::Tensor, true, "Tensor[]", "a list of tensors"},
                              {Kind::Int, ParamType::Int, false, "int", "an integer"},
                              {Kind::Size, ParamType::Int, false, "int", "an integer"},
                              {Kind::Float, ParamType::Float, false, "float", "a number"},
                              {Kind::Bool, ParamType::Bool, false, "bool", "true or false"},
                              {Kind::Text, ParamType::Str, false, "str", "a text"}};
const KindRow& row_of(Kind k) {
  return *std::find_if(std::begin(kKinds), std::end(kKinds), [&](auto& row) { return row.kind == k; });
}

bool fits(Kind k, const Param& p) {
  const KindRow& row = row_of(k);
  return p.type == row.type && p.list == row.list && !p.optional && !p.optional_items && p.mutated == (k == Kind::WrittenTensor);
}

// Brings an argument to the form that a function takes.
CustomArg argument(const std::string& who, const std::string& name, Kind kind, const CustomArg::Value& v) {
  const auto* size = std::get_if<SymInt>(&v);
  switch (kind) {
    case Kind::Tensor:
    case Kind::WrittenTensor:
      if (auto* t = std::get_if<Tensor>(&v); t && t->defined()) return *t;
      break;
    case Kind::Tensors:
      if (auto* list = std::get_if<std::vector<Tensor>>(&v)) return *list;
      break;
    case Kind::Int:
    case Kind::Size:
      if (size) return *size;
      break;
    case Kind::Float:
      if (auto* d = std::get_if<double>(&v)) return *d;
      if (size && size->expr().is_const()) return static_cast<double>(size->expr().constant());
      break;
    case Kind::Bool:
      if (auto* b = std::get_if<bool>(&v)) return *b;
      break;
    case Kind::Text:
      if (auto* s = std::get_if<std::string>(&v)) return *s;
      break;
  }
  fail<UserError>("{}: the argument \"{}\" must be {}", who, name, row_of(kind).expected);
}

CustomArg::Value value_of(const Arg<Tensor>& a) {
  if (auto* t = std::get_if<Tensor>(&a)) return *t;
  if (auto* list = std::get_if<std::vector<Tensor>>(&a)) return *list;
  if (auto* e = std::get_if<Expr>(&a)) return SymInt(*e);
  if (auto* d = std::get_if<double>(&a)) return *d;
  if (auto* b = std::get_if<bool>(&a)) return *b;
  if (auto* s = std::get_if<std::string>(&a)) return *s;
  if (auto* e = std::get_if<std::vector<Expr>>(&a); e && e->empty()) return std::vector<Tensor>{};
  return Tensor();
}

bool same_memory(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return false;
  if (is_proxy(a) || is_proxy(b)) return is_proxy(a) && is_proxy(b) && a.impl()->proxy == b.impl()->proxy;
  return a.impl()->storage == b.impl()->storage && a.impl()->storage->bytes > 0;
}

void check_results(const Entry& e, const std::string& who, const std::vector<CustomArg>& args, const std::vector<Tensor>& results) {
  const size_t expected = e.row.schema.returns.size();
  TOROID_USER_CHECK(results.size() == expected, "{} returns {} tensors where the schema of {} says {}", who, results.size(), e.row.name,
                    expected);
  for (size_t r = 0; r < results.size(); ++r) {
    TOROID_USER_CHECK(results[r].defined(), "{}: result {} is an undefined tensor", who, r);
    for (size_t i = 0; i < args.size(); ++i) {
      auto* t = std::get_if<Tensor>(&args[i].value);
      TOROID_USER_CHECK(!t || !same_memory(*t, results[r]), "{}: result {} is the argument {} itself or a view of it; return clone() of it",
                        who, r, i < e.row.schema.params.size() ? "\"" + e.row.schema.params[i].name + "\"" : std::to_string(i));
    }
    for (size_t other = 0; other < r; ++other)
      TOROID_USER_CHECK(!same_memory(results[other], results[r]), "{}: the results {} and {} share memory; return clone() of one of them",
                        who, other, r);
  }
}

// The function and its arguments: those of the operation, with the params of the variant put in or behind them.
struct Invocation {
  const CustomFunction* function;
  std::vector<CustomArg> args;
  std::string who;
};

Invocation invocation(const Entry& e, const CustomOpConfig* variant, std::vector<CustomArg::Value> values) {
  Invocation out{variant && variant->decomposition ? &variant->decomposition : &e.function, {}, e.row.name};
  if (variant) out.who += ", variant \"" + variant->name + "\"";
  std::vector<std::string> names;
  for (auto& p : e.row.schema.params) names.push_back(p.name);
  if (variant)
    for (auto& [name, value] : variant->params) {
      if (int at = e.row.schema.find(name); at >= 0) {
        values[static_cast<size_t>(at)] = value.value;
      } else {
        names.push_back(name);
        values.push_back(value.value);
      }
    }
  const auto& kinds = out.function->params;
  TOROID_USER_CHECK(kinds.size() == values.size(), "{}: the function takes {} arguments; the operation's and the params are {}", out.who,
                    kinds.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) out.args.push_back(argument(out.who, names[i], kinds[i], values[i]));
  return out;
}

thread_local int depth = 0;
thread_local const std::string* running = nullptr;
struct DepthScope {
  explicit DepthScope(const std::string& who) : before(running) {
    TOROID_USER_CHECK(depth < kMaxDepth, "{}: custom operations call each other without end", who);
    ++depth;
    running = &who;
  }
  ~DepthScope() {
    --depth;
    running = before;
  }
  const std::string* before;
};

// Without tensors: what can be known of a config by itself when it is registered.
void check_config(const Entry& e, const CustomOpConfig& c) {
  std::vector<CustomArg::Value> stand_ins;
  for (auto& p : e.row.schema.params) {
    if (p.type == ParamType::Tensor)
      stand_ins.push_back(p.list ? CustomArg::Value(std::vector<Tensor>{}) : CustomArg::Value(Tensor::empty({0}, DType::F32)));
    else if (p.type == ParamType::Int)
      stand_ins.push_back(SymInt(0));
    else if (p.type == ParamType::Float)
      stand_ins.push_back(0.0);
    else if (p.type == ParamType::Bool)
      stand_ins.push_back(false);
    else
      stand_ins.push_back(std::string());
  }
  const std::string who = e.row.name + ", variant \"" + c.name + "\"";
  std::set<std::string_view> given;
  for (auto& [name, value] : c.params) {
    TOROID_USER_CHECK(given.insert(name).second, "{}: the param \"{}\" is given twice", who, name);
    const bool tensor = std::holds_alternative<Tensor>(value.value) || std::holds_alternative<std::vector<Tensor>>(value.value);
    TOROID_USER_CHECK(!tensor, "{}: the param \"{}\" is a tensor; params are numbers and texts", who, name);
  }
  invocation(e, &c, std::move(stand_ins));
  if (c.decomposition) {
    const int results = c.decomposition.results, expected = static_cast<int>(e.row.schema.returns.size());
    TOROID_USER_CHECK(results < 0 || results == expected, "{}: the function returns {} tensors where the operation returns {}", who,
                      results, expected);
    for (size_t i = 0; i < e.row.schema.params.size(); ++i)
      TOROID_USER_CHECK(
          (c.decomposition.params[i] == Kind::WrittenTensor) == e.row.schema.params[i].mutated,
          "{}: the operation {} its argument \"{}\"; the function must do the same (Tensor& is written to, const Tensor& is not)", who,
          e.row.schema.params[i].mutated ? "writes to" : "does not write to", e.row.schema.params[i].name);
  }
  for (auto& [name, value] : c.options) check_code_option(name, value);
}

void check_tuning(const Op& op, const CustomTuning& t) {
  for (auto& [name, fn] : t.input_gen_fns) {
    const int at = op.schema.find(name);
    TOROID_USER_CHECK(at >= 0 && op.schema.params[static_cast<size_t>(at)].type == ParamType::Tensor && fn,
                      "{}: input_gen_fns has \"{}\", which is no tensor among its arguments", op.name, name);
  }
  TOROID_USER_CHECK(t.split_points.empty() || t.dispatch_on, "{}: split_points are given, but not the size that they split (dispatch_on)",
                    op.name);
  TOROID_USER_CHECK(t.min_speedup_threshold > 0, "{}: min_speedup_threshold is {}; expected a positive factor", op.name,
                    t.min_speedup_threshold);
  if (!t.dispatch_on) return;
  TOROID_USER_CHECK(!t.split_points.empty(),
                    "{}: dispatch_on names a size, but split_points are empty, so that all sizes are one range; give the last size of each "
                    "range but the last, or leave dispatch_on out",
                    op.name);
  const int at = op.schema.find(t.dispatch_on->tensor);
  TOROID_USER_CHECK(
      at >= 0 && op.schema.params[static_cast<size_t>(at)].type == ParamType::Tensor && !op.schema.params[static_cast<size_t>(at)].list,
      "{}: dispatch_on names \"{}\"; expected an argument that is one tensor", op.name, t.dispatch_on->tensor);
  int64_t before = 0;
  for (int64_t s : t.split_points) {
    TOROID_USER_CHECK(s > before, "{}: split_points must be positive and ascending; {} follows {}", op.name, s, before);
    before = s;
  }
  TOROID_USER_CHECK(t.dispatch_on->range_upper_bound > before, "{}: range_upper_bound is {}; expected more than the last split point {}",
                    op.name, t.dispatch_on->range_upper_bound, before);
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != ';' && c != '"'; });
}

std::string param_text(const CustomArg::Value& v) {
  if (auto* size = std::get_if<SymInt>(&v)) return sym::to_string(size->expr());
  if (auto* d = std::get_if<double>(&v)) return fmt::format("{}", *d);
  if (auto* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  auto* text = std::get_if<std::string>(&v);
  return text && is_plain(*text) ? *text : "...";
}

// Names for those that have none. Choices name variants, in lock files too.
void name_configs(const Op& op, std::vector<CustomOpConfig>& configs) {
  std::set<std::string_view> names = {op.name};
  for (size_t i = 0; i < configs.size(); ++i) {
    std::string& name = configs[i].name;
    if (name.empty()) {
      std::string params;
      for (auto& [param, value] : configs[i].params)
        params += fmt::format("{}{}={}", params.empty() ? " (" : ", ", param, param_text(value.value));
      name = fmt::format("variant {}{}", i + 1, params.empty() ? "" : params + ")");
    }
    TOROID_USER_CHECK(is_plain(name), "{}: the variant {} is named \"{}\"; expected a line of text without quotes and semicolons", op.name,
                      i + 1, name);
    TOROID_USER_CHECK(names.insert(name).second, "{}: the variant {} is named \"{}\", as {} is; give it another name", op.name, i + 1, name,
                      name == op.name ? "the operation itself" : "one before it");
  }
}

void add_tuning(const Op& row, Tuning tuning) {
  Entry& e = entry_of(row);
  TOROID_USER_CHECK(is_custom(row), "{} is opaque; variants are of operations that are made of operations (custom_op)", row.name);
  check_tuning(e.row, tuning.rules);
  name_configs(e.row, tuning.configs);
  for (auto& c : tuning.configs) check_config(e, c);
  std::unique_lock lock(registry().mutex);
  TOROID_USER_CHECK(!e.tuning, "{} has variants already; register all of them at once", e.row.name);
  e.tuning = std::make_shared<const Tuning>(std::move(tuning));
}

// door: the function of the public interface, for errors.
Schema schema_for(std::string_view door, std::string_view text, const CustomFunction& f) {
  if (text.find('(') == std::string_view::npos) {
    std::string made(text);
    for (size_t i = 0; i < f.params.size(); ++i) made += fmt::format("{}{} arg{}", i ? ", " : "(", row_of(f.params[i]).name, i);
    made += f.params.empty() ? "() -> (" : ") -> (";
    TOROID_USER_CHECK(f.results >= 0,
                      "{}: {} returns a list; give a schema that says how many tensors these are, such as "
                      "\"{}(Tensor x) -> (Tensor, Tensor)\"",
                      door, text, text);
    for (int i = 0; i < f.results; ++i) made += i ? ", Tensor" : "Tensor";
    return parse_schema(made + ")");
  }
  try {
    return parse_schema(text);
  } catch (const UserError& e) {
    fail<UserError>("{}: {}; a schema is such as \"demo::scale(Tensor x, float by=2.0) -> Tensor\"", door, e.what());
  }
}

void check_schema(std::string_view door, const Schema& s, const CustomFunction& f) {
  const size_t colons = s.name.find("::");
  auto is_word = [](std::string_view t) {
    return !t.empty() && std::all_of(t.begin(), t.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  };
  TOROID_USER_CHECK(colons != std::string::npos && is_word(s.name.substr(0, colons)) && is_word(s.name.substr(colons + 2)),
                    "{}: the name \"{}\" needs a namespace, as in \"demo::scale\", and letters, digits and _ alone", door, s.name);
  TOROID_USER_CHECK(f.params.size() == s.params.size(), "{}: {} has {} parameters in its schema, its function takes {}", door, s.name,
                    s.params.size(), f.params.size());
  bool tensors = false;
  for (size_t i = 0; i < s.params.size(); ++i) {
    TOROID_USER_CHECK(fits(f.params[i], s.params[i]),
                      "{}: the parameter \"{}\" of {} has another type in the schema than in the function, which takes {}", door,
                      s.params[i].name, s.name, row_of(f.params[i]).expected);
    tensors = tensors || s.params[i].type == ParamType::Tensor;
  }
  TOROID_USER_CHECK(tensors, "{}: {} takes no tensor", door, s.name);
  TOROID_USER_CHECK(f.results < 0 || f.results == static_cast<int>(s.returns.size()),
                    "{}: {} returns {} tensors in its schema, its function returns {}", door, s.name, s.returns.size(), f.results);
  for (auto& r : s.returns)
    TOROID_USER_CHECK(r.type == ParamType::Tensor && !r.list, "{}: {} may return tensors only; write (Tensor, Tensor) for two", door,
                      s.name);
}

}  // namespace

std::string running_custom() { return running ? *running : ""; }

bool is_custom(const Op& op) { return op.decompose == run_own; }

bool is_registered(const Op& op) { return is_custom(op) || is_opaque(op); }

const Op* find_custom(std::string_view name) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  auto it = r.by_name.find(std::string(name));
  return it == r.by_name.end() ? nullptr : it->second;
}

bool writes_arguments(const Op& op) {
  return std::any_of(op.schema.params.begin(), op.schema.params.end(), [](auto& p) { return p.mutated; });
}

const Op& functional_form(const Op& op) { return writes_arguments(op) ? entry_of(op).functional : op; }

bool same_operation(const Op& a, const Op& b) { return &entry_of(a) == &entry_of(b); }

std::vector<size_t> written_arguments(const Op& op) { return entry_of(op).written; }

bool is_tuned(const Op& op) {
  {
    Registry& r = registry();
    std::shared_lock lock(r.mutex);
    if (!r.by_row.count(&op)) return false;
  }
  return tuning_in(entry_of(op)) != nullptr;
}

const CustomTuning& tuning_of(const Op& op) {
  auto t = tuning_in(entry_of(op));
  TOROID_CHECK(t, "{} has no variants", op.name);
  return t->rules;  // lives as long as the process
}

Tensor generated_operand(const Op& op, const CustomOperand& operand) {
  auto t = tuning_in(entry_of(op));
  if (!t || !t->rules.input_gen_fns.count(operand.name)) return {};
  Tensor made = t->rules.input_gen_fns.at(operand.name)(operand);
  TOROID_USER_CHECK(made.defined() && made.dtype() == operand.dtype && made.sizes() == operand.sizes,
                    "{}: the generator of \"{}\" in input_gen_fns gives {}; expected {}[{}]", op.name, operand.name,
                    made.defined() ? to_string(made) : "an undefined tensor", name_of(operand.dtype), fmt::join(operand.sizes, ", "));
  return moved(made, operand.device);
}

std::vector<CustomOpConfig> variants_of(const Op& op, const std::vector<CustomOperand>& operands) {
  Entry& e = entry_of(op);
  auto t = tuning_in(e);
  if (!t) return {};
  if (!t->generator) return t->configs;
  auto configs = t->generator(operands);
  name_configs(e.row, configs);
  for (auto& c : configs) check_config(e, c);
  return configs;
}

std::vector<Tensor> run_custom(const Op& op, const CustomOpConfig* variant, std::span<const Arg<Tensor>> args) {
  Entry& e = entry_of(op);
  std::vector<CustomArg::Value> values;
  for (auto& a : args) values.push_back(value_of(a));
  const bool functional = &op == &e.functional;
  if (functional)
    for (size_t i : e.written) values[i] = call1("clone", {std::get<Tensor>(values[i])});
  Invocation call = invocation(e, variant, std::move(values));
  DepthScope scope(call.who);
  auto results = call.function->run(call.args);
  check_results(e, call.who, call.args, results);
  if (functional)
    for (size_t i : e.written) results.push_back(std::get<Tensor>(call.args[i].value));
  return results;
}

void count(const Op& op, CustomEvent event) { ++entry_of(op).counts[static_cast<size_t>(event)]; }

}  // namespace ops

const std::string& CustomOpBase::name() const { return op_->name; }

std::vector<Tensor> CustomOpBase::call(std::vector<CustomArg> args, const std::source_location& where) const {
  CallArgs given;
  for (size_t i = 0; i < args.size(); ++i) {
    TOROID_USER_CHECK(i < op_->schema.params.size(), "{} takes at most {} arguments, {} were given", op_->name, op_->schema.params.size(),
                      args.size());
    const CustomFunction& f = ops::entry_of(*op_).function;
    CustomArg a = ops::argument(op_->name, op_->schema.params[i].name, f.params[i], args[i].value);
    if (ops::is_opaque(*op_) && f.params[i] == CustomFunction::Kind::Int)
      a = static_cast<int64_t>(std::get<SymInt>(a.value));  // its type rule is no part of a trace, where numbers become known
    given.push_back(std::visit(
        [](auto&& v) -> Arg<Tensor> {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, SymInt>)
            return v.expr();
          else
            return v;
        },
        a.value));
  }
  return ops::call(*op_, std::move(given), where);
}

namespace detail {

const ops::Op* register_custom_op(std::string_view text, CustomFunction f) {
  ops::Op row;
  row.decompose = ops::run_own;
  return ops::register_row("custom_op", text, std::move(row), std::move(f), nullptr);
}

}  // namespace detail

const ops::Op* ops::register_row(std::string_view door, std::string_view text, Op row, CustomFunction f, const Announce& announce) {
  Schema schema = schema_for(door, text, f);
  check_schema(door, schema, f);
  auto& r = registry();
  std::unique_lock lock(r.mutex);
  TOROID_USER_CHECK(!r.by_name.count(schema.name), "{}: there is an operation \"{}\" already; choose another name", door, schema.name);
  Entry& e = r.entries.emplace_back();
  e.row = std::move(row);
  e.row.name = schema.name;
  e.row.schema = std::move(schema);
  e.function = std::move(f);
  for (size_t i = 0; i < e.row.schema.params.size(); ++i)
    if (e.row.schema.params[i].mutated) e.written.push_back(i);
  if (!e.written.empty()) {
    e.functional = e.row;
    e.functional.name = e.functional.schema.name = e.row.name + ".functional";
    for (size_t i : e.written) {
      e.functional.schema.params[i].mutated = e.functional.schema.params[i].alias = false;
      e.functional.schema.returns.push_back({ParamType::Tensor, false});
    }
  }
  if (announce) announce(e.row, e.written.empty() ? nullptr : &e.functional);
  for (const Op* op : {&e.row, &e.functional}) {
    if (op->name.empty()) continue;
    r.by_name[op->name] = op;
    r.by_row[op] = &e;
  }
  return &e.row;
}

void register_custom_op_autotuning(const CustomOpBase& op, std::vector<CustomOpConfig> configs, CustomTuning tuning) {
  ops::add_tuning(op.op(), {std::move(configs), nullptr, std::move(tuning)});
}

void register_custom_op_autotuning(const CustomOpBase& op, CustomConfigGenerator generator, CustomTuning tuning) {
  TOROID_USER_CHECK(generator, "{}: the generator of variants is empty", op.name());
  ops::add_tuning(op.op(), {{}, std::move(generator), std::move(tuning)});
}

CustomOpCounts custom_op_counts(const CustomOpBase& op) {
  auto& c = ops::entry_of(op.op()).counts;
  auto at = [&](ops::CustomEvent e) { return c[static_cast<size_t>(e)].load(); };
  return {at(ops::CustomEvent::Call), at(ops::CustomEvent::Variant), at(ops::CustomEvent::GuardRefusal), at(ops::CustomEvent::TypeRefusal),
          at(ops::CustomEvent::OtherRefusal)};
}

}  // namespace toroid
