#include "extern/cublaslt/cublaslt.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "extern/cublaslt/symbols.h"

namespace toroid::external {
namespace {

using namespace cublaslt;

constexpr size_t kMostWorkspace = size_t{32} << 20;  // what the library's documentation advises for Hopper

// A handle of the library, and the function that frees it.
template <class T>
class Owned {
 public:
  explicit Owned(cublasStatus_t (*destroy)(T)) : destroy_(destroy) {}
  Owned(Owned&& o) noexcept : value_(std::exchange(o.value_, nullptr)), destroy_(o.destroy_) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (value_) destroy_(value_);
  }
  T get() const { return value_; }
  T* out() { return &value_; }

 private:
  T value_ = nullptr;
  cublasStatus_t (*destroy_)(T);
};

int type_of(DType t) {
  switch (t) {
    case DType::F32:
      return CUDA_R_32F;
    case DType::F64:
      return CUDA_R_64F;
    case DType::F16:
      return CUDA_R_16F;
    case DType::BF16:
      return CUDA_R_16BF;
    default:
      fail<InternalError>("cuBLASLt multiplies no {}", name_of(t));
  }
}

// The library's context of a GPU, made once and kept.
cublasLtHandle_t context(const Library& lib, device::cuda::Gpu& gpu) {
  static std::mutex mutex;
  static auto& contexts = *new std::map<device::cuda::Gpu*, cublasLtHandle_t>;
  std::lock_guard lock(mutex);
  cublasLtHandle_t& c = contexts[&gpu];
  gpu.use();
  if (!c) lib.check(lib.create(&c), "opening the GPU");
  return c;
}

// A problem as the library sees it. Its matrices are stored by columns, so it computes the transposed product: out' = b' a'.
class Prepared {
 public:
  Prepared(const CublasLtProblem& p, device::cuda::Gpu& gpu)
      : p_(p), lib_(library()), gpu_(gpu), context_(context(lib_, gpu)), desc_(lib_.destroy_desc) {
    const bool is_double = p.dtype == DType::F64;
    const int compute = is_double ? CUBLAS_COMPUTE_64F : p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    lib_.check(lib_.create_desc(desc_.out(), compute, is_double ? CUDA_R_64F : CUDA_R_32F), "describing a product");
    constexpr int32_t kTransposed = 1;
    if (p.b.column != 1) set(CUBLASLT_MATMUL_DESC_TRANSA, kTransposed);
    if (p.a.column != 1) set(CUBLASLT_MATMUL_DESC_TRANSB, kTransposed);
    uint32_t epilogue = 0;
    if (p.activation == CublasLtActivation::Relu) epilogue = CUBLASLT_EPILOGUE_RELU;
    if (p.activation == CublasLtActivation::GeluTanh) epilogue = CUBLASLT_EPILOGUE_GELU;
    if (p.has_bias) {
      epilogue |= CUBLASLT_EPILOGUE_BIAS;
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(type_of(p.out_dtype)));
    }
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue == 0 ? uint32_t{CUBLASLT_EPILOGUE_DEFAULT} : epilogue);
    const auto m = static_cast<uint64_t>(p.m), n = static_cast<uint64_t>(p.n), k = static_cast<uint64_t>(p.k);
    b_ = layout(p.b, p.dtype, k, n), a_ = layout(p.a, p.dtype, m, k), out_ = layout(p.out, p.out_dtype, m, n);
    addend_ = layout(p.has_addend ? p.addend : p.out, p.out_dtype, m, n);
  }

  std::vector<cublasLtMatmulHeuristicResult_t> algorithms(int most) {
    Owned<cublasLtMatmulPreference_t> preference(lib_.destroy_preference);
    lib_.check(lib_.create_preference(preference.out()), "describing a search");
    lib_.check(lib_.set_preference(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kMostWorkspace, sizeof kMostWorkspace),
               "describing a search");
    // The library's a and b are b and a here.
    const std::tuple<int, int64_t, DType> operands[] = {
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p_.b.offset, p_.dtype},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p_.a.offset, p_.dtype},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p_.has_addend ? p_.addend.offset : p_.out.offset, p_.out_dtype},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p_.out.offset, p_.out_dtype}};
    for (auto& [attribute, offset, t] : operands) {
      const auto bytes = static_cast<uint32_t>(std::gcd(kCublasLtAlignment, offset * static_cast<int64_t>(size_of(t))));
      lib_.check(lib_.set_preference(preference.get(), attribute, &bytes, sizeof bytes), "describing a search");
    }
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
    int count = 0;
    // A problem that it does not take is no error here.
    if (lib_.heuristic(context_, desc_.get(), b_->get(), a_->get(), addend_->get(), out_->get(), preference.get(), most, found.data(),
                       &count) != 0)
      count = 0;
    found.resize(static_cast<size_t>(count));
    std::erase_if(found, [](auto& f) { return f.state != 0; });
    return found;
  }

  // On memory of its own, and waits for it.
  void try_out(const cublasLtMatmulHeuristicResult_t& how) const {
    const auto bytes = [&](const CublasLtProblem::Matrix& x, int64_t rows, int64_t columns, DType t) {
      const int64_t last = x.offset + (rows - 1) * x.row + (columns - 1) * x.column + (p_.batch - 1) * x.batch;
      return (last + 1) * static_cast<int64_t>(size_of(t));
    };
    const auto& p = p_;
    std::vector<int64_t> sizes = {bytes(p.a, p.m, p.k, p.dtype), bytes(p.b, p.k, p.n, p.dtype), bytes(p.out, p.m, p.n, p.out_dtype)};
    if (p.has_addend) sizes.push_back(bytes(p.addend, p.m, p.n, p.out_dtype));
    if (p.has_bias) sizes.push_back((p.bias_offset + p.n) * static_cast<int64_t>(size_of(p.out_dtype)));
    sizes.push_back(static_cast<int64_t>(how.workspaceSize) + 1);
    std::vector<std::shared_ptr<void>> memory;
    std::vector<void*> buffers;
    for (const int64_t size : sizes) {
      buffers.push_back(memory.emplace_back(gpu_.allocate(static_cast<size_t>(size))).get());
      gpu_.fill_zero(buffers.back(), static_cast<size_t>(size));
    }
    run(how, buffers.data(), buffers.back());
    gpu_.synchronize(gpu_.stream());
  }

  void run(const cublasLtMatmulHeuristicResult_t& how, void* const* buffers, void* scratch) const {
    auto at = [&](int i, int64_t offset, DType t) { return static_cast<char*>(buffers[i]) + offset * static_cast<int64_t>(size_of(t)); };
    const DType t = p_.dtype, to = p_.out_dtype;
    void* out = at(2, p_.out.offset, to);
    const void* addend = p_.has_addend ? at(3, p_.addend.offset, to) : out;
    const float one = 1, zero = 0;
    const double one64 = 1, zero64 = 0;
    const bool is_double = t == DType::F64;
    const void* alpha = is_double ? static_cast<const void*>(&one64) : &one;
    const void* none = is_double ? static_cast<const void*>(&zero64) : &zero;
    gpu_.use();
    std::lock_guard lock(mutex_);
    if (p_.has_bias) {
      const void* bias = at(p_.has_addend ? 4 : 3, p_.bias_offset, to);
      lib_.check(lib_.set_desc(desc_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), "describing a product");
    }
    lib_.check(lib_.matmul(context_, desc_.get(), alpha, at(1, p_.b.offset, t), b_->get(), at(0, p_.a.offset, t), a_->get(),
                           p_.has_addend ? alpha : none, addend, addend_->get(), out, out_->get(), &how.algo, scratch, how.workspaceSize,
                           gpu_.stream()),
               "a product");
  }

 private:
  using Layout = Owned<cublasLtMatrixLayout_t>;

  template <class T>
  void set(int attribute, T value) {
    lib_.check(lib_.set_desc(desc_.get(), attribute, &value, sizeof value), "describing a product");
  }

  // Of a matrix of `rows` x `columns`, whose rows or columns are the library's columns.
  std::unique_ptr<Layout> layout(const CublasLtProblem::Matrix& x, DType t, uint64_t rows, uint64_t columns) {
    auto out = std::make_unique<Layout>(lib_.destroy_layout);
    const bool by_rows = x.column == 1;
    const int64_t apart = std::max<int64_t>(by_rows ? x.row : x.column, static_cast<int64_t>(by_rows ? columns : rows));
    lib_.check(lib_.create_layout(out->out(), type_of(t), by_rows ? columns : rows, by_rows ? rows : columns, apart),
               "describing a matrix");
    if (p_.batch > 1) {
      const auto count = static_cast<int32_t>(p_.batch);
      lib_.check(lib_.set_layout(out->get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "describing a matrix");
      lib_.check(lib_.set_layout(out->get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x.batch, sizeof x.batch), "describing a matrix");
    }
    return out;
  }

  CublasLtProblem p_;
  const Library& lib_;
  device::cuda::Gpu& gpu_;
  cublasLtHandle_t context_;
  Owned<cublasLtMatmulDesc_t> desc_;
  std::unique_ptr<Layout> a_, b_, out_, addend_;
  mutable std::mutex mutex_;  // of desc_, which holds the bias of the call
};

class Call : public LibraryCall {
 public:
  Call(std::shared_ptr<const Prepared> prepared, const cublasLtMatmulHeuristicResult_t& how) : prepared_(std::move(prepared)), how_(how) {}
  int64_t scratch_bytes() const override { return static_cast<int64_t>(how_.workspaceSize); }
  void run(void* const* buffers, void* scratch) const override { prepared_->run(how_, buffers, scratch); }
  void load() const override { prepared_->try_out(how_); }

 private:
  std::shared_ptr<const Prepared> prepared_;
  cublasLtMatmulHeuristicResult_t how_;
};

}  // namespace

std::string cublaslt_version() {
  const size_t v = library().version();
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::vector<std::shared_ptr<const LibraryCall>> prepare_cublaslt(const CublasLtProblem& problem, device::cuda::Gpu& gpu, int most) {
  auto prepared = std::make_shared<Prepared>(problem, gpu);
  std::vector<std::shared_ptr<const LibraryCall>> calls;
  for (auto& how : prepared->algorithms(most)) calls.push_back(std::make_shared<Call>(prepared, how));
  return calls;
}

}  // namespace toroid::external
