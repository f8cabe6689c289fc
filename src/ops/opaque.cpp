#include "ops/opaque.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "base/index_fault.h"
#include "ops/custom.h"
#include "toroid/opaque_op.h"

namespace toroid {
namespace ops {
namespace {

struct Opaque {
  const Op *row = nullptr, *functional = nullptr;  // functional: only where the row writes
  OpaqueTypeRule types;
  OpaqueFunction host;
  bool strided = false;
  std::vector<size_t> written;
};

struct Opaques {
  std::shared_mutex mutex;
  std::deque<Opaque> entries;  // which never change
  std::unordered_map<const Op*, const Opaque*> by_row;
};
Opaques& opaques() {
  static Opaques& r = *new Opaques;  // never destroyed: threads may outlive main
  return r;
}

const Opaque& opaque_of(const Op& op) {
  Opaques& r = opaques();
  std::shared_lock lock(r.mutex);
  const auto it = r.by_row.find(&op);
  TOROID_CHECK(it != r.by_row.end(), "{} is no opaque operation", op.name);
  return *it->second;
}

// What code of the user's throws, with the operation's name and the line of the call, where that is known. Interfaces of Toroid that the
// code calls give errors of the right kind already.
template <class F>
auto run_users_code(const Opaque& o, std::string_view which, F&& code) {
  const auto text = [&](std::string_view what) {
    const std::string place = OperationPlace::current();
    return fmt::format("{}: {}{}", o.row->name, what, place.empty() ? "" : " (called at " + place + ")");
  };
  try {
    return code();
  } catch (const InternalError&) {
    throw;
  } catch (const EnvironmentError& e) {
    throw EnvironmentError(text(e.what()));
  } catch (const UserError& e) {
    throw UserError(text(e.what()));
  } catch (const std::exception& e) {
    throw UserError(text(fmt::format("its {} threw an exception: {}", which, e.what())));
  } catch (...) {
    throw UserError(text(fmt::format("its {} threw what is no std::exception", which)));
  }
}

// What answers questions about sizes within a rule of the user's: who asks it.
class SizesOnly : public Dispatcher {
 public:
  explicit SizesOnly(MetaCall& c) : c_(c) {}
  std::vector<Tensor> call(const Op& op, CallArgs, const std::source_location&) override { no_tensors(op.name); }
  bool decide(const sym::Relation& r) override { return c_.decide_or_known(r); }
  void require(const sym::Relation& r, const std::string& error) override { c_.require(r, "{}", error); }
  int64_t specialize(const Expr& e) override {
    fail<UserError>("it takes the size {} for a number, but it is known only when the program runs; compute with SymInt",
                    sym::to_string(e));
  }
  void read(const Tensor&, std::string_view what, const std::source_location&) override { no_tensors(what); }
  Tensor move(const Tensor&, const Device&, const std::source_location&) override { no_tensors("to()"); }
  bool copy(const Tensor&, const Tensor&) override { no_tensors("copy_()"); }

 private:
  [[noreturn]] static void no_tensors(std::string_view what) { fail<UserError>("it calls {}; rules compute with types alone", what); }
  MetaCall& c_;
};

MemoryType public_type(const TensorType& t) { return {t.dtype, {t.sizes.begin(), t.sizes.end()}}; }

OpaqueTypeRule::Arg type_argument(const MetaCall& c, const Param& p) {
  if (p.type == ParamType::Tensor && !p.list) return public_type(*c.tensor(p.name));
  if (p.type == ParamType::Tensor) {
    std::vector<MemoryType> list;
    for (const TensorType* t : c.tensors(p.name)) list.push_back(public_type(*t));
    return list;
  }
  if (p.type == ParamType::Int) return SymInt(c.expr(p.name));
  if (p.type == ParamType::Float) return c.real(p.name);
  if (p.type == ParamType::Bool) return c.flag(p.name);
  return c.text(p.name);
}

void infer_types(MetaCall& c) {
  const Opaque& o = opaque_of(c.op());
  std::vector<MemoryType> specs;
  if (o.types.run) ask_rule(c, "type rule", [&](auto args) { specs = o.types.run(args); });
  const size_t expected = o.row->schema.returns.size();
  TOROID_USER_CHECK(specs.size() == expected, "{}: its type rule gives {} types, its schema says that it returns {} tensors", o.row->name,
                    specs.size(), expected);
  for (size_t r = 0; r < specs.size(); ++r) {
    std::vector<Expr> sizes;
    for (const SymInt& s : specs[r].sizes) {
      c.require({sym::Rel::Ge, s.expr(), 0}, "{}: its type rule gives result {} a size of {}; sizes are not negative", o.row->name, r,
                sym::to_string(s.expr()));
      sizes.push_back(s.expr());
    }
    c.result(specs[r].dtype, std::move(sizes));
  }
  if (&c.op() == o.functional)
    for (size_t i : o.written) {
      const TensorType& t = *c.tensor(o.row->schema.params[i].name);
      c.result(t.dtype, t.sizes);
    }
}

Tensor row_major_copy(const Tensor& t) {
  Tensor out = Tensor::empty(t.sizes(), t.dtype(), t.device());
  copy_elements(t, out);
  return out;
}

std::span<const Tensor> tensors_in(const Arg<Tensor>& a) {
  if (auto* t = std::get_if<Tensor>(&a)) return {t, 1};
  if (auto* list = std::get_if<std::vector<Tensor>>(&a)) return *list;
  return {};
}

// The bytes from a tensor's first element to its last, strides of views being positive.
std::pair<const std::byte*, const std::byte*> extent(const Tensor& t) {
  int64_t last = 0;
  for (size_t d = 0; d < t.sizes().size(); ++d) last += std::max<int64_t>(t.sizes()[d] - 1, 0) * t.strides()[d];
  const std::byte* begin = t.raw_data();
  return {begin, t.numel() == 0 ? begin : begin + (last + 1) * static_cast<int64_t>(size_of(t.dtype()))};
}

// Whether the function may write argument number `i` where it lies: it is row-major, and no other argument may be in its memory.
bool may_write_there(std::span<const Arg<Tensor>> args, size_t i) {
  const Tensor& t = std::get<Tensor>(args[i]);
  if (!t.is_contiguous()) return false;
  const auto own = extent(t);
  for (size_t k = 0; k < args.size(); ++k)
    for (const Tensor& other : tensors_in(args[k])) {
      const auto its = extent(other);
      if (k != i && own.first < its.second && its.first < own.second) return false;
    }
  return true;
}

// What the function is given. written[i]: the memory of argument i where the function writes it.
std::vector<OpaqueFunction::Arg> given_to(const Opaque& o, std::span<const Arg<Tensor>> args, const std::vector<Tensor>& written,
                                          std::span<const Tensor> results) {
  const auto input = [&](const Tensor& t) { return InputMemory(o.strided || t.is_contiguous() ? t : row_major_copy(t)); };
  std::vector<OpaqueFunction::Arg> given;
  const CallReader call(*o.row, args);
  for (size_t i = 0; i < args.size(); ++i) {
    const Param& p = o.row->schema.params[i];
    if (p.type == ParamType::Tensor && p.list) {
      auto& list = std::get<std::vector<InputMemory>>(given.emplace_back(std::vector<InputMemory>{}));
      for (const Tensor& t : tensors_in(args[i])) list.push_back(input(t));
    } else if (p.type == ParamType::Tensor) {
      if (written[i].defined())
        given.emplace_back(OutputMemory(written[i]));
      else
        given.emplace_back(input(std::get<Tensor>(args[i])));
    } else if (p.type == ParamType::Int) {
      given.emplace_back(call.integer(p.name));
    } else if (p.type == ParamType::Float) {
      given.emplace_back(call.real(p.name));
    } else if (p.type == ParamType::Bool) {
      given.emplace_back(call.flag(p.name));
    } else {
      given.emplace_back(call.text(p.name));
    }
  }
  for (auto& r : results) given.emplace_back(OutputMemory(r));
  return given;
}

std::vector<TensorType> known_types(const Op& op, std::span<const Arg<Tensor>> args) {
  std::deque<TensorType> held;
  std::vector<Arg<const TensorType*>> types;
  for (auto& a : args)
    types.push_back(map_arg<const TensorType*>(a, [&](const Tensor& t) -> const TensorType* {
      return &held.emplace_back(TensorType{t.dtype(), {t.sizes().begin(), t.sizes().end()}, {}});
    }));
  return infer(op, types, [](const sym::Relation& r) { return sym::known(r).value_or(false); }, {});
}

void run_kernel(KernelCall& c) { run_opaque(c.op(), c.args(), c.outputs); }

}  // namespace

bool is_opaque(const Op& op) { return op.kernel == run_kernel; }

void ask_rule(MetaCall& c, std::string_view which, const std::function<void(std::span<const OpaqueTypeRule::Arg>)>& rule) {
  std::vector<OpaqueTypeRule::Arg> args;
  for (auto& p : c.op().schema.params) args.push_back(type_argument(c, p));
  SizesOnly sizes(c);
  DispatchScope scope(sizes);
  run_users_code(opaque_of(c.op()), which, [&] { rule(args); });
}

const std::string& opaque_name(const Op& op) { return opaque_of(op).row->name; }
const std::vector<CustomFunction::Kind>& opaque_params(const Op& op) { return opaque_of(op).host.params; }
bool takes_strides(const Op& op) { return opaque_of(op).strided; }

std::vector<Tensor> opaque_results(const Op& op, std::span<const Arg<Tensor>> args, const Device& device) {
  std::vector<Tensor> out;
  for (auto& type : known_types(op, args)) {
    std::vector<int64_t> sizes;
    for (auto& s : type.sizes) sizes.push_back(s.constant());
    out.push_back(Tensor::empty(sizes, type.dtype, device));
  }
  return out;
}

void run_opaque(const Op& op, std::span<const Arg<Tensor>> args, std::span<const Tensor> outputs) {
  run_opaque(op, args, outputs, "function", opaque_of(op).host.run);
}

void run_opaque(const Op& op, std::span<const Arg<Tensor>> args, std::span<const Tensor> outputs, std::string_view which,
                const std::function<void(std::span<const OpaqueFunction::Arg>)>& function) {
  const Opaque& o = opaque_of(op);
  const auto types = known_types(op, args);
  TOROID_CHECK(types.size() == outputs.size(), "{} has {} results, memory for {} is given", op.name, types.size(), outputs.size());
  for (size_t r = 0; r < types.size(); ++r) {
    const TensorType there{outputs[r].dtype(), {outputs[r].sizes().begin(), outputs[r].sizes().end()}, {}};
    TOROID_USER_CHECK(types[r] == there,
                      "{}: its type rule gives {} for result {} now, and gave {} when the program was made; it must depend on its "
                      "arguments alone",
                      o.row->name, to_string(types[r]), r, to_string(there));
    TOROID_CHECK(outputs[r].is_contiguous(), "{}: result {} is not row-major memory", o.row->name, r);
  }
  const size_t results = o.row->schema.returns.size();
  std::vector<Tensor> written(args.size());
  for (size_t k = 0; k < o.written.size(); ++k) {
    const size_t i = o.written[k];
    const Tensor& t = std::get<Tensor>(args[i]);
    if (&op != o.functional) {
      written[i] = may_write_there(args, i) ? t : row_major_copy(t);
    } else {
      written[i] = outputs[results + k];
      if (written[i].raw_data() != t.raw_data()) copy_elements(t, written[i]);
    }
  }
  const auto given = given_to(o, args, written, outputs.first(results));
  run_users_code(o, which, [&] { function(given); });
  if (&op == o.functional) return;
  for (size_t i : o.written)
    if (const Tensor& t = std::get<Tensor>(args[i]); written[i].impl() != t.impl()) copy_elements(written[i], t);
}

}  // namespace ops

namespace detail {

void fail_strided(const std::source_location& where) {
  fail<UserError>(
      "{}:{}: as<T>() of memory that is not row-major, in an operation that was registered with `strided`; take data() and "
      "strides()",
      where.file_name(), where.line());
}

void fail_on_gpu(const Tensor& t, const std::source_location& where) {
  fail<UserError>(
      "{}:{}: as<T>() of memory on {}, whose elements the host cannot read; data<T>() is the address for kernels and libraries that "
      "work there",
      where.file_name(), where.line(), to_string(t.device()));
}

const ops::Op* register_opaque_op(std::string_view text, OpaqueTypeRule types, OpaqueFunction f, const OpaqueOptions& options) {
  using Kind = CustomFunction::Kind;
  const std::string name(text.substr(0, text.find('(')));
  TOROID_USER_CHECK(f.run, "opaque_op: {} has no function", name);
  // What follows the arguments are results.
  const bool typed = types.run != nullptr;
  const size_t returned = text.find('(') == text.npos ? 0 : ops::parse_schema(text).returns.size();
  TOROID_USER_CHECK(typed || returned == 0,
                    "opaque_op: {} returns {} tensors, but nothing says of which types: a program must know them before it runs. Give "
                    "opaque_op a function from the arguments' types (MemoryType) to the results' before the function itself",
                    name, returned);
  const size_t params = typed ? types.params.size() : f.params.size();
  TOROID_USER_CHECK(params <= f.params.size(), "opaque_op: the function of {} takes {} arguments, its type rule {}", name, f.params.size(),
                    params);
  CustomFunction signature;
  signature.params.assign(f.params.begin(), f.params.begin() + static_cast<std::ptrdiff_t>(params));
  const size_t results = f.params.size() - params;
  signature.results = static_cast<int>(results);
  for (size_t i = params; i < f.params.size(); ++i)
    TOROID_USER_CHECK(f.params[i] == Kind::WrittenTensor,
                      "opaque_op: the function of {} takes {} arguments, its type rule {}; what follows are the results, each an "
                      "OutputMemory",
                      name, f.params.size(), params);
  if (typed) {
    TOROID_USER_CHECK(types.results < 0 || static_cast<size_t>(types.results) == results,
                      "opaque_op: the type rule of {} gives {} results, its function takes {}", name, types.results, results);
    for (size_t i = 0; i < params; ++i) {
      Kind& kind = signature.params[i];
      const Kind seen = kind == Kind::WrittenTensor ? Kind::Tensor : kind;
      TOROID_USER_CHECK(types.params[i] == seen || (seen == Kind::Int && types.params[i] == Kind::Size),
                        "opaque_op: argument {} of {} has another type in its type rule than in its function", i, name);
      if (seen == Kind::Int) kind = types.params[i];
    }
  }
  const bool writes = std::find(signature.params.begin(), signature.params.end(), Kind::WrittenTensor) != signature.params.end();
  TOROID_USER_CHECK(writes || results > 0 || options.effect,
                    "opaque_op: {} has no results and writes to no argument; say with the option `effect` that it does something else",
                    name);
  ops::Op row;
  row.meta = ops::infer_types;
  row.kernel = ops::run_kernel;
  row.effect = options.effect;
  auto& r = ops::opaques();
  const auto announce = [&](const ops::Op& made, const ops::Op* functional) {
    std::unique_lock lock(r.mutex);
    auto& o = r.entries.emplace_back();
    o.row = &made, o.functional = functional;
    o.types = std::move(types), o.host = std::move(f);
    o.strided = options.strided;
    for (size_t i = 0; i < made.schema.params.size(); ++i)
      if (made.schema.params[i].mutated) o.written.push_back(i);
    r.by_row[&made] = &o;
    if (functional) r.by_row[functional] = &o;
  };
  return ops::register_row("opaque_op", text, std::move(row), std::move(signature), announce);
}

}  // namespace detail
}  // namespace toroid
