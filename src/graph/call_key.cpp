#include "graph/call_key.h"

#include <bit>

namespace toroid::graph {

bool CallKey::add_attribute(const Arg<Tensor>& a) {
  const auto number = [&](const Expr& e) {
    if (!e.is_const()) return false;
    words_.push_back(e.constant());
    return true;
  };
  const auto real = [&](double d) { words_.push_back(std::bit_cast<int64_t>(d)); };
  if (auto* e = std::get_if<Expr>(&a)) return number(*e);
  if (auto* list = std::get_if<std::vector<Expr>>(&a)) {
    words_.push_back(static_cast<int64_t>(list->size()));
    for (auto& e : *list)
      if (!number(e)) return false;
  } else if (auto* d = std::get_if<double>(&a)) {
    real(*d);
  } else if (auto* doubles = std::get_if<std::vector<double>>(&a)) {
    words_.push_back(static_cast<int64_t>(doubles->size()));
    for (double d : *doubles) real(d);
  } else if (auto* b = std::get_if<bool>(&a)) {
    words_.push_back(*b);
  } else if (auto* bools = std::get_if<std::vector<bool>>(&a)) {
    words_.push_back(static_cast<int64_t>(bools->size()));
    for (bool b : *bools) words_.push_back(b);
  } else if (auto* text = std::get_if<std::string>(&a)) {
    words_.push_back(static_cast<int64_t>(text->size()));
    for (char c : *text) words_.push_back(c);
  } else if (auto* dtype = std::get_if<DType>(&a)) {
    words_.push_back(static_cast<int64_t>(*dtype));
  } else if (auto* c = std::get_if<std::complex<double>>(&a)) {
    real(c->real()), real(c->imag());
  }
  return true;
}

size_t CallKey::HashOf::operator()(const CallKey& k) const {
  uint64_t h = 0x9e3779b97f4a7c15ULL;
  for (int64_t w : k.words_) {
    h = (h ^ static_cast<uint64_t>(w)) * 0xff51afd7ed558ccdULL;
    h ^= h >> 32;
  }
  return h;
}

}  // namespace toroid::graph
