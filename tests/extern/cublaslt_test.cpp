// cuBLASLt behind the signature of library calls, where there is a GPU and the library.
#include "extern/cublaslt/cublaslt.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/scalar.h"
#include "toroid/device.h"
#include "toroid/error.h"

namespace toroid::external {
namespace {

class CublasLt : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    try {
      cublaslt_version();
    } catch (const EnvironmentError& e) {
      GTEST_SKIP() << e.what();
    }
  }

  // Runs a problem on small whole numbers, whose sums are exact, recorded and replayed where asked; true when all elements are right.
  static bool is_right(const CublasLtProblem& p, bool recorded) {
    device::cuda::Gpu& gpu = device::cuda::gpu(0);
    const auto calls = prepare_cublaslt(p, gpu, 3);
    EXPECT_FALSE(calls.empty());
    const int64_t numel[] = {p.batch * p.m * p.k, p.batch * p.k * p.n, p.batch * p.m * p.n, p.batch * p.m * p.n, p.n};
    std::vector<std::vector<std::byte>> host;
    std::vector<std::shared_ptr<void>> memory;
    for (int b = 0; b < 5; ++b) {
      const DType t = b < 2 ? p.dtype : p.out_dtype;
      host.emplace_back(static_cast<size_t>(numel[b]) * size_of(t));
      for (int64_t i = 0; i < numel[b]; ++i)
        store_number(host.back().data() + static_cast<size_t>(i) * size_of(t), t, Number::of(static_cast<double>((i * 7 + b) % 5 - 2)));
      memory.push_back(gpu.allocate(host.back().size()));
      gpu.copy_in(memory.back().get(), host.back().data(), host.back().size());
    }
    std::vector<void*> buffers = {memory[0].get(), memory[1].get(), memory[2].get()};
    if (p.has_addend) buffers.push_back(memory[3].get());
    if (p.has_bias) buffers.push_back(memory[4].get());
    bool right = true;
    for (auto& call : calls) {
      auto scratch = gpu.allocate(static_cast<size_t>(call->scratch_bytes()) + 1);
      const auto run = [&] { call->run(buffers.data(), scratch.get()); };
      if (recorded)
        gpu.launch(*gpu.record(run));
      else
        run();
      gpu.copy_out(host[2].data(), memory[2].get(), host[2].size());
      const auto at = [&](size_t b, int64_t i) {
        const DType t = b < 2 ? p.dtype : p.out_dtype;
        return load_number(host[b].data() + static_cast<size_t>(i) * size_of(t), t).as_double();
      };
      for (int64_t i = 0; i < p.batch; ++i)
        for (int64_t m = 0; m < p.m; ++m)
          for (int64_t n = 0; n < p.n; ++n) {
            double want = p.has_bias ? at(4, n) : 0;
            if (p.has_addend) want += at(3, i * p.addend.batch + m * p.addend.row + n);
            for (int64_t k = 0; k < p.k; ++k)
              want += at(0, i * p.a.batch + m * p.a.row + k * p.a.column) * at(1, i * p.b.batch + k * p.b.row + n * p.b.column);
            if (p.activation == CublasLtActivation::Relu) want = std::max(want, 0.0);
            right = right && at(2, i * p.out.batch + m * p.out.row + n) == want;
          }
    }
    return right;
  }

  static CublasLtProblem problem(DType t, int64_t m, int64_t n, int64_t k, int64_t batch, bool a_transposed, bool b_transposed) {
    CublasLtProblem p;
    p.dtype = p.out_dtype = t;
    p.m = m, p.n = n, p.k = k, p.batch = batch;
    p.a = a_transposed ? CublasLtProblem::Matrix{0, 1, m, m * k} : CublasLtProblem::Matrix{0, k, 1, m * k};
    p.b = b_transposed ? CublasLtProblem::Matrix{0, 1, k, k * n} : CublasLtProblem::Matrix{0, n, 1, k * n};
    p.out = p.addend = {0, n, 1, m * n};
    return p;
  }
};

TEST_F(CublasLt, LayoutsAndTypes) {
  for (DType t : {DType::BF16, DType::F16, DType::F32, DType::F64})
    for (bool a : {false, true})
      for (bool b : {false, true}) EXPECT_TRUE(is_right(problem(t, 24, 40, 16, 3, a, b), a)) << name_of(t) << a << b;
}

TEST_F(CublasLt, Epilogues) {
  CublasLtProblem p = problem(DType::BF16, 32, 64, 48, 1, false, true);
  p.has_bias = true, p.activation = CublasLtActivation::Relu;
  EXPECT_TRUE(is_right(p, false));
  p.activation = CublasLtActivation::None, p.has_addend = true;
  EXPECT_TRUE(is_right(p, true));
}

}  // namespace
}  // namespace toroid::external
