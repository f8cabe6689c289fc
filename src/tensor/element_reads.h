// Reads of elements by the user's code while it is recorded: what is recorded afterwards may depend on them.
#pragma once

#include <string_view>
#include <vector>

#include "tensor/tensor_impl.h"

namespace toroid {

// Is told when this thread's code is about to read the elements of a tensor that has memory, by item(), to_vector() or data().
class ElementReader {
 public:
  virtual ~ElementReader() = default;
  virtual void read_elements(const Tensor& t, std::string_view what, const std::source_location& where) = 0;
  // Whether the function's own code runs now, and not who records it.
  virtual bool is_asked_by_function() const = 0;

  // Of this thread; null: nobody.
  static ElementReader* current();
  class Scope {
   public:
    explicit Scope(ElementReader* r);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    ElementReader* before_;
  };
};

// Tensors whose elements were read, and what they were.
class ElementReads {
 public:
  void add(const Tensor& t);
  // Keeps what the elements are now. Forgets tensors that nobody else holds.
  void settle();
  // Whether the elements are what they were. Of tensors of more than 256 bytes, and on GPUs, whether an operation has written since.
  bool stand() const;
  bool empty() const { return reads_.empty(); }

 private:
  struct Read {
    Tensor tensor;
    std::vector<std::byte> bytes;
    WriteCount::Counter writes;
    uint64_t count = 0;
  };
  std::vector<Read> reads_;
};

}  // namespace toroid
