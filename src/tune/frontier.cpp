#include "tune/frontier.h"

#include <algorithm>

namespace toroid::tune {

Frontier::Frontier(const std::vector<std::string>& forms, bool whole) : ratios_(forms.size(), 0) {
  for (size_t i = 0; i < forms.size(); ++i) {
    auto f = std::find_if(forms_.begin(), forms_.end(), [&](const Form& known) { return known.name == forms[i]; });
    if (f == forms_.end()) f = forms_.insert(f, Form{.name = forms[i], .choices = {}});
    f->choices.push_back(i);
  }
  for (Form& f : forms_) {
    const size_t count = f.choices.size();
    const bool at_once = whole || f.name.empty() || (count > kParts && count <= kShort);
    f.part = at_once ? count : std::max<size_t>(1, count / kParts);
  }
}

bool Frontier::goes_on(const Form& f) const {
  if (f.ended || f.end == f.choices.size()) return false;
  bool hope = false, known = false;
  for (size_t k = f.begin; k < f.end; ++k) {
    const double ratio = ratios_[f.choices[k]];
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
    f.end = std::min(f.choices.size(), f.begin + f.part);
    out.insert(out.end(), f.choices.begin() + static_cast<long>(f.begin), f.choices.begin() + static_cast<long>(f.end));
  }
  std::sort(out.begin(), out.end());
  return out;
}

void Frontier::report(size_t choice, double ratio) {
  ratios_[choice] = ratio;
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
  for (const Form& f : forms_) out.insert(out.end(), f.choices.begin() + static_cast<long>(f.end), f.choices.end());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace toroid::tune
