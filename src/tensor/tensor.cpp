#include "toroid/tensor.h"

#include <algorithm>
#include <cstring>
#include <ostream>

#include "base/check.h"
#include "base/scalar.h"
#include "base/text.h"
#include "device/cpu/cpu_runtime.h"
#include "tensor/dispatch.h"
#include "tensor/element_reads.h"
#include "tensor/grad_state.h"
#include "tensor/late_stack.h"
#include "tensor/layout.h"
#include "tensor/recorded_members.h"
#include "tensor/upload.h"

namespace toroid {

int64_t product(std::span<const int64_t> sizes) {
  int64_t n = 1;
  for (int64_t s : sizes)
    if (__builtin_mul_overflow(n, s, &n)) fail<UserError>("a tensor with more than 2^63 elements was asked for");
  return n;
}

std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

std::shared_ptr<Storage> allocate_storage(size_t bytes, const Device& device) {
  auto s = std::make_shared<Storage>();
  s->bytes = bytes;
  s->device = device;
  s->owner = device::memory_of(device).allocate(bytes);
  s->data = static_cast<std::byte*>(s->owner.get());
  return s;
}

bool is_proxy(const Tensor& t) { return t.defined() && t.impl()->proxy; }

void check_contents(const Tensor& t, const std::source_location& where) {
  const Lent* lent = t.impl()->storage->lent.get();
  if (!lent || !lent->gone.load(std::memory_order_acquire)) return;
  fail<UserError>(
      "{}, and then read at {}:{}. Call cudagraph_mark_step_begin() once where each step begins, if the calls belong to one step; else "
      "keep a "
      "copy (clone()), or set capture_results to own or pool-clone",
      lent->message, where.file_name(), where.line());
}

SymInt::operator int64_t() const { return expr_.is_const() ? expr_.constant() : current_dispatcher().specialize(expr_); }

bool SymInt::decide(sym::Rel rel, const SymInt& a, const SymInt& b) {
  sym::Relation r{rel, a.expr_, b.expr_};
  if (auto k = sym::known(r)) return *k;
  return current_dispatcher().decide(r);
}

namespace {

// What errors have behind what they say.
std::string called_at(const std::source_location* where) { return where ? " (called at " + line_text(*where) + ")" : ""; }

void check_defined(const Tensor& t, std::string_view what, const std::source_location* where = nullptr) {
  if (!t.defined()) [[unlikely]]
    fail<UserError>("{} of an undefined tensor, which has no value yet{}", what, called_at(where));
}

void check_count(size_t numbers, std::span<const int64_t> sizes, const std::source_location& where) {
  TOROID_USER_CHECK(product(sizes) == static_cast<int64_t>(numbers), "{} numbers were given for a tensor of {} elements (called at {})",
                    numbers, product(sizes), line_text(where));
}

// The tensor behind t, with memory, which `what` needs.
const TensorImpl& concrete(const Tensor& t, std::string_view what, const std::source_location& where) {
  check_defined(t, what, &where);
  if (t.impl()->proxy) current_dispatcher().read(t, what, where);
  TOROID_CHECK(!t.impl()->proxy, "{} of a traced tensor left it without memory", what);
  return *t.impl();
}

// The same, where the user's code is to get the elements.
const TensorImpl& read_by_user(const Tensor& t, std::string_view what, const std::source_location& where) {
  if (ElementReader* r = ElementReader::current(); r && t.defined() && !t.impl()->proxy) [[unlikely]]
    r->read_elements(t, what, where);
  return concrete(t, what, where);
}

}  // namespace

Tensor Tensor::empty(std::span<const int64_t> sizes, DType dtype, const Device& device) {
  for (int64_t s : sizes) TOROID_USER_CHECK(s >= 0, "a tensor cannot have the size {}", s);
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = dtype;
  impl->sizes.assign(sizes.begin(), sizes.end());
  impl->strides = contiguous_strides(sizes);
  int64_t bytes;
  if (__builtin_mul_overflow(product(sizes), static_cast<int64_t>(size_of(dtype)), &bytes))
    fail<UserError>("a tensor with more than 2^63 bytes was asked for");
  impl->storage = allocate_storage(static_cast<size_t>(bytes), device);
  return Tensor(std::move(impl));
}

namespace {

// How C++ writes what data<T>() was asked for.
std::string element_text(detail::ElementKind kind, size_t size) {
  using Kind = detail::ElementKind;
  switch (kind) {
    case Kind::Bool:
      return "bool";
    case Kind::Float:
      return size == sizeof(float) ? "float" : size == sizeof(double) ? "double" : "long double";
    case Kind::Complex:
      return size == sizeof(std::complex<float>) ? "std::complex<float>" : "std::complex<double>";
    case Kind::Signed:
    case Kind::Unsigned:
      return fmt::format("{}int{}_t", kind == Kind::Unsigned ? "u" : "", 8 * size);
    default:
      return fmt::format("a class of {} bytes", size);
  }
}

detail::ElementKind kind_of(DType t) {
  using Kind = detail::ElementKind;
  if (is_half(t)) return Kind::Other;
  if (is_float(t)) return Kind::Float;
  if (is_complex(t)) return Kind::Complex;
  if (is_bool(t)) return Kind::Bool;
  return t == DType::U8 || t == DType::U16 || t == DType::U32 || t == DType::U64 ? Kind::Unsigned : Kind::Signed;
}

// An element of a dtype as a number: of 64 bits without a sign, the upper half is negative in a Number.
double value_of(const Number& v, DType t) {
  return t == DType::U64 && v.i < 0 ? static_cast<double>(static_cast<uint64_t>(v.i)) : v.as_double();
}

// The dtype whose elements are of a type of C++, where it has a dtype.
std::optional<DType> dtype_of(detail::ElementKind kind, size_t size) {
  for (const DType t : {DType::F32, DType::F64, DType::Bool, DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16,
                        DType::U32, DType::U64, DType::C64, DType::C128})
    if (kind_of(t) == kind && size_of(t) == size) return t;
  return std::nullopt;
}

Tensor filled(std::span<const int64_t> sizes, const Number& value, DType dtype, const Device& device) {
  TOROID_USER_CHECK(has_room(dtype, value), "full: {} has no room for {}", name_of(dtype), to_string(value));
  Tensor t = Tensor::empty(sizes, dtype);
  device::cpu::run_or_record("full", "fill", [data = t.raw_data(), n = t.numel(), dtype, value] {
    const auto bytes = static_cast<size_t>(n) * size_of(dtype);
    if (bytes == 0) return;
    store_number(data, dtype, value);
    for (size_t done = size_of(dtype); done < bytes; done *= 2) std::memcpy(data + done, data, std::min(done, bytes - done));
  });
  return moved(t, device);
}

}  // namespace

Tensor Tensor::full(std::span<const int64_t> sizes, double value, DType dtype, const Device& device) {
  return filled(sizes, Number::of(value), dtype, device);
}
Tensor Tensor::full_of_integer(std::span<const int64_t> sizes, int64_t value, DType dtype, const Device& device) {
  return filled(sizes, Number::of(value), dtype, device);
}

Tensor Tensor::of(std::span<const double> values, std::span<const int64_t> sizes, DType dtype, const Device& device, Where where) {
  check_count(values.size(), sizes, where);
  if (is_int(dtype))
    for (double v : values)
      TOROID_USER_CHECK(value_of(convert(Number::of(v), dtype), dtype) == v, "{} has no room for {}", name_of(dtype), v);
  Tensor t = empty(sizes, dtype);
  auto write = [data = t.raw_data(), dtype](std::span<const double> list) {
    for (size_t i = 0; i < list.size(); ++i) store_number(data + i * size_of(dtype), dtype, Number::of(list[i]));
  };
  if (auto* recorder = device::cpu::recorder())
    recorder->add_call("constant", "fill", [write, kept = std::vector(values.begin(), values.end())] { write(kept); });
  else
    write(values);
  return moved(t, device);
}

Tensor Tensor::copied(const void* values, size_t count, detail::ElementKind kind, size_t size, std::span<const int64_t> sizes,
                      const Device& device, Where where) {
  const std::optional<DType> dtype = dtype_of(kind, size);
  TOROID_USER_CHECK(dtype, "from_vector: no dtype has elements of the type {}; float, double, integers, bool and complex have one",
                    element_text(kind, size));
  check_count(count, sizes, where);
  Tensor t = empty(sizes, *dtype);
  auto write = [to = t.raw_data()](const std::byte* from, size_t bytes) {
    if (bytes) std::memcpy(to, from, bytes);
  };
  const auto* from = static_cast<const std::byte*>(values);
  if (auto* recorder = device::cpu::recorder())
    recorder->add_call("constant", "fill", [write, kept = std::vector(from, from + count * size)] { write(kept.data(), kept.size()); });
  else
    write(from, count * size);
  return moved(t, device);
}

Tensor Tensor::from_blob(void* data, std::span<const int64_t> sizes, DType dtype, std::span<const int64_t> strides,
                         std::shared_ptr<void> owner, const Device& device) {
  TOROID_USER_CHECK(strides.empty() || strides.size() == sizes.size(), "from_blob: {} strides were given for {} sizes", strides.size(),
                    sizes.size());
  for (int64_t s : sizes) TOROID_USER_CHECK(s >= 0, "from_blob: a tensor cannot have the size {}", s);
  TOROID_USER_CHECK(data || product(sizes) == 0, "from_blob: the address of {} elements is null", product(sizes));
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = dtype;
  impl->sizes.assign(sizes.begin(), sizes.end());
  impl->strides = strides.empty() ? contiguous_strides(sizes) : std::vector<int64_t>(strides.begin(), strides.end());
  impl->storage = std::make_shared<Storage>();
  impl->storage->data = static_cast<std::byte*>(data);
  impl->storage->owner = std::move(owner);
  impl->storage->device = device;
  int64_t last = product(sizes) == 0 ? -1 : 0;
  for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * impl->strides[d];
  impl->storage->bytes = last < 0 ? 0 : static_cast<size_t>(last + 1) * size_of(dtype);
  return Tensor(std::move(impl));
}

DType Tensor::dtype() const {
  check_defined(*this, "dtype()");
  return impl_->dtype;
}
Device Tensor::device() const {
  check_defined(*this, "device()");
  if (impl_->proxy) return impl_->device;
  return impl_->storage ? impl_->storage->device : Device::cpu();
}
int64_t Tensor::dim() const {
  check_defined(*this, "dim()");
  return static_cast<int64_t>(impl_->proxy ? impl_->sym_sizes.size() : impl_->sizes.size());
}
SymInt Tensor::size(int64_t d, Where where) const {
  check_defined(*this, "size()", &where);
  const int64_t n = dim();
  if (d < -n || d >= n) [[unlikely]]
    fail<UserError>("size({}): expected a dimension from {} to {} of a tensor of {} dimensions (called at {})", d, -n, n - 1, n,
                    line_text(where));
  const auto i = static_cast<size_t>(d < 0 ? d + n : d);
  return impl_->proxy ? SymInt(impl_->sym_sizes[i]) : SymInt(impl_->sizes[i]);
}
std::vector<SymInt> Tensor::sym_sizes() const {
  check_defined(*this, "sym_sizes()");
  std::vector<SymInt> out;
  for (int64_t d = 0; d < dim(); ++d) out.push_back(size(d));
  return out;
}
const std::vector<int64_t>& Tensor::sizes() const {
  check_defined(*this, "sizes()");
  if (impl_->proxy) {
    std::vector<int64_t> numbers;
    for (auto& e : impl_->sym_sizes) numbers.push_back(current_dispatcher().specialize(e));
    impl_->sizes = std::move(numbers);
  }
  return impl_->sizes;
}
const std::vector<int64_t>& Tensor::strides(Where where) const { return concrete(*this, "strides()", where).strides; }
int64_t Tensor::numel() const {
  check_defined(*this, "numel()");
  return product(sizes());
}

bool Tensor::is_contiguous(Where where) const {
  const TensorImpl& t = concrete(*this, "is_contiguous()", where);
  int64_t step = 1;
  for (size_t d = t.sizes.size(); d-- > 0;) {
    if (t.sizes[d] != 1 && t.strides[d] != step) return product(t.sizes) == 0;
    step *= t.sizes[d];
  }
  return true;
}

std::byte* Tensor::raw_data(Where where) const {
  const TensorImpl& t = concrete(*this, "data()", where);
  if (t.storage->lent) check_contents(*this, where);
  if (LateStack* late = t.storage->late.get())
    std::call_once(late->made, [&] {
      const device::CaptureSuspension now;  // not at a replay
      std::byte* to = t.storage->data;
      for (const Tensor& p : late->parts) {
        copy_elements(p, Tensor::from_blob(to, p.sizes(), p.dtype(), {}, nullptr, p.device()));
        to += p.numel() * static_cast<int64_t>(size_of(p.dtype()));
      }
    });
  return t.storage->data + t.offset * static_cast<int64_t>(size_of(t.dtype));
}

void Tensor::tell_move(Tensor& from) noexcept {
  if (this == &from) return;
  from.watch_.change();
  if (impl_ != from.impl_) watch_.change();
}

std::byte* Tensor::typed_data(detail::ElementKind kind, size_t size, Where where) const {
  using Kind = detail::ElementKind;
  const Kind own = kind_of(dtype());
  const bool of_that_size = size == size_of(dtype());
  const bool untyped = own == Kind::Other && kind == Kind::Unsigned;  // the bits of a half
  const bool class_of_it = kind == Kind::Other && (own == Kind::Other || own == Kind::Complex);
  const bool parts = own == Kind::Complex && kind == Kind::Float && 2 * size == size_of(dtype());  // real and imaginary ones by turns
  TOROID_USER_CHECK(kind == Kind::Raw || parts || (of_that_size && (kind == own || untyped || class_of_it)),
                    "{}:{}: data<T>() with T = {} of a tensor of dtype {}, whose elements are {}; convert it with to(tensor, dtype), or "
                    "take that type",
                    where.file_name(), where.line(), element_text(kind, size), name_of(dtype()),
                    own == Kind::Other ? "uint16_t, or a class of 2 bytes" : element_text(own, size_of(dtype())));
  read_by_user(*this, "data()", where);
  return raw_data(where);
}

double Tensor::item(Where where) const {
  read_by_user(*this, "item()", where);
  const ElementReader::Scope noted(nullptr);
  device::refuse_in_capture(device(), "item()");
  TOROID_USER_CHECK(numel() == 1, "{}:{}: item() of a tensor of {} elements; it must have one", where.file_name(), where.line(), numel());
  if (device().is_cuda()) return moved(*this, Device::cpu(), where).item(where);
  return value_of(load_number(raw_data(where), dtype()), dtype());
}

std::vector<double> Tensor::to_vector(Where where) const {
  read_by_user(*this, "to_vector()", where);
  device::refuse_in_capture(device(), "to_vector()");
  const GradModeScope values_only(false);
  Tensor c = made_dense(moved(*this, Device::cpu(), where), where);
  const std::byte* data = c.raw_data(where);
  std::vector<double> out(static_cast<size_t>(c.numel()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = value_of(load_number(data + i * size_of(dtype()), dtype()), dtype());
  return out;
}

void Tensor::read_numbers(detail::ElementKind kind, size_t size, std::byte* out, bool single, Where where) const {
  const std::string what = fmt::format("{}<{}>()", single ? "item" : "to_vector", element_text(kind, size));
  read_by_user(*this, what, where);
  device::refuse_in_capture(device(), what);
  const std::optional<DType> as = dtype_of(kind, size);
  TOROID_USER_CHECK(as, "{}:{}: {}: no dtype has elements of that type", where.file_name(), where.line(), what);
  TOROID_USER_CHECK(!single || numel() == 1, "{}:{}: {} of a tensor of {} elements; it must have one", where.file_name(), where.line(),
                    what, numel());
  TOROID_USER_CHECK(is_complex(*as) == is_complex(dtype()), "{}:{}: {} of a tensor of dtype {}", where.file_name(), where.line(), what,
                    name_of(dtype()));
  const GradModeScope values_only(false);
  const Tensor c = made_dense(moved(*this, Device::cpu(), where), where);
  const std::byte* data = c.raw_data(where);
  const size_t own = size_of(dtype()), count = static_cast<size_t>(c.numel());
  if (*as == dtype()) return void(std::copy_n(data, count * own, out));
  if (is_complex(dtype())) {
    for (size_t i = 0; i < 2 * count; ++i)
      store_number(out + i * size / 2, size == 8 ? DType::F32 : DType::F64,
                   load_number(data + i * own / 2, own == 8 ? DType::F32 : DType::F64));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const Number v = load_number(data + i * own, dtype());
    const double value = value_of(v, dtype());
    store_number(out + i * size, *as, is_float(*as) ? Number::of(value) : v);
    if (is_float(*as)) continue;
    const Number stored = load_number(out + i * size, *as);
    const bool same = value_of(stored, *as) == value && (v.kind == Number::Kind::Float || stored.i == v.i);
    TOROID_USER_CHECK(same, "{}:{}: {}: element {} is {}, which that type has not", where.file_name(), where.line(), what, i, value);
  }
}

namespace {

// Whether members of t are operations of the function that is recorded: t is of it, or its own code asks.
bool is_recorded_now(const Tensor& t) {
  if (t.impl()->proxy) return true;
  const ElementReader* function = ElementReader::current();
  const Dispatcher* d = innermost_dispatcher();
  return function && function->is_asked_by_function() && d && d != eager_dispatcher();
}
RecordedMembers& operations_of_members() {
  RecordedMembers* members = recorded_members();
  TOROID_CHECK(members, "a function is recorded before there are operations");
  return *members;
}
Tensor noted(Tensor made) {
  if (RecordedMembers* members = recorded_members()) members->note_made(made);
  return made;
}

}  // namespace

Tensor made_dense(const Tensor& t, const std::source_location& where) {
  if (t.is_contiguous(where)) return t;
  if (t.impl()->storage->lent) check_contents(t, where);
  Tensor out = Tensor::empty(t.sizes(), t.dtype(), t.device());
  copy_elements(t, out);
  return out;
}

Tensor Tensor::contiguous(Where where) const {
  check_defined(*this, "contiguous()", &where);
  if (!impl_->proxy && is_contiguous()) return *this;
  if (is_recorded_now(*this)) return operations_of_members().contiguous(*this, where);
  read_by_user(*this, "contiguous()", where);
  if (is_taped_now(*impl_)) [[unlikely]]
    return taped_members().contiguous(*this, where);
  return noted(made_dense(*this, where));
}

Tensor Tensor::as_strided(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset, Where where) const {
  check_defined(*this, "as_strided()", &where);
  if (is_recorded_now(*this))
    if (Tensor view = operations_of_members().as_strided(*this, sizes, strides, offset, where); view.defined()) return view;
  if (is_taped_now(*impl_)) [[unlikely]]
    return taped_members().as_strided(*this, sizes, strides, offset, where);
  return seen_as(*this, sizes, strides, offset, where);
}

Tensor seen_as(const Tensor& t, std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset,
               const std::source_location& where) {
  auto impl = std::make_shared<TensorImpl>(concrete(t, "as_strided()", where));
  TOROID_USER_CHECK(strides.size() == sizes.size(), "as_strided: {} strides were given for {} sizes", strides.size(), sizes.size());
  for (int64_t s : sizes) TOROID_USER_CHECK(s >= 0, "as_strided: a tensor cannot have the size {}", s);
  impl->sizes.assign(sizes.begin(), sizes.end());
  impl->strides.assign(strides.begin(), strides.end());
  impl->offset += offset;
  impl->grad = nullptr;
  impl->requires_grad = false;
  int64_t lo = impl->offset, hi = impl->offset;
  if (product(sizes) > 0)
    for (size_t d = 0; d < sizes.size(); ++d) (strides[d] < 0 ? lo : hi) += (sizes[d] - 1) * strides[d];
  TOROID_USER_CHECK(product(sizes) == 0 || (lo >= 0 && static_cast<size_t>(hi + 1) * size_of(impl->dtype) <= impl->storage->bytes),
                    "as_strided reaches elements {}..{} of a storage of {} bytes", lo, hi, impl->storage->bytes);
  return Tensor(std::move(impl));
}

Tensor Tensor::to(const Device& device, Where where) const {
  check_defined(*this, "to()", &where);
  if (this->device() == device) return *this;
  if (is_taped_now(*impl_)) [[unlikely]]
    return noted(taped_members().to(*this, device, where));
  Dispatcher* d = innermost_dispatcher();
  return noted(d ? d->move(*this, device, where) : moved(*this, device, where));
}

Tensor moved(const Tensor& t, const Device& device, const std::source_location& where) {
  const TensorImpl& impl = concrete(t, "to()", where);
  if (t.device() == device) return t;
  const GradModeScope values_only(false);
  if (impl.storage->lent) check_contents(t, where);
  // The elements between the first and the last, as they lie.
  int64_t extent = t.numel() > 0 ? 1 : 0;
  for (size_t d = 0; d < impl.strides.size() && extent > 0; ++d) {
    if (impl.strides[d] < 0) return moved(made_dense(t), device);
    extent += (impl.sizes[d] - 1) * impl.strides[d];
  }
  const std::vector<int64_t> flat{extent}, one{1};
  Tensor memory = Tensor::empty(flat, t.dtype(), device);
  const CopyPair whole{t, memory};
  if (impl.storage->late && device.is_cuda() && late_parts(t).size() > 1)
    upload({&whole, 1});  // without making the whole on the host first
  else
    copy_elements(seen_as(t, flat, one), memory);
  return seen_as(memory, impl.sizes, impl.strides);
}

bool Tensor::requires_grad() const { return impl_ && toroid::requires_grad(*impl_); }

namespace {

// A copy on the CPU within a capture.
void record_copy(const Tensor& from, const Tensor& to) {
  auto view = [](const Tensor& t) {
    keep_for_capture(Device::cpu(), t);
    return Tensor::from_blob(t.raw_data(), t.sizes(), t.dtype(), t.strides());
  };
  device::cpu::recorder()->add_call("copy_elements", "copy", [a = view(from), b = view(to)] { copy_elements(a, b); });
}

// Calls fn(address in from, address in to) for each element; there is one at least.
template <class Fn>
void for_each_pair(const Tensor& from, const Tensor& to, Fn&& fn) {
  const auto &sizes = from.sizes(), &a = from.strides(), &b = to.strides();
  const auto fs = static_cast<int64_t>(size_of(from.dtype())), ts = static_cast<int64_t>(size_of(to.dtype()));
  std::vector<int64_t> index(sizes.size(), 0);
  const std::byte* src = from.raw_data();
  std::byte* dst = to.raw_data();
  while (true) {
    fn(src, dst);
    size_t d = sizes.size();
    while (d-- > 0) {
      src += a[d] * fs, dst += b[d] * ts;
      if (++index[d] < sizes[d]) break;
      src -= a[d] * fs * sizes[d], dst -= b[d] * ts * sizes[d];
      index[d] = 0;
    }
    if (d > sizes.size()) return;  // past the first dimension
  }
}

}  // namespace

namespace {

template <class From, class To>
void copy_complex(const Tensor& from, const Tensor& to) {
  for_each_pair(from, to, [](const std::byte* src, std::byte* dst) {
    std::complex<From> value;
    std::memcpy(&value, src, sizeof value);
    const std::complex<To> converted(static_cast<To>(value.real()), static_cast<To>(value.imag()));
    std::memcpy(dst, &converted, sizeof converted);
  });
}

}  // namespace

void copy_elements(const Tensor& from, const Tensor& to) {
  TOROID_CHECK(from.sizes() == to.sizes(), "copy between different sizes");
  if (from.device().is_cuda() || to.device().is_cuda()) return copy_with_gpu(from, to);
  if (device::cpu::recorder()) return record_copy(from, to);
  const size_t fs = size_of(from.dtype());
  const bool same = from.dtype() == to.dtype();
  if (same && from.is_contiguous() && to.is_contiguous()) {
    std::memcpy(to.raw_data(), from.raw_data(), static_cast<size_t>(from.numel()) * fs);
    return;
  }
  if (from.numel() == 0) return;
  if (same && fs == 4) return for_each_pair(from, to, [](const std::byte* src, std::byte* dst) { std::memcpy(dst, src, 4); });
  if (same && fs == 2) return for_each_pair(from, to, [](const std::byte* src, std::byte* dst) { std::memcpy(dst, src, 2); });
  if (same) return for_each_pair(from, to, [fs](const std::byte* src, std::byte* dst) { std::memcpy(dst, src, fs); });
  // Numbers of one part go through a double, those of two would lose the second.
  if (from.dtype() == DType::C64 && to.dtype() == DType::C128) return copy_complex<float, double>(from, to);
  if (from.dtype() == DType::C128 && to.dtype() == DType::C64) return copy_complex<double, float>(from, to);
  for_each_pair(from, to,
                [f = from.dtype(), t = to.dtype()](const std::byte* src, std::byte* dst) { store_number(dst, t, load_number(src, f)); });
}

Expr TensorType::numel() const {
  Expr n = 1;
  for (auto& s : sizes) n = n * s;
  return n;
}

std::string to_string(const TensorType& t) {
  std::string out(name_of(t.dtype));
  out += '[';
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    out += d ? ", " : "";
    if (const auto n = t.sizes[d].maybe_constant())
      out += std::to_string(*n);
    else
      out += sym::to_string(t.sizes[d]);
  }
  return out += ']';
}

void detail::fail_too_large(uint64_t v) { fail<UserError>("{} is no size and no index: those have 63 bits", v); }

}  // namespace toroid
