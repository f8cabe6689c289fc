#include "toroid/train/data.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "toroid/model.h"
#include "toroid/ops.h"
#include "train/errors.h"

namespace toroid::train {
namespace {

struct FormatRow {
  const char* name;
  TokenFormat format;
  size_t bytes;  // of a token; 0: the file says it
};
constexpr FormatRow kFormats[] = {{"text", TokenFormat::Text, 1},
                                  {"u16", TokenFormat::U16, 2},
                                  {"u32", TokenFormat::U32, 4},
                                  {"safetensors", TokenFormat::Safetensors, 0}};

const FormatRow& row_of(TokenFormat format) {
  return *std::find_if(std::begin(kFormats), std::end(kFormats), [&](auto& r) { return r.format == format; });
}

// FNV-1a.
uint64_t hash_of(std::span<const std::byte> bytes, uint64_t hash = 0xcbf29ce484222325) {
  for (const std::byte b : bytes) hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001b3;
  return hash;
}

uint64_t little_endian(const std::byte* at, size_t bytes) {
  uint64_t v = 0;
  for (size_t i = 0; i < bytes; ++i) v |= static_cast<uint64_t>(at[i]) << (8 * i);
  return v;
}

bool is_integer(DType t) {
  return t == DType::U8 || t == DType::U16 || t == DType::U32 || t == DType::U64 || t == DType::I8 || t == DType::I16 || t == DType::I32 ||
         t == DType::I64;
}

}  // namespace

TokenFormat parse_token_format(const std::string& name) {
  for (auto& r : kFormats)
    if (name == r.name) return r.format;
  throw UserError("there is no token format \"" + name + "\"; there are text, u16, u32 and safetensors");
}

// Read by pread() and not mapped: a mapped file that becomes shorter ends the process.
struct TokenData::File {
  std::string path;
  TokenOptions options;
  int fd = -1;
  size_t token_bytes = 1;
  Tensor loaded;        // of safetensors: i64
  int64_t tokens = 0;   // of the file
  int64_t first = 0;    // of the part
  int64_t samples = 0;  // of the part
  uint64_t fingerprint = 0;

  ~File() {
    if (fd >= 0) ::close(fd);
  }

  void open_raw() {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const int error = errno;
    if (fd < 0 && error != ENOENT && error != ENOTDIR) throw EnvironmentError("cannot read \"" + path + "\": " + std::strerror(error));
    require(fd >= 0, "cannot read \"{}\": {}; check the path", path, std::strerror(error));
    struct stat info {};
    if (::fstat(fd, &info) != 0) throw EnvironmentError("cannot read \"" + path + "\": " + std::strerror(errno));
    require(S_ISREG(info.st_mode), "cannot read \"{}\": it is not a regular file", path);
    token_bytes = row_of(options.format).bytes;
    require(static_cast<size_t>(info.st_size) % token_bytes == 0, "{}: {} bytes are no multiple of the {} that a token has ({})", path,
            info.st_size, token_bytes, row_of(options.format).name);
    tokens = static_cast<int64_t>(static_cast<size_t>(info.st_size) / token_bytes);
  }

  void open_safetensors() {
    const auto all = load_tensors(path);
    const auto it = all.find("tokens");
    require(it != all.end(), "{}: there is no tensor \"tokens\"", path);
    require(it->second.dim() == 1 && is_integer(it->second.dtype()), "{}: \"tokens\" must be integers of one dimension; it is {}", path,
            to_string(it->second).substr(0, 60));
    loaded = toroid::to(it->second, DType::I64).contiguous();
    tokens = loaded.numel();
  }

  // `count` tokens from `at` on, as i64.
  void read(int64_t at, int64_t count, int64_t* into, std::vector<std::byte>& buffer) const {
    if (loaded.defined()) return void(std::copy_n(loaded.data<int64_t>() + at, count, into));
    buffer.resize(static_cast<size_t>(count) * token_bytes);
    size_t done = 0;
    while (done < buffer.size()) {
      const auto from = static_cast<off_t>(static_cast<size_t>(at) * token_bytes + done);
      const ssize_t n = ::pread(fd, buffer.data() + done, buffer.size() - done, from);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw EnvironmentError("cannot read \"" + path + "\": " + std::strerror(errno));
      if (n == 0) throw EnvironmentError("cannot read \"" + path + "\": it became shorter while it was in use");
      done += static_cast<size_t>(n);
    }
    for (int64_t i = 0; i < count; ++i)
      into[i] = static_cast<int64_t>(little_endian(buffer.data() + static_cast<size_t>(i) * token_bytes, token_bytes));
  }

  // Of the part's beginning and its end: all of it may be too much to read.
  uint64_t hash_ends(int64_t last) const {
    constexpr int64_t kSampled = 1 << 14;
    std::vector<std::byte> buffer;
    std::vector<int64_t> ends(static_cast<size_t>(std::min(kSampled, last - first)));
    uint64_t hash = hash_of({});
    for (const int64_t at : {first, last - static_cast<int64_t>(ends.size())}) {
      read(at, static_cast<int64_t>(ends.size()), ends.data(), buffer);
      hash = hash_of(std::as_bytes(std::span(ends)), hash);
    }
    return hash;
  }
};

TokenData::TokenData(const std::string& path, TokenOptions options) : file_(std::make_unique<File>()) {
  require(options.length > 0, "tokens: a length of {} is not positive", options.length);
  require(options.from >= 0 && options.from < options.to && options.to <= 1, "tokens: the part from {} to {} is not within 0 to 1",
          options.from, options.to);
  file_->path = path;
  file_->options = options;
  if (options.format == TokenFormat::Safetensors)
    file_->open_safetensors();
  else
    file_->open_raw();
  const auto place = [&](double part) { return static_cast<int64_t>(std::llround(part * static_cast<double>(file_->tokens))); };
  file_->first = place(options.from);
  const int64_t last = place(options.to);
  file_->samples = (last - file_->first - 1) / options.length;
  require(last - file_->first > options.length, "{}: {} tokens, of which the part from {} to {} has {}; a sample of length {} needs {}",
          path, file_->tokens, options.from, options.to, last - file_->first, options.length, options.length + 1);
  file_->fingerprint = file_->hash_ends(last);
}

TokenData::~TokenData() = default;
int64_t TokenData::size() const { return file_->samples; }
int64_t TokenData::units_per_sample() const { return file_->options.length; }

Batch TokenData::batch(std::span<const int64_t> samples) const {
  const int64_t row = file_->options.length + 1;
  const Tensor out = Tensor::empty({static_cast<int64_t>(samples.size()), row}, DType::I64);
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < samples.size(); ++i) {
    require(samples[i] >= 0 && samples[i] < size(), "tokens: there is no sample {}; there are {}", samples[i], size());
    file_->read(file_->first + samples[i] * file_->options.length, row, out.data<int64_t>() + static_cast<int64_t>(i) * row, buffer);
  }
  return {out};
}

std::string TokenData::describe() const {
  return fmt::format("tokens: {} samples of {} {} from {} on, {:016x}", size(), file_->options.length, row_of(file_->options.format).name,
                     file_->first, file_->fingerprint);
}

TensorData::TensorData(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  require(!tensors_.empty(), "data: no tensors were given");
  for (size_t i = 0; i < tensors_.size(); ++i) {
    require(tensors_[i].defined() && tensors_[i].dim() > 0, "data: tensor {} has no rows", i);
    tensors_[i] = tensors_[i].to(Device::cpu()).contiguous();
    require(tensors_[i].sizes()[0] == tensors_[0].sizes()[0], "data: tensor {} has {} rows, the first one {}", i, tensors_[i].sizes()[0],
            tensors_[0].sizes()[0]);
  }
  require(size() > 0, "data: the tensors have no rows");
}

int64_t TensorData::size() const { return tensors_[0].sizes()[0]; }

Batch TensorData::batch(std::span<const int64_t> samples) const {
  Batch out;
  for (auto& t : tensors_) {
    std::vector<int64_t> sizes = t.sizes();
    sizes[0] = static_cast<int64_t>(samples.size());
    out.push_back(Tensor::empty(sizes, t.dtype()));
    const size_t row = static_cast<size_t>(t.numel() / size()) * size_of(t.dtype());
    for (size_t i = 0; i < samples.size() && row > 0; ++i) {
      require(samples[i] >= 0 && samples[i] < size(), "data: there is no sample {}; there are {}", samples[i], size());
      std::memcpy(out.back().raw_data() + i * row, t.raw_data() + static_cast<size_t>(samples[i]) * row, row);
    }
  }
  return out;
}

std::string TensorData::describe() const {
  std::string out = "tensors:";
  uint64_t hash = hash_of({});
  for (auto& t : tensors_) {
    constexpr size_t kSampled = 1 << 17;
    const size_t bytes = static_cast<size_t>(t.numel()) * size_of(t.dtype()), ends = std::min(bytes, kSampled);
    hash = hash_of({t.raw_data(), ends}, hash);
    hash = hash_of({t.raw_data() + bytes - ends, ends}, hash);
    out += fmt::format(" {} [{}]", name_of(t.dtype()), fmt::join(t.sizes(), ", "));
  }
  return out + fmt::format(", {:016x}", hash);
}

}  // namespace toroid::train
