// Stands for extern/onednn/ in builds that did not find the headers of oneDNN.
#include "base/check.h"
#include "extern/onednn/onednn.h"

namespace toroid::external {
namespace {

[[noreturn]] void absent() {
  fail<EnvironmentError>(
      "this build of Toroid knows no oneDNN: the headers of oneDNN 2 were missing; install them (Debian: apt-get install libdnnl-dev) and "
      "build again, or take onednn out of the options gemm_backends and conv_backends");
}

}  // namespace

std::string onednn_version() { absent(); }
std::string onednn_refusal(const OneDnnProblem&) { absent(); }
std::shared_ptr<const LibraryCall> prepare_onednn(const OneDnnProblem&, const void*) { absent(); }

}  // namespace toroid::external
