// Where the parameters of new modules get their dtype and first values from.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::nn {

// A stream of random tensors: equal seeds and equal orders of calls give equal tensors, on every machine (on a GPU, where they are made in
// its memory, up to rounding). Copies share the stream.
class Init {
 public:
  explicit Init(uint64_t seed, DType dtype = DType::F32, const Device& device = Device::cpu());
  // The stream of the process, which manual_seed() restarts.
  static Init standard(DType dtype = DType::F32, const Device& device = Device::cpu());
  // Tensors of the right sizes without memory of their own, to be replaced by Module::load_state(). All elements are one zero.
  static Init shapes_only(DType dtype = DType::F32);
  // Whether it is such a tensor.
  static bool is_shape_only(const Tensor& t);

  DType dtype() const { return dtype_; }
  const Device& device() const { return device_; }
  // UserError for a negative size.
  Tensor uniform(const std::vector<int64_t>& sizes, double low, double high) const;
  Tensor normal(const std::vector<int64_t>& sizes, double mean, double deviation) const;
  Tensor constant(const std::vector<int64_t>& sizes, double value) const;
  // What torch.nn gives the weights of linear layers and convolutions: uniform within 1 / sqrt(fan_in).
  Tensor kaiming_uniform(const std::vector<int64_t>& sizes, int64_t fan_in) const;
  // Uniform within sqrt(6 / (fan_in + fan_out)).
  Tensor xavier_uniform(const std::vector<int64_t>& sizes, int64_t fan_in, int64_t fan_out) const;

 private:
  struct Stream {
    std::atomic<uint64_t> seed{0}, next{0};
  };
  Init(std::shared_ptr<Stream> stream, DType dtype, const Device& device) : stream_(std::move(stream)), dtype_(dtype), device_(device) {}
  uint64_t next_key() const;
  static const std::shared_ptr<Stream>& process_stream();
  friend void manual_seed(uint64_t seed);

  std::shared_ptr<Stream> stream_;  // null: shapes only
  DType dtype_;
  Device device_;
};

// Restarts the stream of Init::standard().
void manual_seed(uint64_t seed);

}  // namespace toroid::nn
