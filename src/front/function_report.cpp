// The texts of what compiled functions report.
#include "base/check.h"
#include "toroid/compile.h"

namespace toroid {
namespace {

void append_list(std::string& out, const char* title, const std::vector<std::string>& list) {
  for (auto& line : list) out += fmt::format("{}: {}\n", title, line);
}

}  // namespace

std::string to_string(const CompileReport& r) {
  std::string out =
      fmt::format("calls {}, compiles {}, cache hits {}, rebinds {}, variants {}, eager calls {} ({} by the recompile limit)\n", r.calls,
                  r.compiles, r.cache_hits, r.rebinds, r.entries, r.eager_calls, r.limit_calls);
  append_list(out, "recompile", r.recompile_reasons);
  append_list(out, "graph break", r.graph_breaks);
  append_list(out, "eager", r.fallbacks);
  append_list(out, "guard", r.guards);
  append_list(out, "saved", r.saved);
  append_list(out, "tuning", r.tuning);
  append_list(out, "hint", r.hints);
  return out;
}

std::string to_string(const Explanation& e) {
  std::string out = fmt::format("graphs {}, operations {}, graph breaks {}\n", e.graph_count, e.operation_count, e.breaks.size());
  append_list(out, "graph break", e.breaks);
  append_list(out, "guard", e.guards);
  append_list(out, "saved", e.saved);
  for (auto& g : e.graphs) out += g + "\n";
  return out;
}

}  // namespace toroid
