#include "compile/settings.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "base/check.h"
#include "base/options.h"
#include "base/text.h"
#include "compile/eager.h"
#include "tensor/tensor_impl.h"

namespace toroid {
namespace front {
namespace {

struct Row {
  std::string_view name, doc;
};
constexpr Row kRows[] = {
    {"backend", "\"compiled\", or \"reference\": the traced graph is run by the reference evaluator."},
    {"freezing", "Tensors that the function captures become constants: folded and packed. Later changes of them are not seen."},
    {"templates", "GEMM, convolution and attention by templates; otherwise as plain loops."},
    {"fusion", "Join operations into one kernel."},
    {"threads", "At most so many threads run the function's kernels on the CPU; 0: as many as the process uses."},
    {"fail_on_recompile_limit", "Reaching recompile_limit is a UserError; otherwise calls run eagerly from there on."},
    {"verify_trace", "Trace again at every call, and throw a UserError when the function takes another path than the compiled one."},
};

bool truth(const std::string& name, const std::string& value) {
  for (auto yes : {"1", "true", "on", "yes"})
    if (value == yes) return true;
  for (auto no : {"0", "false", "off", "no"})
    if (value == no) return false;
  fail<UserError>("compile option {}: \"{}\" is not a truth value; expected 1/true/on/yes or 0/false/off/no", name, value);
}

int threads_from(const std::string& value) {
  check_option("threads", value);
  return std::stoi(value);
}

std::shared_mutex& options_mutex() {
  static std::shared_mutex m;
  return m;
}

class ScopedOptions {
 public:
  explicit ScopedOptions(const std::vector<std::pair<std::string, std::string>>& values) {
    for (auto& [name, value] : values) set_.push_back(std::make_unique<ScopedOption>(name, value));
  }
  ~ScopedOptions() {
    while (!set_.empty()) set_.pop_back();
  }
  ScopedOptions(const ScopedOptions&) = delete;

 private:
  std::vector<std::unique_ptr<ScopedOption>> set_;
};

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
  s.backend_options.mode = config.mode;
  std::string backend = "compiled";
  auto process = list_options();
  for (auto& [name, value] : config.options) {
    if (name == "backend")
      backend = value;
    else if (name == "freezing")
      s.backend_options.freezing = truth(name, value);
    else if (name == "templates")
      s.backend_options.templates = truth(name, value);
    else if (name == "fusion")
      s.backend_options.fuse = truth(name, value);
    else if (name == "threads")
      s.backend_options.threads = threads_from(value);
    else if (name == "fail_on_recompile_limit")
      s.fail_on_recompile_limit = truth(name, value);
    else if (name == "verify_trace")
      s.verify_trace = truth(name, value);
    else {
      std::vector<std::string_view> names;
      bool known = false;
      for (auto& row : kRows) names.push_back(row.name);
      for (auto& row : process) {
        names.push_back(row.name);
        known = known || row.name == name;
      }
      TOROID_USER_CHECK(known, "compile: there is no option \"{}\"{}", name, did_you_mean(name, names));
      s.base.emplace_back(name, value);
    }
  }
  if (!s.base.empty()) {  // a bad value is an error now, not at the first call
    std::unique_lock lock(options_mutex());
    ScopedOptions probe(s.base);
    if (config.options.count("recompile_limit")) s.recompile_limit = get_option(options::kRecompileLimit);
  }
  s.backend = find_backend(backend);
  return s;
}

Program with_base_options(const Settings& settings, const std::function<Program()>& f) {
  if (settings.base.empty()) {
    std::shared_lock lock(options_mutex());
    return f();
  }
  std::unique_lock lock(options_mutex());
  ScopedOptions values(settings.base);
  return f();
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
  for (auto& row : front::kRows) out.emplace_back(row.name, row.doc);
  return out;
}

void mark_dynamic(const Tensor& t, int64_t dim, int64_t min, int64_t max) {
  TOROID_USER_CHECK(min >= 0 && min <= max && max >= 2,
                    "mark_dynamic: the range {}..{} is empty or below 2; sizes 0 and 1 get code of their own", min, max);
  int64_t top = max >= int64_t{1} << 60 ? sym::kInf - 1 : max;
  front::mark(t, dim, {front::Mark::kDynamic, std::max<int64_t>(min, 2), top});
}

void mark_static(const Tensor& t, std::optional<int64_t> dim) { front::mark(t, dim, {front::Mark::kStatic, 2, 0}); }

Stance set_stance(Stance s) { return front::stance.exchange(s); }

void reset() {
  front::resets.fetch_add(1);
  front::EagerDispatcher::instance().reset();
}

}  // namespace toroid
