#include "tune/search/frontier.h"

#include <algorithm>

namespace toroid::tune {

Frontier::Frontier(const std::vector<Entry>& entries, bool whole) {
  for (auto& e : entries) {
    auto f = std::find_if(forms_.begin(), forms_.end(), [&](const Form& known) { return known.name == e.form; });
    if (f == forms_.end()) f = forms_.insert(f, Form{.name = e.form, .candidates = {}});
    f->candidates.push_back(e.candidate);
  }
  for (Form& f : forms_) {
    const size_t count = f.candidates.size();
    const bool at_once = whole || f.name.empty() || (count > kParts && count <= kShort);
    f.part = at_once ? count : std::max<size_t>(1, count / kParts);
  }
}

bool Frontier::goes_on(const Form& f) const {
  if (f.ended || f.end == f.candidates.size()) return false;
  bool hope = false, known = false;
  for (size_t k = f.begin; k < f.end; ++k) {
    const auto at = ratios_.find(f.candidates[k]);
    const double ratio = at == ratios_.end() ? 0 : at->second;
    known = known || ratio > 0, hope = hope || (ratio > 0 && ratio <= kFar * best_);
  }
  return hope || !known;
}

std::vector<size_t> Frontier::next() {
  std::vector<size_t> out;
  for (Form& f : forms_) {
    if (!goes_on(f)) {
      f.ended = true;
      continue;
    }
    f.begin = f.end;
    f.end = std::min(f.candidates.size(), f.begin + f.part);
    out.insert(out.end(), f.candidates.begin() + static_cast<long>(f.begin), f.candidates.begin() + static_cast<long>(f.end));
  }
  std::sort(out.begin(), out.end());
  return out;
}

void Frontier::report(size_t candidate, double ratio) {
  ratios_[candidate] = ratio;
  if (ratio > 0) best_ = std::min(best_, ratio);
}

bool Frontier::is_done() const {
  return std::none_of(forms_.begin(), forms_.end(), [&](const Form& f) { return goes_on(f); });
}

void Frontier::stop() {
  for (Form& f : forms_) f.ended = true;
}

std::vector<size_t> Frontier::passed_over() const {
  std::vector<size_t> out;
  for (const Form& f : forms_) out.insert(out.end(), f.candidates.begin() + static_cast<long>(f.end), f.candidates.end());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace toroid::tune
