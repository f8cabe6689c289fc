// What a Trainer reads: samples by number, in an order that can be taken up at any place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::train {

// The tensors that a loss takes, in the order of the source that made them.
using Batch = std::vector<Tensor>;

// Samples by number. Not changed by reading.
class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual int64_t size() const = 0;
  // Samples 0 to size() - 1, in the order given, stacked along the first dimension; on the CPU.
  virtual Batch batch(std::span<const int64_t> samples) const = 0;
  // What a throughput counts ("tokens"), and how many of them a sample has.
  virtual std::string unit() const { return "samples"; }
  virtual int64_t units_per_sample() const { return 1; }
  // One line that differs where other samples would come: a checkpoint goes on with the data it was made with alone.
  virtual std::string describe() const = 0;
};

// How the tokens of a file lie there. Text: each byte is a token, so that the vocabulary has 256 entries.
enum class TokenFormat : uint8_t { Text, U16, U32, Safetensors };
// "text", "u16", "u32" or "safetensors"; UserError for others.
TokenFormat parse_token_format(const std::string& name);

struct TokenOptions {
  int64_t length = 128;  // tokens that a model sees; a sample has one more, the last target
  TokenFormat format = TokenFormat::Text;
  double from = 0, to = 1;  // the part of the file's tokens that is read, for training and held-out parts
};

// Windows of a file of tokens: sample i has the tokens i * length to (i + 1) * length, both included, as i64 [batch, length + 1]. U16 and
// U32 are little-endian, without a header, and read where they are needed: the file may be larger than the memory, and must not change.
// Safetensors: the tensor "tokens", integers of one dimension, which is read as a whole.
// UserError for a missing file, one that is no multiple of the tokens' size, and one with less than length + 1 tokens in the part.
class TokenData : public DataSource {
 public:
  explicit TokenData(const std::string& path, TokenOptions options = {});
  ~TokenData() override;
  int64_t size() const override;
  // EnvironmentError where the file became shorter.
  Batch batch(std::span<const int64_t> samples) const override;
  std::string unit() const override { return "tokens"; }
  int64_t units_per_sample() const override;
  std::string describe() const override;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

// Rows of tensors: sample i has row i of each. UserError for none, and for tensors of other numbers of rows. The tensors are shared.
class TensorData : public DataSource {
 public:
  explicit TensorData(std::vector<Tensor> tensors);
  int64_t size() const override;
  Batch batch(std::span<const int64_t> samples) const override;
  std::string describe() const override;

 private:
  std::vector<Tensor> tensors_;
};

// The order of the samples of all epochs, one after the other: in each epoch every sample once, shuffled by the seed and the epoch's
// number. There is no state: any place can be asked for at once.
class SampleOrder {
 public:
  // UserError for no samples.
  SampleOrder(int64_t samples, uint64_t seed, bool shuffle = true);
  // place: from 0 on; the epoch is place / samples. UserError for a negative one.
  int64_t at(int64_t place) const;

 private:
  uint64_t samples_, seed_;
  int half_bits_;
  bool shuffle_;
};

}  // namespace toroid::train
