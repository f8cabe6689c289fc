#include "front/remembered_sizes.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>

#include "base/check.h"
#include "base/files.h"
#include "base/options.h"
#include "jit/artefact_cache.h"

namespace toroid::front {
namespace {

constexpr std::string_view kHeader = "toroid sizes 1\n";

size_t rank_of(const Tensor& t) { return t.defined() ? t.sizes().size() : 0; }

}  // namespace

std::optional<Hash128> sizes_key(const std::string& name, const Call& c) {
  Dl_info where;
  if (!get_option(options::kCachePrograms) || ::dladdr(reinterpret_cast<const void*>(c.body), &where) == 0 || !where.dli_fname)
    return std::nullopt;
  // A program is named as it was called, perhaps from another folder.
  FileStamp file;
  try {
    file = stamp_of(*where.dli_fname == '/' ? where.dli_fname : "/proc/self/exe");
  } catch (const Error&) {
    return std::nullopt;  // removed since it was loaded
  }
  Hasher h;
  h.add(kHeader).add(name).add(file.bytes).add(file.time_ns).add(file.inode);
  h.add(reinterpret_cast<uintptr_t>(c.body) - reinterpret_cast<uintptr_t>(where.dli_fbase)).add(c.tensors.size());
  for (const Tensor* t : c.tensors) h.add(rank_of(*t)).add(t->defined() ? static_cast<int64_t>(t->dtype()) : -1);
  return h.finish();
}

OpenSizes recall_sizes(const Hash128& key, const Call& c) {
  OpenSizes out;
  for (const Tensor* t : c.tensors) out.emplace_back(rank_of(*t), false);
  const auto cache = jit::shared_cache();
  const auto text = cache ? cache->load_sizes(key) : std::nullopt;
  if (!text || !text->starts_with(kHeader)) return out;
  const char *at = text->data() + kHeader.size(), *const end = text->data() + text->size();
  const auto number = [&](char stop) {
    size_t n = SIZE_MAX;
    const auto [behind, error] = std::from_chars(at, end, n);
    if (error != std::errc() || behind == end || *behind != stop) return SIZE_MAX;
    at = behind + 1;
    return n;
  };
  while (at != end) {
    const size_t tensor = number(' '), dim = number('\n');
    if (tensor >= out.size() || dim >= out[tensor].size()) break;  // damaged, or of another function
    out[tensor][dim] = true;
  }
  return out;
}

void remember_sizes(const Hash128& key, const OpenSizes& open) {
  const auto cache = jit::shared_cache();
  if (!cache) return;
  std::string text(kHeader);
  for (size_t i = 0; i < open.size(); ++i)
    for (size_t d = 0; d < open[i].size(); ++d)
      if (open[i][d]) text += fmt::format("{} {}\n", i, d);
  cache->store_sizes(key, text);
}

}  // namespace toroid::front
