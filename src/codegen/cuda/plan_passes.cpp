#include "codegen/cuda/plan_passes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "codegen/passes.h"

namespace toroid::codegen {

using loop::Reduction;
using loop::Statement;
using loop::Step;

bool is_heavy(const Statement& s) { return s.step == Step::Load || (s.step == Step::Scalar && s.op >= ScalarOp::Exp); }

int64_t registers_of(const CudaPlan& p, int k) {
  const auto bytes = static_cast<int64_t>(size_of(p.step(k).dtype));
  const bool packed = std::any_of(p.packs.begin(), p.packs.end(), [&](int at) { return at == k || p.step(at).args[0] == k; });
  return packed ? (p.vector * bytes + 3) / 4 : p.vector * ((bytes + 3) / 4);
}

namespace {

// What values that a later pass needs again can be computed from cheaply.
class Sources {
 public:
  explicit Sources(const CudaPlan& p) : p_(p), known_(p.body.steps.size()) {}

  // Should the value itself be kept, or computed from others that are?
  bool is_kept(int k) { return !is_streamed(k) && (is_heavy(p_.step(k)) || registers_of(p_, k) < registers(behind_operands(k))); }

 private:
  // What shared memory has for all passes.
  bool is_streamed(int k) const { return std::count(p_.streamed.begin(), p_.streamed.end(), k) > 0; }

  int64_t registers(const std::set<int>& values) const {
    int64_t sum = 0;
    for (int k : values) sum += is_streamed(k) ? 0 : registers_of(p_, k);
    return sum;
  }

  std::set<int> behind_operands(int k) {
    std::set<int> all;
    loop::for_each_use(p_.step(k), [&](size_t u) {
      if (!p_.varies[u] || p_.body.steps[u].step == Step::Reduce) return;
      const std::set<int>& of_one = behind(static_cast<int>(u));
      all.insert(of_one.begin(), of_one.end());
    });
    return all;
  }

  // The values to keep so that this one can be computed: itself, or what takes no more registers.
  const std::set<int>& behind(int k) {
    std::optional<std::set<int>>& known = known_[static_cast<size_t>(k)];
    if (!known) {
      std::set<int> found = is_heavy(p_.step(k)) ? std::set<int>{k} : behind_operands(k);
      if (registers(found) > registers_of(p_, k)) found = {k};
      known = std::move(found);
    }
    return *known;
  }

  const CudaPlan& p_;
  std::vector<std::optional<std::set<int>>> known_;
};

}  // namespace

// The sum of exp(x - m) that step k is.
static std::optional<OnlineSum> sum_of_powers(const CudaPlan& p, int k) {
  const Statement& s = p.step(k);
  if (s.step != Step::Reduce || s.reduction != Reduction::Sum || s.dtype != DType::F32) return std::nullopt;
  const Statement& exp = p.step(s.args[0]);
  if (exp.step != Step::Scalar || exp.op != ScalarOp::Exp) return std::nullopt;
  const Statement& sub = p.step(exp.args[0]);
  if (sub.step != Step::Scalar || sub.op != ScalarOp::Sub) return std::nullopt;
  const Statement& max = p.step(sub.args[1]);
  if (max.step != Step::Reduce || max.reduction != Reduction::Max || max.args[0] != sub.args[0] || max.dtype != DType::F32)
    return std::nullopt;
  return OnlineSum{sub.args[1], k, sub.args[0]};
}

void find_powers(CudaPlan& p) {
  std::map<int, int> uses;
  for (auto& s : p.body.steps) loop::for_each_use(s, [&](size_t u) { ++uses[static_cast<int>(u)]; });
  for (int k = 0; k < static_cast<int>(p.body.steps.size()); ++k)
    if (sum_of_powers(p, k) && uses[p.step(k).args[0]] == 1) p.powers.push_back(p.step(k).args[0]);
}

void find_online(CudaPlan& p) {
  p.online.clear();
  for (size_t k = 0; k < p.body.steps.size(); ++k)
    if (const auto sum = sum_of_powers(p, static_cast<int>(k)); sum && !p.online_max(sum->max)) p.online.push_back(*sum);
  p.moments = loop::find_moments(p.domain, p.body);
  std::map<int, int> with;
  for (auto& o : p.online) with[o.sum] = o.max;
  for (auto& m : p.moments) with[m.squares] = m.sum;
  p.pass = loop::pass_of(p.body, with);
}

void plan_passes(CudaPlan& p, Keep keep) {
  p.keeps.clear();
  assign_work(p.passes, p.body, p.pass, p.varies);
  Sources sources(p);
  std::set<int> computed(p.early.begin(), p.early.end()), kept;
  computed.insert(p.early_constants.begin(), p.early_constants.end());
  for (CudaPass& pass : p.passes) {
    std::set<int> steps, reads;
    std::vector<int> work;
    auto need = [&](int k) {
      if (!p.varies[static_cast<size_t>(k)] || p.step(k).step == Step::Reduce || steps.count(k) || reads.count(k)) return;
      if (keep != Keep::Nothing && computed.count(k) && (keep == Keep::All || sources.is_kept(k))) {
        reads.insert(k);
        kept.insert(k);
      } else {
        steps.insert(k);
        work.push_back(k);
      }
    };
    auto need_operands = [&](int k) { loop::for_each_use(p.step(k), [&](size_t u) { need(static_cast<int>(u)); }); };
    for (int k : pass.reduces) {
      const OnlineSum* online = p.online_sum(k);
      const loop::Moments* moments = p.moments_squares(k);
      online ? need(online->x) : moments ? need(moments->x) : need_operands(k);
    }
    for (int k : pass.stores) need_operands(k);
    for (int k : pass.checks) need(k);
    while (!work.empty()) {
      const int k = work.back();
      work.pop_back();
      need_operands(k);
    }
    pass.steps.assign(steps.begin(), steps.end());
    pass.reads.assign(reads.begin(), reads.end());
    computed.insert(steps.begin(), steps.end());
  }
  p.keeps.assign(kept.begin(), kept.end());
}

bool has_one_pass(const CudaPlan& p) {
  return std::count_if(p.passes.begin(), p.passes.end(), [](const CudaPass& pass) { return !pass.empty(); }) == 1;
}

}  // namespace toroid::codegen
