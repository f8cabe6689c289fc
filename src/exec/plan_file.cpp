#include "exec/plan_file.h"

#include "base/check.h"
#include "base/hash.h"
#include "exec/bytes.h"
#include "exec/fields.h"
#include "exec/steps.h"
#include "ops/op.h"
#include "tensor/layout.h"

namespace toroid::exec {
namespace {

constexpr std::string_view kPlanMagic = "TOROIDPL", kStoreMagic = "TOROIDST";
constexpr size_t kMaxDepth = 64;                // of blocks within blocks
constexpr uint8_t kConstant = 0, kFormula = 1;  // of expressions
constexpr int64_t kMostElements = int64_t{1} << 48;

class Writer {
 public:
  template <class T, class... Usual>
  void operator()(const char*, const T& v, const Usual&...) {
    value(v);
  }
  void symbols(const std::vector<std::pair<Expr, bool>>& list) {
    bytes.count(list.size());
    for (auto& [e, unbacked] : list) {
      const sym::Node& n = *e.node();
      bytes.text(n.name), bytes.integer(n.lo), bytes.integer(n.hi), value(unbacked);
    }
  }
  template <class T>
  void lines(const char*, const std::vector<T>& list) {
    value(list);
  }
  void steps(const std::vector<StepPlan>& list) {
    bytes.count(list.size());
    for (auto& step : list) {
      bytes.byte(static_cast<uint8_t>(step.index()));
      std::visit([&](auto& s) { value(s); }, step);
    }
  }
  void plan(const std::shared_ptr<const Plan>& p) { value(*p); }

  void value(bool v) { bytes.byte(v); }
  void value(int v) { bytes.integer(v); }
  void value(int64_t v) { bytes.integer(v); }
  void value(double v) { bytes.real(v); }
  void value(std::complex<double> v) { bytes.real(v.real()), bytes.real(v.imag()); }
  void value(std::monostate) {}
  void value(const std::string& v) { bytes.text(v); }
  void value(const Expr& v) {
    if (auto c = v.maybe_constant()) return bytes.byte(kConstant), bytes.integer(*c);
    bytes.byte(kFormula), bytes.text(sym::to_string(v));
  }
  void value(const Device& v) { value(v.type), bytes.integer(v.index); }
  void value(const CompileOptions& v) { bytes.text(v.text()); }
  void value(const ops::Op* v) { bytes.text(v->name); }
  void value(const TensorType& v) { value(v.dtype), value(v.sizes), value(v.strides); }
  void value(const sym::Relation& v) { value(v.rel), value(v.a), value(v.b); }
  void value(const sym::Guard& v) { value(v.rel), value(v.a), value(v.b), value(v.error); }
  template <class E>
  requires std::is_enum_v<E>
  void value(E v) { bytes.byte(static_cast<uint8_t>(v)); }
  template <class... T>
  void value(const std::variant<T...>& v) {
    bytes.byte(static_cast<uint8_t>(v.index()));
    std::visit([&](auto& x) { value(x); }, v);
  }
  template <class T>
  void value(const std::optional<T>& v) {
    value(v.has_value());
    if (v) value(*v);
  }
  template <class T>
  void value(const std::vector<T>& v) {
    bytes.count(v.size());
    for (const auto& x : v) value(x);
  }
  template <class T, size_t N>
  void value(const T (&v)[N]) {
    for (auto& x : v) value(x);
  }
  template <class T>
  requires std::is_class_v<T>
  void value(const T& r) {
    fields(*this, r);
    children(*this, r);
  }

  ByteWriter bytes;
};

// How many values an enum has.
template <class E>
constexpr size_t kValues = kNames<E>.size();
template <>
constexpr size_t kValues<DType> = kDTypeCount;
template <>
constexpr size_t kValues<DeviceType> = 2;
template <>
constexpr size_t kValues<sym::Rel> = 6;

class Reader {
 public:
  explicit Reader(ByteReader& bytes) : bytes_(bytes) {}

  Plan plan() {
    Plan p;
    value(p);
    return p;
  }
  Launch launch() {
    Launch l;
    scopes_.emplace_back();  // no symbol
    value(l);
    return l;
  }

  template <class T, class... Usual>
  void operator()(const char* name, T& v, const Usual&...) {
    name_ = name;
    value(v);
  }
  void symbols(std::vector<std::pair<Expr, bool>>& list) {
    for (size_t n = bytes_.length(); n-- > 0;) {
      const std::string name(bytes_.text("the name of a symbol"));
      const int64_t lo = bytes_.integer("the least value of a symbol"), hi = bytes_.integer("the greatest value of a symbol");
      if (lo > hi || lo < -sym::kInf || hi > sym::kInf) bytes_.error(fmt::format("a range that is not empty behind symbol \"{}\"", name));
      const Expr e = sym::symbol(name, lo, hi);
      if (!scopes_.back().emplace(name, e).second) bytes_.error(fmt::format("one symbol \"{}\", not two", name));
      bool unbacked = false;
      value(unbacked);
      list.emplace_back(e, unbacked);
    }
  }
  template <class T>
  void lines(const char* tag, std::vector<T>& list) {
    name_ = tag;
    value(list);
  }
  void steps(std::vector<StepPlan>& list) {
    name_ = "step";
    for (size_t n = bytes_.length(); n-- > 0;) value(list.emplace_back());
  }
  void plan(std::shared_ptr<const Plan>& p) {
    auto made = std::make_shared<Plan>();
    value(*made);
    p = std::move(made);
  }

 private:
  void value(bool& v) { v = one_of(2) != 0; }
  void value(int& v) {
    const int64_t n = bytes_.integer(name_);
    v = static_cast<int>(n);
    if (v != n) bytes_.error(fmt::format("{} of 32 bits", name_));
  }
  void value(int64_t& v) { v = bytes_.integer(name_); }
  void value(double& v) { v = bytes_.real(); }
  void value(std::complex<double>& v) {
    const double re = bytes_.real();
    v = {re, bytes_.real()};
  }
  void value(std::monostate&) {}
  void value(std::string& v) { v = bytes_.text(name_); }
  void value(Expr& v) {
    if (one_of(2) == kConstant) {
      v = bytes_.integer(name_);
      return;
    }
    named([&](const std::string& s) {
      v = sym::parse(s, [&](const std::string& name, bool) {
        const auto it = scopes_.back().find(name);
        TOROID_USER_CHECK(it != scopes_.back().end(), "the symbol \"{}\" is not declared", name);
        return it->second;
      });
    });
  }
  void value(Device& v) { value(v.type), value(v.index); }
  void value(CompileOptions& v) {
    named([&](const std::string& s) { v = CompileOptions::parse(s); });
  }
  void value(const ops::Op*& v) {
    named([&](const std::string& s) { v = &operation_named(s); });
  }
  void value(TensorType& v) { value(v.dtype), value(v.sizes), value(v.strides); }
  void value(sym::Relation& v) { value(v.rel), value(v.a), value(v.b); }
  void value(sym::Guard& v) { value(v.rel), value(v.a), value(v.b), value(v.error); }
  template <class E>
  requires std::is_enum_v<E>
  void value(E& v) { v = static_cast<E>(one_of(kValues<E>)); }
  template <class... T>
  void value(std::variant<T...>& v) {
    const size_t index = one_of(sizeof...(T));
    emplace(v, index, std::index_sequence_for<T...>());
  }
  template <class V, size_t... I>
  void emplace(V& v, size_t index, std::index_sequence<I...>) {
    ((index == I ? value(v.template emplace<I>()) : void()), ...);
  }
  template <class T>
  void value(std::optional<T>& v) {
    if (one_of(2)) value(v.emplace(T{}));
  }
  template <class T>
  void value(std::vector<T>& v) {
    const char* const name = name_;
    for (size_t n = bytes_.length(); n-- > 0; name_ = name) {
      T x{};
      value(x);
      v.push_back(std::move(x));
    }
  }
  template <class T, size_t N>
  void value(T (&v)[N]) {
    for (auto& x : v) value(x);
  }
  template <class T>
  requires std::is_class_v<T>
  void value(T& r) {
    if constexpr (Is<T, Plan>) {
      if (scopes_.size() >= kMaxDepth) bytes_.error("blocks that are not nested so deeply");
      scopes_.emplace_back();
    }
    fields(*this, r);
    children(*this, r);
    if constexpr (Is<T, Plan>) scopes_.pop_back();
  }

  size_t one_of(size_t values) {
    const uint8_t v = bytes_.byte(name_);
    if (v >= values) bytes_.error(fmt::format("{}, a number below {}, before this byte", name_, values));
    return v;
  }
  // A string with a meaning.
  template <class F>
  void named(F&& take) {
    const std::string s(bytes_.text(name_));
    try {
      take(s);
    } catch (const UserError& e) {
      bytes_.error(fmt::format("{} before this byte: {}", name_, e.what()));
    }
  }

  ByteReader& bytes_;
  const char* name_ = "a plan";
  std::vector<std::map<std::string, Expr>> scopes_;
};

void write(ByteWriter& out, const std::string& name, const Tensor& t) {
  const Tensor here = moved(t, Device::cpu());
  out.text(name), out.byte(static_cast<uint8_t>(here.dtype())), out.count(here.sizes().size());
  for (int64_t n : here.sizes()) out.integer(n);
  for (int64_t n : here.strides()) out.integer(n);
  out.text({reinterpret_cast<const char*>(here.raw_data()), static_cast<size_t>(extent_of(here)) * size_of(here.dtype())});
}

Tensor read_tensor(ByteReader& in) {
  const uint8_t dtype = in.byte("a dtype");
  if (dtype >= kDTypeCount) in.error("a dtype before this byte");
  std::vector<int64_t> sizes(in.length()), strides(sizes.size());
  int64_t last = 0;
  bool empty = false;
  for (auto& n : sizes)
    if (n = in.integer("a size"); n < 0 || n > kMostElements) in.error("a size that is not negative before this byte");
  for (auto& n : strides)
    if (n = in.integer("a stride"); n < 0 || n > kMostElements) in.error("a stride that is not negative before this byte");
  for (size_t d = 0; d < sizes.size(); ++d) {
    empty = empty || sizes[d] == 0;
    int64_t along = 0;
    if (sizes[d] > 1 && (__builtin_mul_overflow(sizes[d] - 1, strides[d], &along) || __builtin_add_overflow(last, along, &last)))
      in.error("sizes and strides of a tensor that fits in memory");
  }
  const auto type = static_cast<DType>(dtype);
  const std::string_view contents = in.text("the elements of a tensor");
  const auto width = static_cast<int64_t>(size_of(type));
  if (last > kMostElements || static_cast<int64_t>(contents.size()) != (empty ? 0 : (last + 1) * width))
    in.error(fmt::format("{} elements of {} before this byte", empty ? 0 : last + 1, name_of(type)));
  Tensor row = Tensor::empty(std::vector<int64_t>{empty ? 0 : last + 1}, type);
  if (!contents.empty()) std::memcpy(row.raw_data(), contents.data(), contents.size());
  return row.as_strided(sizes, strides);
}

}  // namespace

std::string framed(std::string_view magic, uint32_t version, std::string_view contents) {
  const uint64_t length = contents.size(), checksum = hash_bytes(contents.data(), contents.size()).lo;
  std::string out(magic);
  out.reserve(kFrameHead + contents.size() + sizeof checksum);
  out.append(reinterpret_cast<const char*>(&version), sizeof version);
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  out += contents;
  out.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  return out;
}

std::string_view unframed(std::string_view bytes, std::string_view magic, uint32_t version, const char* what) {
  uint32_t its_version = 0;
  uint64_t length = 0, checksum = 0;
  TOROID_USER_CHECK(bytes.substr(0, magic.size()) == magic, "{}, offset 0: expected \"{}\"", what, magic);
  TOROID_USER_CHECK(bytes.size() >= kFrameHead, "{}, offset {}: expected a version and a length, the file ends", what, bytes.size());
  std::memcpy(&its_version, bytes.data() + magic.size(), sizeof its_version);
  std::memcpy(&length, bytes.data() + magic.size() + sizeof its_version, sizeof length);
  TOROID_USER_CHECK(its_version == version, "{}, offset {}: expected version {}, it has {}; compile the program again", what, magic.size(),
                    version, its_version);
  const size_t rest = bytes.size() - kFrameHead;
  TOROID_USER_CHECK(rest >= sizeof checksum && length == rest - sizeof checksum,
                    "{}, offset {}: expected {} bytes and a checksum of 8, {} follow", what, kFrameHead, length, rest);
  const std::string_view contents = bytes.substr(kFrameHead, length);
  std::memcpy(&checksum, contents.data() + length, sizeof checksum);
  TOROID_USER_CHECK(checksum == hash_bytes(contents.data(), contents.size()).lo,
                    "{}, offset {}: expected the checksum of the bytes before it; the file is damaged", what, kFrameHead + length);
  return contents;
}

std::string write_plan(const Plan& plan) {
  Writer w;
  w.value(plan);
  return framed(kPlanMagic, kPlanVersion, w.bytes.out);
}

Plan read_plan(std::string_view bytes) {
  ByteReader in(unframed(bytes, kPlanMagic, kPlanVersion, "plan file"), "plan file", kFrameHead);
  Plan out = Reader(in).plan();
  in.end();
  return out;
}

void write_launch(ByteWriter& out, const Launch& l) {
  Writer w;
  w.value(l);
  out.out += w.bytes.out;
}

Launch read_launch(ByteReader& in) { return Reader(in).launch(); }

std::string write_store(const Store& store) {
  if (store.filling.valid()) store.filling.get();
  ByteWriter out;
  out.count(store.kernels.all().size());
  for (auto& [name, k] : store.kernels.all()) {
    TOROID_USER_CHECK(k.object, "a kernel of the program is a function of this process, which cannot be stored");
    out.text(*k.object);
  }
  out.count(store.constants.all().size());
  for (auto& [name, t] : store.constants.all()) write(out, name, t);
  return framed(kStoreMagic, kPlanVersion, out.out);
}

Store read_store(std::string_view bytes) {
  ByteReader in(unframed(bytes, kStoreMagic, kPlanVersion, "store file"), "store file", kFrameHead);
  Store out;
  for (size_t n = in.length(); n-- > 0;) out.kernels.add(std::string(in.text("the object of a kernel")));
  for (size_t n = in.length(); n-- > 0;) {
    const std::string name(in.text("the name of a constant"));
    out.constants.add(name, read_tensor(in));
  }
  in.end();
  return out;
}

}  // namespace toroid::exec
