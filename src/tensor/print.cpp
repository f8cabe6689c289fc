// Tensors as text.
#include <algorithm>
#include <complex>
#include <limits>
#include <ostream>

#include "base/check.h"
#include "tensor/element_reads.h"
#include "toroid/tensor.h"

namespace toroid {
namespace {

std::string type_text(const Tensor& t) {
  std::string out = fmt::format("{}[", name_of(t.dtype()));
  for (int64_t d = 0; d < t.dim(); ++d) out += (d ? ", " : "") + sym::to_string(t.size(d).expr());
  return out + (t.device().is_cuda() ? "] on " + to_string(t.device()) : "]");
}

// The sign of a NaN means nothing, and machines differ about it.
template <class T>
T unsigned_nan(T value) {
  return value == value ? value : std::numeric_limits<T>::quiet_NaN();
}

// The texts of elements, row by row.
std::vector<std::string> element_texts(const Tensor& t) {
  const ElementReader::Scope for_people(nullptr);
  std::vector<std::string> texts;
  const auto write = [&](const auto& values, const char* format) {
    texts.reserve(values.size());
    for (const auto value : values) texts.push_back(fmt::format(fmt::runtime(format), unsigned_nan(value)));
  };
  if (is_complex(t.dtype())) {
    for (const auto& z : t.to_vector<std::complex<double>>())
      texts.push_back(fmt::format("{:g}{:+g}i", unsigned_nan(z.real()), unsigned_nan(z.imag())));
  } else if (is_float(t.dtype())) {
    write(t.to_vector<double>(), "{:g}");
  } else if (t.dtype() == DType::U64) {
    write(t.to_vector<uint64_t>(), "{}");
  } else {
    write(t.to_vector<int64_t>(), "{}");
  }
  return texts;
}

// Elements in braces, one pair a row. As PyTorch does, large tensors show `kEdge` parts at both ends of each dimension.
class Rows {
 public:
  Rows(const Tensor& t, std::vector<std::string> texts) : sizes_(t.sizes()), texts_(std::move(texts)), cut_(texts_.size() > kWhole) {
    for (size_t d = 0; d + 1 < sizes_.size(); ++d) lines_ = lines_ || sizes_[d] != 1;
    if (lines_) visit(0, 0, [&](size_t i) { width_ = std::max(width_, texts_[i].size()); });
  }

  // Whether they are on more than one line.
  bool lines() const { return lines_; }

  // Rows behind the first begin `indent` columns further in.
  std::string text(size_t indent) const { return part(0, 0, indent); }

 private:
  static constexpr size_t kWhole = 1000;
  static constexpr int64_t kEdge = 3;

  bool is_cut(size_t d) const { return cut_ && sizes_[d] > 2 * kEdge; }
  bool is_shown(size_t d, int64_t i) const { return !is_cut(d) || i < kEdge || i >= sizes_[d] - kEdge; }

  template <class Fn>
  void visit(size_t d, size_t at, const Fn& fn) const {
    if (d == sizes_.size()) return fn(at);
    for (int64_t i = 0; i < sizes_[d]; ++i)
      if (is_shown(d, i)) visit(d + 1, at * static_cast<size_t>(sizes_[d]) + static_cast<size_t>(i), fn);
  }

  std::string part(size_t d, size_t at, size_t indent) const {
    if (d == sizes_.size()) return fmt::format("{:>{}}", texts_[at], width_);
    const bool innermost = d + 1 == sizes_.size();
    const std::string between = innermost ? ", " : ",\n" + std::string(indent + 1, ' ');
    std::string out = "{";
    for (int64_t i = 0; i < sizes_[d]; ++i) {
      if (!is_shown(d, i)) continue;
      if (i > 0) out += between;
      if (is_cut(d) && i == sizes_[d] - kEdge) out += "..." + between;
      out += part(d + 1, at * static_cast<size_t>(sizes_[d]) + static_cast<size_t>(i), indent + 1);
    }
    return out + "}";
  }

  const std::vector<int64_t>& sizes_;
  std::vector<std::string> texts_;
  bool cut_, lines_ = false;
  size_t width_ = 0;  // of all elements, where rows stand below each other
};

}  // namespace

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "undefined";
  if (is_proxy(t)) return type_text(t);
  constexpr size_t kShown = 8;
  const std::vector<std::string> texts = element_texts(t);
  std::string out = type_text(t) + " {";
  for (size_t i = 0; i < std::min(texts.size(), kShown); ++i) out += (i ? ", " : "") + texts[i];
  return out + (texts.size() > kShown ? ", ...}" : "}");
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  if (!t.defined()) return out << "undefined";
  if (is_proxy(t)) return out << type_text(t);
  if (t.dim() == 0) return out << type_text(t) << " {" << element_texts(t).at(0) << "}";
  const Rows rows(t, element_texts(t));
  return out << type_text(t) << (rows.lines() ? "\n" : " ") << rows.text(0);
}

}  // namespace toroid
