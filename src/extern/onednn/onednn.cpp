#include "extern/onednn/onednn.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "base/thread_pool.h"
#include "extern/onednn/symbols.h"

namespace toroid::external {
namespace {

void check(const DnnlLibrary& lib, dnnl_status_t status, const char* what) {
  if (status != dnnl_success) fail<EnvironmentError>("oneDNN {}: {} failed: {}", lib.version, what, lib.dnnl_status2str(status));
}

// A handle of the library, and the function that frees it.
template <class T>
class Owned {
 public:
  using Destroy = dnnl_status_t (*)(T);
  explicit Owned(Destroy destroy) : destroy_(destroy) {}
  Owned(Owned&& o) noexcept : value_(std::exchange(o.value_, nullptr)), destroy_(o.destroy_) {}
  Owned& operator=(Owned&& o) noexcept {
    std::swap(value_, o.value_);
    std::swap(destroy_, o.destroy_);
    return *this;
  }
  ~Owned() {
    if (value_) destroy_(value_);
  }
  T get() const { return value_; }
  T* out() { return &value_; }

 private:
  T value_ = nullptr;
  Destroy destroy_;
};

// Gives the calling thread's OpenMP regions as many threads as Toroid's pool has, for the life of this object. (The library plans for them
// when it prepares a call: a program's own limit, and what other callers leave, are not known to it.)
class ThreadCount {
 public:
  explicit ThreadCount(const DnnlLibrary& lib) : set_(lib.omp_get_max_threads ? lib.omp_set_num_threads : nullptr) {
    if (!set_) return;
    before_ = lib.omp_get_max_threads();
    set_(ThreadPool::global().size());
  }
  ~ThreadCount() {
    if (set_) set_(before_);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  void (*set_)(int);
  int before_ = 1;
};

dnnl_data_type_t type_of(DType t) {
  switch (t) {
    case DType::F32:
      return dnnl_f32;
    case DType::F16:
      return dnnl_f16;
    case DType::BF16:
      return dnnl_bf16;
    default:
      return dnnl_data_type_undef;
  }
}

// The memory as it is, or (any) in a layout of the library's choice.
dnnl_memory_desc_t describe(const DnnlLibrary& lib, const TensorMemory& m, bool any = false) {
  dnnl_memory_desc_t d;
  int rank = static_cast<int>(m.sizes.size());
  check(lib,
        any ? lib.dnnl_memory_desc_init_by_tag(&d, rank, m.sizes.data(), type_of(m.dtype), dnnl_format_tag_any)
            : lib.dnnl_memory_desc_init_by_strides(&d, rank, m.sizes.data(), type_of(m.dtype), m.strides.data()),
        "describing a tensor");
  return d;
}

bool has_operand(const PostOp& p) { return p.kind == PostOpKind::Add || p.kind == PostOpKind::Mul; }

// The library's convolutions choose the layout of their weights, as products of constants do.
bool chooses_layout(const OneDnnProblem& p) { return p.constant_b || p.window; }

// A first addition of one f32 number a column or channel is what the library calls the bias.
bool has_bias(const OneDnnProblem& p) {
  if (p.post_ops.empty() || p.post_ops[0].kind != PostOpKind::Add) return false;
  const TensorMemory& m = p.post_ops[0].operand;
  size_t channel = p.window ? 1 : m.sizes.size() - 1;
  for (size_t d = 0; d < m.sizes.size(); ++d)
    if (m.sizes[d] != (d == channel ? p.out.sizes[d] : 1)) return false;
  return m.dtype == DType::F32 && m.strides[channel] == 1;
}

dnnl_memory_desc_t bias_of(const DnnlLibrary& lib, const OneDnnProblem& p) {
  TensorMemory m = p.post_ops[0].operand;
  if (p.window) m.sizes = {p.out.sizes[1]}, m.strides = {1};
  return describe(lib, m);
}

void append(const DnnlLibrary& lib, dnnl_post_ops_t list, const PostOp& p) {
  auto eltwise = [&](dnnl_alg_kind_t kind, float alpha = 0) { return lib.dnnl_post_ops_append_eltwise(list, 1, kind, alpha, 0); };
  auto binary = [&](dnnl_alg_kind_t kind) {
    dnnl_memory_desc_t d = describe(lib, p.operand);
    return lib.dnnl_post_ops_append_binary(list, kind, &d);
  };
  auto appended = [&] {
    switch (p.kind) {
      case PostOpKind::Add:
        return binary(dnnl_binary_add);
      case PostOpKind::Mul:
        return binary(dnnl_binary_mul);
      case PostOpKind::Relu:
        return eltwise(dnnl_eltwise_relu);
      case PostOpKind::GeluErf:
        return eltwise(dnnl_eltwise_gelu_erf);
      case PostOpKind::GeluTanh:
        return eltwise(dnnl_eltwise_gelu_tanh);
      case PostOpKind::Silu:
        return eltwise(dnnl_eltwise_swish, 1);
      case PostOpKind::Sigmoid:
        return eltwise(dnnl_eltwise_logistic);
      case PostOpKind::Tanh:
        return eltwise(dnnl_eltwise_tanh);
      case PostOpKind::HardSwish:
        return eltwise(dnnl_eltwise_hardswish);
    }
    return dnnl_invalid_arguments;
  };
  check(lib, appended(), "appending an operation");
}

using Descriptor = Owned<dnnl_primitive_desc_t>;

// The library's plan for a problem; null with a reason when it has none.
Descriptor plan(const DnnlLibrary& lib, const OneDnnProblem& p, std::string& reason) {
  Owned<dnnl_primitive_attr_t> attributes(lib.dnnl_primitive_attr_destroy);
  Owned<dnnl_post_ops_t> chain(lib.dnnl_post_ops_destroy);
  check(lib, lib.dnnl_primitive_attr_create(attributes.out()), "creating attributes");
  check(lib, lib.dnnl_primitive_attr_set_scratchpad_mode(attributes.get(), dnnl_scratchpad_mode_user), "setting the scratchpad");
  check(lib, lib.dnnl_post_ops_create(chain.out()), "creating a chain of operations");
  const bool bias = has_bias(p);
  for (size_t i = bias ? 1 : 0; i < p.post_ops.size(); ++i) append(lib, chain.get(), p.post_ops[i]);
  check(lib, lib.dnnl_primitive_attr_set_post_ops(attributes.get(), chain.get()), "setting the chain of operations");

  dnnl_memory_desc_t a = describe(lib, p.a), b = describe(lib, p.b, chooses_layout(p)), out = describe(lib, p.out), bias_desc{};
  if (bias) bias_desc = bias_of(lib, p);
  dnnl_matmul_desc_t matmul;
  dnnl_convolution_desc_t convolution;
  dnnl_status_t status;
  if (p.window) {
    dnnl_dim_t dilation[2] = {p.window->dilation[0] - 1, p.window->dilation[1] - 1};  // the library counts the gaps
    // More padding behind than in front is for strides that leave no rest; the output's size says how much.
    dnnl_dim_t behind[2];
    for (size_t d = 0; d < 2; ++d) {
      int64_t kernel = (p.b.sizes[p.b.sizes.size() - 2 + d] - 1) * p.window->dilation[d] + 1;
      behind[d] = (p.out.sizes[2 + d] - 1) * p.window->stride[d] + kernel - p.a.sizes[2 + d] - p.window->pad[d];
    }
    status = lib.dnnl_dilated_convolution_forward_desc_init(&convolution, dnnl_forward_inference, dnnl_convolution_direct, &a, &b,
                                                            bias ? &bias_desc : nullptr, &out, p.window->stride, dilation, p.window->pad,
                                                            behind);
  } else {
    status = lib.dnnl_matmul_desc_init(&matmul, &a, &b, bias ? &bias_desc : nullptr, &out);
  }
  Descriptor made(lib.dnnl_primitive_desc_destroy);
  if (status == dnnl_success)
    status = lib.dnnl_primitive_desc_create(made.out(), p.window ? static_cast<const void*>(&convolution) : &matmul, attributes.get(),
                                            lib.engine, nullptr);
  if (status != dnnl_success) {
    reason = fmt::format("oneDNN {} has no implementation of it on this processor ({})", lib.version, lib.dnnl_status2str(status));
    return Descriptor(lib.dnnl_primitive_desc_destroy);
  }
  const char* name = "";
  check(lib, lib.dnnl_primitive_desc_query(made.get(), dnnl_query_impl_info_str, 0, static_cast<void*>(&name)), "asking for a name");
  if (std::string_view(name).starts_with("ref")) {
    reason = fmt::format("oneDNN {} has only its reference implementation of it", lib.version);
    return Descriptor(lib.dnnl_primitive_desc_destroy);
  }
  return made;
}

using Memory = Owned<dnnl_memory_t>;

Memory memory_at(const DnnlLibrary& lib, const dnnl_memory_desc_t& d, void* data) {
  Memory m(lib.dnnl_memory_destroy);
  check(lib, lib.dnnl_memory_create(m.out(), &d, lib.engine, data), "creating a memory object");
  return m;
}

void execute(const DnnlLibrary& lib, dnnl_primitive_t primitive, const std::vector<dnnl_exec_arg_t>& arguments) {
  Owned<dnnl_stream_t> stream(lib.dnnl_stream_destroy);
  check(lib, lib.dnnl_stream_create(stream.out(), lib.engine, dnnl_stream_default_flags), "creating a stream");
  check(lib, lib.dnnl_primitive_execute(primitive, stream.get(), static_cast<int>(arguments.size()), arguments.data()),
        "running a primitive");
  check(lib, lib.dnnl_stream_wait(stream.get()), "waiting for a primitive");
}

int64_t round_up(size_t bytes) { return static_cast<int64_t>((bytes + 63) / 64 * 64); }

class OneDnnCall final : public LibraryCall {
 public:
  OneDnnCall(const DnnlLibrary& lib, const OneDnnProblem& p, const void* constant_b) : lib_(lib) {
    ThreadCount threads(lib_);
    std::string reason;
    Descriptor planned = plan(lib_, p, reason);
    TOROID_CHECK(planned.get(), "a refused problem is prepared: {}", reason);
    check(lib_, lib_.dnnl_primitive_create(primitive_.out(), planned.get()), "creating a primitive");
    scratchpad_ = *lib_.dnnl_primitive_desc_query_md(planned.get(), dnnl_query_scratchpad_md, 0);
    scratch_bytes_ = round_up(lib_.dnnl_memory_desc_get_size(&scratchpad_));
    weights_ = *lib_.dnnl_primitive_desc_query_md(planned.get(), dnnl_query_weights_md, 0);

    add(DNNL_ARG_SRC, p.a);
    plain_b_ = describe(lib_, p.b);
    b_offset_ = bytes(p.b);
    if (p.constant_b) {
      packed_b_.emplace(memory_at(lib_, weights_, DNNL_MEMORY_ALLOCATE));
      prepare_reorder();
      pack(const_cast<std::byte*>(static_cast<const std::byte*>(constant_b)) + b_offset_, *packed_b_);
      reorder_ = Owned<dnnl_primitive_t>(lib_.dnnl_primitive_destroy);
    } else if (!lib_.dnnl_memory_desc_equal(&plain_b_, &weights_)) {
      prepare_reorder();
      b_bytes_ = round_up(lib_.dnnl_memory_desc_get_size(&weights_));
      slots_.push_back({kReorderedB, plain_b_, b_offset_});
    } else {
      add(DNNL_ARG_WEIGHTS, p.b);
    }
    add(DNNL_ARG_DST, p.out);
    const bool bias = has_bias(p);
    if (bias) slots_.push_back({DNNL_ARG_BIAS, bias_of(lib_, p), bytes(p.post_ops[0].operand)});
    for (size_t i = bias ? 1 : 0; i < p.post_ops.size(); ++i)
      if (has_operand(p.post_ops[i]))
        add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i - bias)) | DNNL_ARG_SRC_1, p.post_ops[i].operand);
  }

  int64_t scratch_bytes() const override { return scratch_bytes_ + b_bytes_; }

  void run(void* const* buffers, void* scratch) const override {
    ThreadCount threads(lib_);
    auto* space = static_cast<std::byte*>(scratch);
    std::vector<Memory> held;
    std::vector<dnnl_exec_arg_t> arguments;
    auto pass = [&](int argument, const dnnl_memory_desc_t& d, void* data) {
      held.push_back(memory_at(lib_, d, data));
      arguments.push_back({argument, held.back().get()});
    };
    for (size_t i = 0; i < slots_.size(); ++i) {
      auto* data = static_cast<std::byte*>(buffers[i]) + slots_[i].offset;
      if (slots_[i].argument == kReorderedB) {
        pass(DNNL_ARG_WEIGHTS, weights_, space + scratch_bytes_);
        pack(data, held.back());
      } else {
        pass(slots_[i].argument, slots_[i].desc, data);
      }
    }
    if (packed_b_) arguments.push_back({DNNL_ARG_WEIGHTS, packed_b_->get()});
    if (scratch_bytes_ > 0) pass(DNNL_ARG_SCRATCHPAD, scratchpad_, space);
    execute(lib_, primitive_.get(), arguments);
  }

 private:
  static constexpr int kReorderedB = -1;
  struct Slot {
    int argument;
    dnnl_memory_desc_t desc;
    int64_t offset;  // bytes
  };

  static int64_t bytes(const TensorMemory& m) { return m.offset * static_cast<int64_t>(size_of(m.dtype)); }
  void add(int argument, const TensorMemory& m) { slots_.push_back({argument, describe(lib_, m), bytes(m)}); }

  void prepare_reorder() {
    Descriptor planned(lib_.dnnl_primitive_desc_destroy);
    check(lib_, lib_.dnnl_reorder_primitive_desc_create(planned.out(), &plain_b_, lib_.engine, &weights_, lib_.engine, nullptr),
          "planning the packing of weights");
    check(lib_, lib_.dnnl_primitive_create(reorder_.out(), planned.get()), "creating the packing of weights");
  }

  void pack(void* plain, const Memory& packed) const {
    Memory from = memory_at(lib_, plain_b_, plain);
    execute(lib_, reorder_.get(), {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, packed.get()}});
  }

  const DnnlLibrary& lib_;
  Owned<dnnl_primitive_t> primitive_{lib_.dnnl_primitive_destroy}, reorder_{lib_.dnnl_primitive_destroy};
  dnnl_memory_desc_t scratchpad_, weights_, plain_b_;
  std::optional<Memory> packed_b_;
  std::vector<Slot> slots_;                                 // one a buffer
  int64_t scratch_bytes_ = 0, b_bytes_ = 0, b_offset_ = 0;  // of the scratchpad; of b in the primitive's layout; where b begins
};

}  // namespace

std::string onednn_version() { return dnnl_library().version; }

std::string onednn_refusal(const OneDnnProblem& problem) {
  const DnnlLibrary& lib = dnnl_library();
  ThreadCount threads(lib);
  std::string reason;
  plan(lib, problem, reason);
  return reason;
}

std::shared_ptr<const LibraryCall> prepare_onednn(const OneDnnProblem& problem, const void* constant_b) {
  return std::make_shared<OneDnnCall>(dnnl_library(), problem, constant_b);
}

}  // namespace toroid::external
