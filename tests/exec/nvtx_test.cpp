// The ranges that tools see: this test is the tool, linked in as NVTX allows.
#include "device/cuda/nvtx.h"

#include <gtest/gtest.h>

#include "base/options.h"
#include "exec/plans.h"
#include "exec/run/executable.h"
#include "toroid/error.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#define NVTX_STATIC_INJECTION_IMPL
#include <cstdint>
extern "C" {
extern int (*InitializeInjectionNvtx2_fnptr)(const void* (*tables)(uint32_t));
}
#include <nvtx3/nvToolsExt.h>
#endif

namespace toroid::exec {
namespace {

Tensor zeros(int64_t n) { return Tensor::full(std::vector<int64_t>{n}, 0, DType::F32); }

TEST(Nvtx, IsAnErrorWhereTheBuildHasNone) {
  if (device::cuda::has_nvtx()) GTEST_SKIP() << "NVTX is in this build";
  const ScopedOption on("nvtx", "1");
  EXPECT_THROW(Runnable(chain(2, false)), EnvironmentError);
}

#if __has_include(<nvtx3/nvToolsExt.h>)
struct Tool {
  std::vector<std::string> names;   // of strings that were registered
  std::vector<std::string> events;  // "(name" and ")"
};
Tool& tool() {
  static Tool& the = *new Tool;
  return the;
}

int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  tool().events.push_back("(" + tool().names.at(reinterpret_cast<size_t>(event->message.registered) - 1));
  return 0;
}
int pop(nvtxDomainHandle_t) {
  tool().events.emplace_back(")");
  return 0;
}
nvtxStringHandle_t name(nvtxDomainHandle_t, const char* text) {
  tool().names.emplace_back(text);
  return reinterpret_cast<nvtxStringHandle_t>(tool().names.size());
}

int attach(NvtxGetExportTableFunc_t tables) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size)) return 0;
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  *functions[NVTX_CBID_CORE2_DomainRegisterStringA] = reinterpret_cast<NvtxFunctionPointer>(name);
  return 1;
}

std::vector<std::string> events_of(Executable& e) {
  tool().events.clear();
  e.run(std::vector<Tensor>{zeros(40)});
  return tool().events;
}

TEST(Nvtx, CallsStepsAndReplaysHaveNames) {
  Runnable silent(chain(2, false));
  EXPECT_TRUE(events_of(silent).empty());
  const ScopedOption on("nvtx", "1");
  Runnable plain(chain(2, false)), recorded(chain(2, true));
  const std::vector<std::string> steps = {"(chain", "(add_one", ")", "(add_one", ")", ")"};
  EXPECT_EQ(events_of(plain), steps);
  EXPECT_TRUE(events_of(silent).empty());
  EXPECT_EQ(events_of(recorded), steps);  // warms up
  events_of(recorded);
  EXPECT_EQ(events_of(recorded), (std::vector<std::string>{"(chain", "(chain: replay", ")", ")"}));
  Plan late = chain(2, false);  // with a size that only the run determines
  late.symbols.emplace_back(sym::symbol("u0", 0, 9), true);
  Runnable dynamic(late);
  EXPECT_EQ(events_of(dynamic), steps);
}
#endif

}  // namespace
}  // namespace toroid::exec

#if __has_include(<nvtx3/nvToolsExt.h>)
extern "C" {
int (*InitializeInjectionNvtx2_fnptr)(const void* (*tables)(uint32_t)) = toroid::exec::attach;
}
#endif
