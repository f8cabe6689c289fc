#include "compile/disabled_passes.h"

#include <set>

#include "backend/backend.h"
#include "base/check.h"
#include "base/text.h"
#include "graph/pass.h"

namespace toroid::compiler {

void check_disabled_passes(const CompileOptions& options) {
  const std::string listed = options.get(options::kDisablePasses);
  if (listed.empty()) return;
  std::set<std::string_view> known;
  for (auto& row : graph::all_passes()) known.insert(row.name);
  for (auto& table : backend::pass_tables())
    for (auto& pass : table.passes) known.insert(pass.name);
  const std::vector<std::string_view> names(known.begin(), known.end());
  for (auto name : split_list(listed))
    TOROID_USER_CHECK(known.count(name) > 0, "the option disable_passes names \"{}\", and there is no pass of that name{}", name,
                      did_you_mean(name, names));
}

}  // namespace toroid::compiler
