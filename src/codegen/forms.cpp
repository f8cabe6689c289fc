#include "codegen/forms.h"

#include "base/check.h"

namespace toroid::codegen {
namespace {

const Form& form_of(const std::vector<Form>& forms, const program::Config& c) {
  std::string names;
  for (auto& f : forms) {
    if (f.name == c.form && f.refusal.empty()) return f;
    if (f.name == c.form) fail<UserError>("{} does not take this problem: {}; tune it again", program::to_string(c), f.refusal);
    if (f.refusal.empty()) names += (names.empty() ? "" : ", ") + f.name;
  }
  fail<UserError>("{} is of no form that takes this problem: {}; tune it again", program::to_string(c), names);
}

}  // namespace

void fail_config(const program::Config& c, const program::Config& expected, const std::string& why) {
  fail<UserError>("{} does not fit this problem: {}; expected one like {}: tune it again", program::to_string(c), why,
                  program::to_string(expected));
}

Form make_form(std::string name, std::string refusal, std::function<KernelText()> generate) {
  Form f{.name = name, .refusal = std::move(refusal), .reluctance = "", .generate = {}, .configs = {}, .neighbours = {}};
  const program::Config only{.form = std::move(name), .fields = {}};
  f.generate = [only, generate = std::move(generate)](const program::Config& c) {
    if (!c.empty() && c != only) fail_config(c, only, "it has no fields");
    return generate();
  };
  f.configs = [only] { return std::vector<program::Config>{only}; };
  f.neighbours = [](const program::Config&) { return std::vector<program::Config>{}; };
  return f;
}

std::string refusal_by(const std::vector<Form>& forms) {
  if (forms.empty()) return "no template computes such problems";
  for (auto& f : forms)
    if (f.refusal.empty()) return "";
  return forms.back().refusal;
}

const Form& first_taker(const std::vector<Form>& forms) {
  for (auto& f : forms)
    if (f.refusal.empty() && f.reluctance.empty()) return f;
  fail<InternalError>("no form takes the problem");
}

KernelText generate_by(const std::vector<Form>& forms, const program::Node& node) {
  return (node.config.empty() ? first_taker(forms) : form_of(forms, node.config)).generate(node.config);
}

std::vector<program::Config> configs_of(const std::vector<Form>& forms, size_t most) {
  const Form& taker = first_taker(forms);
  std::vector<program::Config> out = taker.configs();
  out.resize(std::min(out.size(), most));
  for (auto& f : forms) {
    if (&f == &taker || !f.refusal.empty()) continue;
    std::vector<program::Config> more = f.configs();
    out.insert(out.end(), more.begin(), more.begin() + static_cast<long>(std::min(more.size(), most / 4)));
  }
  return out;
}

std::vector<program::Config> neighbours_of(const std::vector<Form>& forms, const program::Config& c) {
  return form_of(forms, c).neighbours(c);
}

}  // namespace toroid::codegen
