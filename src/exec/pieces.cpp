#include "exec/pieces.h"

#include <mutex>

#include "base/check.h"
#include "device/cuda/gpu.h"
#include "device/cuda/side_stream.h"
#include "device/runtime.h"
#include "dist/gpus.h"
#include "dist/group.h"
#include "dist/p2p/symmetric_memory.h"
#include "extern/cublaslt/cublaslt.h"

namespace toroid::exec {
namespace {

using device::cuda::CUdeviceptr;
using device::cuda::SideStream;
using distributed::Kind;
using In = Stage::Place::In;

int64_t bytes_of(DType t, int64_t elements) { return elements * static_cast<int64_t>(size_of(t)); }
int64_t rows_bytes(const PiecesProblem& p) { return bytes_of(p.product.dtype, p.product.m * p.product.k); }
int64_t result_bytes(const PiecesProblem& p) { return bytes_of(p.product.out_dtype, p.product.m * p.product.n); }
// Of a piece on its way.
int64_t slot_bytes(const PiecesProblem& p) { return p.kind == Kind::AllGather ? rows_bytes(p) : result_bytes(p); }

// A rank sends its rows to the one after it first. Slot i is for those of the rank that is i + 1 steps on.
Stage gathering(const PiecesProblem& p, int64_t rank) {
  Stage out;
  const auto after = [&](int64_t steps) { return (rank + steps) % p.ranks; };
  if (p.stage == 0) {
    for (int64_t steps = 1; steps < p.ranks; ++steps)
      out.moves.push_back({{In::Operand, 0}, static_cast<int>(after(steps)), p.ranks - steps - 1});
    out.products.push_back({{In::Operand, 0}, {In::Result, rank}, {}});
  } else {
    for (int64_t steps = p.ranks - 1; steps > 0; --steps) out.products.push_back({{In::Slot, steps - 1}, {In::Result, after(steps)}, {}});
  }
  return out;
}

// Slot i is for what comes after stage i; those that wait to be sent take turns with the slots behind.
Stage scattering(const PiecesProblem& p, int64_t rank) {
  Stage out;
  const int64_t parts = pieces_of_rank(p.kind), step = p.stage / parts, part = p.stage % parts, comes = (p.ranks - 1) * parts;
  const auto after = [&](int64_t steps) { return (rank + steps) % p.ranks; };
  const auto waiting = [&](int64_t stage) { return Stage::Place{In::Slot, comes + stage % parts}; };
  if (p.stage > 0 && p.stage <= comes) out.moves.push_back({waiting(p.stage - 1), static_cast<int>(after(1)), p.stage - 1});
  const int64_t piece = after(2 * p.ranks - 1 - step) * parts + part;
  const bool adds = step > 0, is_last = step == p.ranks - 1;
  out.products.push_back({{In::Operand, piece},
                          is_last ? Stage::Place{In::Result, part} : waiting(p.stage),
                          adds ? Stage::Place{In::Slot, p.stage - parts} : Stage::Place{}});
  return out;
}

// One rank's end.
class Pieces : public external::LibraryCall {
 public:
  Pieces(const PiecesProblem& p, const Device& device, distributed::Group& group)
      : p_(p), gpu_(device::cuda::gpu(device.index)), rank_(group.rank()), stage_(stage_of(p, rank_)) {
    external::CublasLtProblem product = p.product;
    product.a.offset = product.out.offset = 0;  // added to the addresses below
    product.has_addend = stage_.products[0].addend.in != In::None;
    product.addend = product.out;
    auto calls = external::prepare_cublaslt(product, gpu_, 1);
    if (calls.empty())
      fail<EnvironmentError>(
          "cuBLASLt {} has no implementation of a product in pieces; leave it whole by the option "
          "disable_passes=overlap_products",
          external::cublaslt_version());
    product_ = std::move(calls[0]);
    if (!stage_.moves.empty()) copies_ = std::make_unique<SideStream>(gpu_, device);
    staging_ = distributed::p2p::staging_memory(group, device, distributed::name_of(p.kind), slots_of(p) * slot_bytes(p));
  }

  int64_t scratch_bytes() const override { return product_->scratch_bytes(); }
  void load() const override { product_->load(); }

  void run(void* const* buffers, void* scratch) const override {
    const Memory memory{static_cast<std::byte*>(buffers[0]) + bytes_of(p_.product.dtype, p_.product.a.offset),
                        static_cast<std::byte*>(buffers[2]) + bytes_of(p_.product.out_dtype, p_.product.out.offset)};
    gpu_.use();
    std::lock_guard lock(mutex_);
    if (copies_) copies_->follow();
    for (auto& move : stage_.moves) send(slot(move.to_rank, move.to_slot), at(move.from, memory));
    for (auto& product : stage_.products) {
      void* const operands[] = {at(product.rows, memory), buffers[1], at(product.to, memory), at(product.addend, memory)};
      product_->run(operands, scratch);
    }
    if (copies_) copies_->join();
  }

 private:
  struct Memory {
    std::byte *a, *out;
  };

  std::byte* slot(int of_rank, int64_t number) const { return staging_->of_rank(of_rank) + number * slot_bytes(p_); }
  std::byte* at(const Stage::Place& place, const Memory& memory) const {
    switch (place.in) {
      case In::None:
        return nullptr;
      case In::Operand:
        return memory.a + place.number * rows_bytes(p_);
      case In::Result:
        return memory.out + place.number * result_bytes(p_);
      case In::Slot:
        return slot(rank_, place.number);
    }
    return nullptr;
  }
  void send(std::byte* to, const std::byte* from) const {
    const auto& driver = gpu_.driver_functions();
    driver.check(driver.copy_any(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                                 static_cast<size_t>(slot_bytes(p_)), copies_->get()),
                 "copying to another GPU");
  }

  const PiecesProblem p_;
  device::cuda::Gpu& gpu_;
  const int rank_;
  const Stage stage_;
  std::shared_ptr<distributed::p2p::SymmetricMemory> staging_;
  std::shared_ptr<const external::LibraryCall> product_;
  std::unique_ptr<SideStream> copies_;
  mutable std::mutex mutex_;  // of copies_
};

}  // namespace

int64_t pieces_of_rank(Kind kind) { return kind == Kind::AllGather ? 1 : 2; }
int64_t stages_of(const PiecesProblem& p) { return p.kind == Kind::AllGather ? 2 : p.ranks * pieces_of_rank(p.kind); }
int64_t slots_of(const PiecesProblem& p) {
  const int64_t of_rank = pieces_of_rank(p.kind);
  return (p.ranks - 1) * of_rank + (p.kind == Kind::AllGather ? 0 : of_rank);
}

// Memory that a piece comes to must have been read in the call before. A gather waits for that. A sum that goes on at stage 1 comes to
// memory that is read at stage 2, after which the ranks meet once more in each call; others are sent after they have met in their own.
bool meets_before(const PiecesProblem& p) { return p.kind == Kind::AllGather || p.stage >= pieces_of_rank(p.kind); }

Stage stage_of(const PiecesProblem& p, int rank) { return p.kind == Kind::AllGather ? gathering(p, rank) : scattering(p, rank); }

std::string refusal_of(const PiecesProblem& p) {
  const auto& g = p.product;
  if (g.batch != 1) return "it is a batch of products";
  if (p.kind == Kind::ReduceScatter && g.out_dtype != g.dtype) return "its result is of another dtype than its operands";
  if (g.a.column != 1 || g.a.row != g.k) return "its left operand is not dense";
  for (const int64_t bytes : {rows_bytes(p), result_bytes(p), bytes_of(g.dtype, g.a.offset), bytes_of(g.out_dtype, g.out.offset)})
    if (bytes % external::kCublasLtAlignment != 0)
      return fmt::format("a piece does not begin at a multiple of {} bytes", external::kCublasLtAlignment);
  return "";
}

std::string library_refusal(const std::string& group, const Device& device) {
  distributed::Group& asked = distributed::current_world().group(group);
  auto& kept = asked.on_gpu(device.index).library_refusal;
  if (kept) return *kept;
  std::string own;
  try {
    external::cublaslt_version();
  } catch (const EnvironmentError& e) {
    own = e.what();
  }
  kept = distributed::first_refusal(asked, own, "asking the ranks for cuBLASLt");
  return *kept;
}

std::shared_ptr<const external::LibraryCall> prepare_pieces(const PiecesProblem& p, const Device& device) {
  distributed::Group& group = distributed::current_world().group(p.group);
  TOROID_USER_CHECK(group.size() == p.ranks, "a product in pieces is of {} ranks, the group \"{}\" has {}", p.ranks, p.group, group.size());
  return std::make_shared<Pieces>(p, device, group);
}

}  // namespace toroid::exec
