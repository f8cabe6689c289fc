#include "front/settings.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "base/check.h"
#include "front/eager.h"
#include "front/given_options.h"
#include "ops/call_place.h"
#include "tensor/tensor_impl.h"

namespace toroid {
namespace front {
namespace {

struct MarkTable {
  std::mutex mutex;
  struct Row {
    std::weak_ptr<TensorImpl> tensor;
    std::vector<Mark> dims;
  };
  std::unordered_map<const TensorImpl*, Row> rows;
};
MarkTable& mark_table() {
  static MarkTable& t = *new MarkTable;
  return t;
}

void mark(const Tensor& t, std::optional<int64_t> dim, Mark m) {
  TOROID_USER_CHECK(t.defined() && !is_proxy(t), "only ordinary tensors can be marked dynamic or static");
  int64_t rank = t.dim();
  if (dim) {
    TOROID_USER_CHECK(*dim >= -rank && *dim < rank, "dimension {} is out of range for a tensor of {} dimensions", *dim, rank);
    if (*dim < 0) *dim += rank;
  }
  MarkTable& table = mark_table();
  std::lock_guard lock(table.mutex);
  std::erase_if(table.rows, [](auto& r) { return r.second.tensor.expired(); });
  auto& row = table.rows[t.impl()];
  row.tensor = t.shared_impl();
  row.dims.resize(static_cast<size_t>(rank));
  for (int64_t d = 0; d < rank; ++d)
    if (!dim || *dim == d) row.dims[static_cast<size_t>(d)] = m;
}

std::atomic<Stance> stance{Stance::Default};
std::atomic<uint64_t> resets{0};

}  // namespace

Settings read_settings(const CompileConfig& config) {
  Settings s;
  s.own = given_options({{"mode", std::string(name_of(config.mode)), std::string(name_of(Mode::Default))}}, config.options);
  const CompileOptions options = CompileOptions::of_process().with(s.own);
  s.fail_on_recompile_limit = options.get(options::kFailOnRecompileLimit);
  s.verify_trace = options.get(options::kVerifyTrace);
  s.backend = find_backend(options.get(options::kBackend));
  return s;
}

std::shared_ptr<const OptionsNow> options_now(const Settings& settings) {
  auto now = std::make_shared<OptionsNow>();
  now->version = options_version();  // before the values: where others follow, they are read again at the next call
  now->options = CompileOptions::of_process().with(settings.own);
  now->key = number_of_key(now->options);
  return now;
}

std::vector<Mark> marks_of(const Tensor& t) {
  MarkTable& table = mark_table();
  std::lock_guard lock(table.mutex);
  auto it = table.rows.find(t.impl());
  if (it == table.rows.end() || it->second.tensor.lock().get() != t.impl()) return {};
  return it->second.dims;
}

Stance current_stance() { return stance.load(std::memory_order_relaxed); }
uint64_t reset_count() { return resets.load(std::memory_order_acquire); }

}  // namespace front

std::vector<std::pair<std::string, std::string>> compile_options() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionInfo& row : list_options())
    if (row.scope != "process") out.emplace_back(row.name, row.doc);
  return out;
}

void mark_dynamic(const Tensor& t, int64_t dim, int64_t min, int64_t max, Tensor::Where where) {
  ops::at_place(where, [&] {
    TOROID_USER_CHECK(min >= 0 && min <= max, "mark_dynamic: the range {}..{} {}", min, max, min < 0 ? "begins below 0" : "is empty");
    TOROID_USER_CHECK(
        max >= 2, "mark_dynamic: the range {}..{} ends below 2; a dimension that is at most 1 is no open one, leave it unmarked", min, max);
    const int64_t top = max >= int64_t{1} << 60 ? sym::kInf - 1 : max;
    front::mark(t, dim, {front::Mark::kDynamic, min, top});
  });
}

void mark_static(const Tensor& t, std::optional<int64_t> dim, Tensor::Where where) {
  ops::at_place(where, [&] { front::mark(t, dim, {front::Mark::kStatic, 2, 0}); });
}

Stance set_stance(Stance s) { return front::stance.exchange(s); }

void reset() {
  front::resets.fetch_add(1);
  front::EagerDispatcher::instance().reset();
}

}  // namespace toroid
