// New tensors: `full` and `prims.iota` are the two primitives, the rest is made of them.
#include "ops/rows/creation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace toroid::ops {

std::vector<Expr> sizes_of(const Tensor& t) {
  std::vector<Expr> out;
  for (auto& s : t.sym_sizes()) out.push_back(s.expr());
  return out;
}

Tensor filled(std::vector<Expr> sizes, Arg<Tensor> value, DType dtype) {
  return call1("full", {std::move(sizes), std::move(value), dtype});
}

Tensor counted(Expr length, Expr start, Expr step, DType dtype) {
  return call1("prims.iota", {std::move(length), std::move(start), std::move(step), dtype});
}

namespace {

template <class T>
DType dtype_of_number(const Arg<T>& a) {
  if (std::holds_alternative<bool>(a)) return DType::Bool;
  if (std::holds_alternative<Expr>(a)) return DType::I64;
  if (std::holds_alternative<std::complex<double>>(a)) return DType::C64;
  return DType::F32;
}

void check_sizes(MetaCall& c, const std::vector<Expr>& sizes) {
  for (auto& s : sizes) c.require({sym::Rel::Ge, s, 0}, "{}: a size is {}; sizes must not be negative", c.op().name, sym::to_string(s));
}

void full_meta(MetaCall& c) {
  auto sizes = c.exprs("size");
  check_sizes(c, sizes);
  c.result(c.dtype("dtype").value_or(dtype_of_number(c.at("fill_value"))), std::move(sizes));
}

void full_kernel(KernelCall& c) {
  Tensor& out = c.outputs[0];
  size_t step = size_of(out.dtype());
  std::byte pattern[16] = {};
  if (auto* z = std::get_if<std::complex<double>>(&c.at("fill_value"))) {
    TOROID_USER_CHECK(is_complex(out.dtype()), "full: a complex number cannot fill a tensor of {}", name_of(out.dtype()));
    float narrow[2] = {static_cast<float>(z->real()), static_cast<float>(z->imag())};
    double wide[2] = {z->real(), z->imag()};
    if (out.dtype() == DType::C64)
      std::memcpy(pattern, narrow, sizeof narrow);
    else
      std::memcpy(pattern, wide, sizeof wide);
  } else {
    store_number(pattern, out.dtype(), c.number("fill_value"));
  }
  // What is filled is copied behind itself: twice as much each time, as long as it stays in the cache.
  constexpr size_t kCached = 1 << 16;
  const size_t all = static_cast<size_t>(out.numel()) * step;
  std::byte* p = out.raw_data();
  if (all) std::memcpy(p, pattern, step);
  for (size_t done = step; done < all;) {
    const size_t more = std::min({done, kCached, all - done});
    std::memcpy(p + done, p, more);
    done += more;
  }
}

void iota_meta(MetaCall& c) {
  Expr length = c.expr("length");
  check_sizes(c, {length});
  c.result(*c.dtype("dtype"), {length});
}

void iota_kernel(KernelCall& c) {
  Tensor& out = c.outputs[0];
  size_t size = size_of(out.dtype());
  auto value = static_cast<uint64_t>(c.integer("start")), step = static_cast<uint64_t>(c.integer("step"));
  std::byte* p = out.raw_data();
  for (int64_t i = 0, n = out.numel(); i < n; ++i, p += size, value += step)
    store_number(p, out.dtype(), Number::of(static_cast<int64_t>(value)));
}

// name(SymInt[] size), name_like(self) and new_name(self, size), all of one number.
void add_constant_rows(Table& t) {
  t.primitive(fmt::format("full(SymInt[] size, Scalar fill_value, *, {}) -> Tensor", kCreationOptions), full_meta, full_kernel);
  t.composite(fmt::format("full_like(Tensor self, Scalar fill_value, *, {}, MemoryFormat? memory_format=None) -> Tensor", kCreationOptions),
              [](const CallReader& c) -> std::vector<Tensor> {
                Tensor x = c.tensor("self");
                return {filled(sizes_of(x), c.at("fill_value"), c.dtype("dtype").value_or(x.dtype()))};
              });
  t.composite(fmt::format("new_full(Tensor self, SymInt[] size, Scalar fill_value, *, {}) -> Tensor", kCreationOptions),
              [](const CallReader& c) -> std::vector<Tensor> {
                return {filled(c.exprs("size"), c.at("fill_value"), c.dtype("dtype").value_or(c.tensor("self").dtype()))};
              });
  auto zeros = [](const CallReader& c) -> std::vector<Tensor> {
    return {filled(c.exprs("size"), Expr(0), c.dtype("dtype").value_or(DType::F32))};
  };
  auto ones = [](const CallReader& c) -> std::vector<Tensor> {
    return {filled(c.exprs("size"), Expr(1), c.dtype("dtype").value_or(DType::F32))};
  };
  t.composite(fmt::format("zeros(SymInt[] size, *, {}) -> Tensor", kCreationOptions), zeros);
  t.composite(fmt::format("ones(SymInt[] size, *, {}) -> Tensor", kCreationOptions), ones);
  // The content of an empty tensor is not defined; zeros keep runs repeatable.
  t.composite(fmt::format("empty.memory_format(SymInt[] size, *, {}, MemoryFormat? memory_format=None) -> Tensor", kCreationOptions),
              zeros);
  t.composite(fmt::format("empty_strided(SymInt[] size, SymInt[] stride, *, {}) -> Tensor", kCreationOptions), zeros);
  t.composite(fmt::format("empty_permuted(SymInt[] size, int[] physical_layout, *, {}) -> Tensor", kCreationOptions), zeros);
  auto zeros_like = [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("self");
    return {filled(sizes_of(x), Expr(0), c.dtype("dtype").value_or(x.dtype()))};
  };
  auto ones_like = [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("self");
    return {filled(sizes_of(x), Expr(1), c.dtype("dtype").value_or(x.dtype()))};
  };
  t.composite(fmt::format("zeros_like(Tensor self, *, {}, MemoryFormat? memory_format=None) -> Tensor", kCreationOptions), zeros_like);
  t.composite(fmt::format("empty_like(Tensor self, *, {}, MemoryFormat? memory_format=None) -> Tensor", kCreationOptions), zeros_like);
  t.composite(fmt::format("ones_like(Tensor self, *, {}, MemoryFormat? memory_format=None) -> Tensor", kCreationOptions), ones_like);
  auto new_zeros = [](const CallReader& c) -> std::vector<Tensor> {
    return {filled(c.exprs("size"), Expr(0), c.dtype("dtype").value_or(c.tensor("self").dtype()))};
  };
  t.composite(fmt::format("new_zeros(Tensor self, SymInt[] size, *, {}) -> Tensor", kCreationOptions), new_zeros);
  t.composite(fmt::format("new_empty(Tensor self, SymInt[] size, *, {}) -> Tensor", kCreationOptions), new_zeros);
  t.composite(fmt::format("new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, {}) -> Tensor", kCreationOptions), new_zeros);
  t.composite(fmt::format("new_ones(Tensor self, SymInt[] size, *, {}) -> Tensor", kCreationOptions),
              [](const CallReader& c) -> std::vector<Tensor> {
                return {filled(c.exprs("size"), Expr(1), c.dtype("dtype").value_or(c.tensor("self").dtype()))};
              });
  t.composite(fmt::format("scalar_tensor(Scalar s, *, {}) -> Tensor", kCreationOptions), [](const CallReader& c) -> std::vector<Tensor> {
    bool complex = std::holds_alternative<std::complex<double>>(c.at("s"));
    return {filled({}, c.at("s"), c.dtype("dtype").value_or(complex ? DType::C64 : DType::F32))};
  });
}

bool is_integral(const Arg<Tensor>& a) { return std::holds_alternative<Expr>(a); }

std::vector<Tensor> arange(const CallReader& c, const Arg<Tensor>& start, const Arg<Tensor>& end, const Arg<Tensor>& step) {
  bool integral = is_integral(start) && is_integral(end) && is_integral(step);
  DType dtype = c.dtype("dtype").value_or(integral ? DType::I64 : DType::F32);
  if (integral) {
    const Expr &lo = std::get<Expr>(start), &hi = std::get<Expr>(end), &by = std::get<Expr>(step);
    const bool up = sym::known_ge(by, 1);
    TOROID_USER_CHECK(up || sym::known_ge(-1, by), "{}: step must be a number other than 0 whose sign is known when compiling; it is {}",
                      c.op().name, sym::to_string(by));
    Expr length = up ? sym::ceil_div(hi - lo, by) : sym::ceil_div(lo - hi, -by);
    require({sym::Rel::Ge, length, 0}, "{}: the end lies on the wrong side of the start for step {}", c.op().name, sym::to_string(by));
    return {counted(length, lo, by, dtype)};
  }
  auto real = [&](const Arg<Tensor>& a) {
    if (auto* d = std::get_if<double>(&a)) return *d;
    if (auto* e = std::get_if<Expr>(&a); e && e->is_const()) return static_cast<double>(e->constant());
    fail<UserError>("{}: start, end and step must be real numbers that are known when compiling", c.op().name);
  };
  double lo = real(start), hi = real(end), by = real(step);
  TOROID_USER_CHECK(by != 0 && std::isfinite(lo) && std::isfinite(hi) && std::isfinite(by), "{}: start and end must be finite, step not 0",
                    c.op().name);
  double length = std::ceil((hi - lo) / by);
  TOROID_USER_CHECK(length >= 0 && length < 0x1p62, "{}: from {} to {} by {} makes {} elements", c.op().name, lo, hi, by, length);
  Expr n(static_cast<int64_t>(length));
  if (is_int(dtype)) return {counted(n, static_cast<int64_t>(lo), static_cast<int64_t>(by), dtype)};
  Tensor steps = call1("mul.Tensor", {counted(n, 0, 1, DType::F64), by});
  Tensor values = call1("add.Tensor", {steps, lo});
  return {dtype == DType::F64 ? values : call1("_to_copy", {values, dtype})};
}

// A bool stands for an integer.
Arg<Tensor> as_number(const Arg<Tensor>& a) {
  auto* b = std::get_if<bool>(&a);
  return b ? Arg<Tensor>(Expr(static_cast<int64_t>(*b))) : a;
}

void add_range_rows(Table& t) {
  t.primitive("prims.iota(SymInt length, *, SymInt start, SymInt step, ScalarType dtype) -> Tensor", iota_meta, iota_kernel);
  t.composite(fmt::format("arange(Scalar end, *, {}) -> Tensor", kCreationOptions),
              [](const CallReader& c) { return arange(c, Expr(0), as_number(c.at("end")), Expr(1)); });
  t.composite(fmt::format("arange.start(Scalar start, Scalar end, *, {}) -> Tensor", kCreationOptions),
              [](const CallReader& c) { return arange(c, as_number(c.at("start")), as_number(c.at("end")), Expr(1)); });
  t.composite(fmt::format("arange.start_step(Scalar start, Scalar end, Scalar step=1, *, {}) -> Tensor", kCreationOptions),
              [](const CallReader& c) { return arange(c, as_number(c.at("start")), as_number(c.at("end")), as_number(c.at("step"))); });
}

// One end of a linspace as an operand in double, rounded first to the dtype asked for.
Arg<Tensor> range_end(const CallReader& c, const char* name, DType dtype) {
  if (auto* x = std::get_if<Tensor>(&c.at(name))) {
    TOROID_USER_CHECK(x->dim() == 0, "{}: \"{}\" must be a tensor without dimensions, it has {}", c.op().name, name, x->dim());
    return call1("_to_copy", {call1("_to_copy", {*x, dtype}), DType::F64});
  }
  return convert(c.number(name), dtype).as_double();
}

// The elements in double, each counted from the nearer end so that both ends are exact.
Tensor linear_space(const CallReader& c, DType dtype) {
  int64_t steps = c.integer("steps");
  TOROID_USER_CHECK(steps >= 0, "{}: the number of steps must not be negative, it is {}", c.op().name, steps);
  TOROID_USER_CHECK(!is_complex(dtype), "{} does not make complex tensors", c.op().name);
  DType rounded = is_half(dtype) ? DType::F32 : dtype;
  Arg<Tensor> start = range_end(c, "start", rounded), end = range_end(c, "end", rounded);
  Tensor i = counted(steps, 0, 1, DType::F64);
  Tensor lo = call1("add.Tensor", {call1("mul.Tensor", {i, 0.0}), start});
  if (steps < 2) return lo;
  Tensor hi = call1("add.Tensor", {call1("mul.Tensor", {i, 0.0}), end});
  Tensor step = call1("div.Tensor", {call1("sub.Tensor", {hi, lo}), static_cast<double>(steps - 1)});
  Tensor forward = call1("add.Tensor", {lo, call1("mul.Tensor", {step, i})});
  Tensor left = call1("rsub.Scalar", {i, static_cast<double>(steps - 1)});
  Tensor backward = call1("sub.Tensor", {hi, call1("mul.Tensor", {step, left})});
  return call1("where.self", {call1("lt.Scalar", {i, static_cast<double>(steps / 2)}), forward, backward});
}

std::vector<Tensor> linspace(const CallReader& c) {
  DType dtype = c.dtype("dtype").value_or(DType::F32);
  Tensor values = linear_space(c, dtype);
  return {dtype == DType::F64 ? values : call1("_to_copy", {values, dtype})};
}

std::vector<Tensor> logspace(const CallReader& c) {
  DType dtype = c.dtype("dtype").value_or(DType::F32);
  Tensor values = call1("pow.Scalar", {c.real("base"), linear_space(c, dtype)});
  return {dtype == DType::F64 ? values : call1("_to_copy", {values, dtype})};
}

void add_space_rows(Table& t) {
  struct Kind {
    const char *suffix, *start, *end;
  };
  for (auto [suffix, start, end] : {Kind{"", "Scalar", "Scalar"}, Kind{".Tensor_Tensor", "Tensor", "Tensor"},
                                    Kind{".Tensor_Scalar", "Tensor", "Scalar"}, Kind{".Scalar_Tensor", "Scalar", "Tensor"}}) {
    t.composite(fmt::format("linspace{}({} start, {} end, int steps, *, {}) -> Tensor", suffix, start, end, kCreationOptions), linspace);
    t.composite(
        fmt::format("logspace{}({} start, {} end, int steps, float base=10.0, *, {}) -> Tensor", suffix, start, end, kCreationOptions),
        logspace);
  }
}

std::vector<Tensor> eye(const CallReader& c, const Expr& rows, const Expr& columns) {
  Tensor row = call1("unsqueeze", {counted(rows, 0, 1, DType::I64), Expr(1)});
  Tensor column = call1("unsqueeze", {counted(columns, 0, 1, DType::I64), Expr(0)});
  return {call1("_to_copy", {call1("eq.Tensor", {row, column}), c.dtype("dtype").value_or(DType::F32)})};
}

// Elements of a row x column matrix on and below the diagonal `offset`.
int64_t tril_count(int64_t rows, int64_t columns, int64_t offset) {
  offset = std::clamp(offset, -rows - 1, columns);
  int64_t first = std::clamp<int64_t>(-offset, 0, rows);               // first row that is not empty
  int64_t whole = std::clamp<int64_t>(columns - offset, first, rows);  // first row beyond which all are whole
  int64_t a = first + offset + 1, b = whole + offset;                  // elements of the first and last partial row
  return (whole > first ? (a + b) * (whole - first) / 2 : 0) + (rows - whole) * columns;
}

void triangle_meta(MetaCall& c) {
  constexpr int64_t kMaxSide = int64_t{1} << 30;
  int64_t rows = c.integer("row"), columns = c.integer("col"), offset = c.integer("offset");
  TOROID_USER_CHECK(rows >= 0 && columns >= 0 && rows <= kMaxSide && columns <= kMaxSide, "{}: a matrix of {} x {} elements", c.op().name,
                    rows, columns);
  bool lower = c.op().name == "tril_indices";
  int64_t n = lower ? tril_count(rows, columns, offset) : rows * columns - tril_count(rows, columns, std::max(offset, -kMaxSide - 1) - 1);
  c.result(c.dtype("dtype").value_or(DType::I64), {Expr(2), Expr(n)});
}

void triangle_kernel(KernelCall& c) {
  constexpr int64_t kMaxSide = int64_t{1} << 30;
  int64_t rows = c.integer("row"), columns = c.integer("col"), offset = std::clamp(c.integer("offset"), -2 * kMaxSide, 2 * kMaxSide);
  bool lower = c.op().name == "tril_indices";
  Tensor& out = c.outputs[0];
  int64_t n = out.sizes()[1], at = 0;
  auto size = static_cast<int64_t>(size_of(out.dtype()));
  for (int64_t r = 0; r < rows; ++r) {
    int64_t from = lower ? 0 : std::clamp<int64_t>(r + offset, 0, columns),
            to = lower ? std::clamp<int64_t>(r + offset + 1, 0, columns) : columns;
    for (int64_t k = from; k < to; ++k, ++at) {
      store_number(out.raw_data() + at * size, out.dtype(), Number::of(r));
      store_number(out.raw_data() + (n + at) * size, out.dtype(), Number::of(k));
    }
  }
}

void add_matrix_rows(Table& t) {
  t.composite(fmt::format("eye(SymInt n, *, {}) -> Tensor", kCreationOptions),
              [](const CallReader& c) { return eye(c, c.expr("n"), c.expr("n")); });
  t.composite(fmt::format("eye.m(SymInt n, SymInt m, *, {}) -> Tensor", kCreationOptions),
              [](const CallReader& c) { return eye(c, c.expr("n"), c.expr("m")); });
  for (const char* name : {"tril_indices", "triu_indices"})
    t.primitive(fmt::format("{}(int row, int col, int offset=0, *, {}) -> Tensor", name, kCreationOptions), triangle_meta, triangle_kernel);
  t.composite("one_hot(Tensor self, int num_classes=-1) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    int64_t classes = c.integer("num_classes");
    TOROID_USER_CHECK(classes >= 0, "one_hot: num_classes must be given: the largest class in the data is not known when compiling");
    Tensor x = call1("unsqueeze", {call1("_check_index", {c.tensor("self"), Expr(classes), "one_hot", Expr(-1), false}), Expr(-1)});
    return {call1("_to_copy", {call1("eq.Tensor", {x, counted(classes, 0, 1, DType::I64)}), DType::I64})};
  });
}

}  // namespace

void add_creation_rows(Table& t) {
  add_constant_rows(t);
  add_range_rows(t);
  add_space_rows(t);
  add_matrix_rows(t);
  add_window_rows(t);
}

}  // namespace toroid::ops
