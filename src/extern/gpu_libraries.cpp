#include "extern/gpu_libraries.h"

#include "extern/cublaslt/cublaslt.h"
#include "extern/cudnn/cudnn.h"
#include "toroid/error.h"

namespace toroid::external {

std::string gpu_libraries() {
  std::string out;
  for (auto version : {cublaslt_version, cudnn_version}) try {
      out += (out.empty() ? "" : ", ") + version();
    } catch (const EnvironmentError&) {
      out += out.empty() ? "none" : ", none";
    }
  return out;
}

}  // namespace toroid::external
