// Memory between pages that nobody may touch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace toroid::tune {

// The bytes end right before a guarded page, but for what the alignment of 64 bytes leaves; what lies between them and the guarded pages on
// both sides is filled, and checked by intact().
class Guarded {
 public:
  // EnvironmentError where there is not so much memory.
  explicit Guarded(size_t bytes);
  ~Guarded();
  Guarded(Guarded&& other) noexcept;
  Guarded& operator=(Guarded&&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // From here on it can only be read.
  void protect();
  bool intact() const;
  // How far `address` is from the nearest byte of the data, if it lies in this object's pages: negative before it, positive behind it, 0
  // inside. False where it lies elsewhere.
  bool locate(const void* address, int64_t& distance) const;

 private:
  std::byte* pages_ = nullptr;
  size_t mapped_ = 0, bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace toroid::tune
