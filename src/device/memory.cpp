// The allocator follows PyTorch's CUDACachingAllocator: segments are cut into blocks, best fit, free neighbours are joined.
#include "device/memory.h"

#include <algorithm>

#include "base/check.h"
#include "device/faults.h"

namespace toroid::device {
namespace {

constexpr size_t kStep = 512;                   // of blocks
constexpr size_t kSmall = size_t{1} << 20;      // larger requests share no segment with smaller ones
constexpr size_t kSmallSegment = 2 * kSmall;    // holds small blocks
constexpr size_t kMiddle = 10 * kSmall;         // from here on a request has a segment of its own
constexpr size_t kMiddleSegment = 20 * kSmall;  // holds blocks up to kMiddle
constexpr size_t kMost = size_t{1} << 60;       // no device has more

size_t rounded(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

// What may be left over at the end of a block before it is cut.
size_t least_rest(bool small) { return small ? kStep : kSmall + kStep; }

size_t segment_bytes(size_t bytes) {
  return bytes <= kSmall ? kSmallSegment : bytes < kMiddle ? kMiddleSegment : rounded(bytes, kSmallSegment);
}

}  // namespace

std::string bytes_text(size_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 2; ++unit) value /= 1024;
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

// ---- one pool -------------------------------------------------------------------------------------------------------------------

MemoryPool::~MemoryPool() { memory_.retire(*this); }

Device MemoryPool::device() const { return memory_.source().device(); }

MemoryStats MemoryPool::stats() const {
  std::lock_guard lock(memory_.mutex_);
  return stats_;
}

std::shared_ptr<void> MemoryPool::allocate(size_t bytes) { return memory_.allocate(*this, bytes); }

std::map<std::byte*, MemoryPool::Segment>::const_iterator MemoryPool::segment_of(const std::byte* p) const {
  auto it = segments_.upper_bound(const_cast<std::byte*>(p));
  if (it == segments_.begin()) return segments_.end();
  --it;
  return p < it->first + it->second.bytes ? it : segments_.end();
}

bool MemoryPool::holds(const void* p) const {
  std::lock_guard lock(memory_.mutex_);
  return segment_of(static_cast<const std::byte*>(p)) != segments_.end();
}

bool MemoryPool::in_use(const void* p) const {
  std::lock_guard lock(memory_.mutex_);
  auto at = const_cast<std::byte*>(static_cast<const std::byte*>(p));
  auto it = blocks_.upper_bound(at);
  if (it == blocks_.begin()) return false;
  --it;
  return it->second.is_used() && at < it->first + it->second.bytes;
}

size_t MemoryPool::block_bytes(const void* p) const {
  std::lock_guard lock(memory_.mutex_);
  auto it = blocks_.find(const_cast<std::byte*>(static_cast<const std::byte*>(p)));
  return it == blocks_.end() || !it->second.is_used() ? 0 : it->second.bytes;
}

void MemoryPool::pin() {
  std::lock_guard lock(memory_.mutex_);
  ++pins_;
}

void MemoryPool::unpin() {
  std::lock_guard lock(memory_.mutex_);
  --pins_;
}

void MemoryPool::add_segment(std::byte* p, size_t bytes, bool small, StreamKey stream) {
  segments_[p] = {bytes, small};
  blocks_[p] = {bytes, stream, 0, {}};
  free_.emplace(stream, small, bytes, p);
  ++stats_.segments;
  ++memory_.stats_.segments;
  memory_.count(*this, 0, static_cast<int64_t>(bytes));
}

// Takes `bytes` of a free block for a new owner; what is left stays free.
void MemoryPool::use(Blocks::iterator block, size_t bytes) {
  auto& [p, b] = *block;
  const bool small = segment_of(p)->second.small;
  free_.erase({b.stream, small, b.bytes, p});
  if (b.bytes - bytes >= least_rest(small)) {
    blocks_[p + bytes] = {b.bytes - bytes, b.stream, 0, {}};
    free_.emplace(b.stream, small, b.bytes - bytes, p + bytes);
    b.bytes = bytes;
  }
  count_use(block);
}

void MemoryPool::count_use(Blocks::iterator block) {
  block->second.owner = memory_.next_owner_++;
  ++stats_.allocations;
  ++memory_.stats_.allocations;
  memory_.count(*this, static_cast<int64_t>(block->second.bytes), 0);
}

MemoryPool::Blocks::iterator MemoryPool::take(size_t bytes, StreamKey stream) {
  for (size_t i = kept_count_; i-- > 0;) {
    const auto block = kept_[i];
    if (block->second.bytes != bytes || block->second.stream != stream) continue;
    std::copy(kept_.begin() + static_cast<long>(i) + 1, kept_.begin() + static_cast<long>(kept_count_--),
              kept_.begin() + static_cast<long>(i));
    count_use(block);
    return block;
  }
  const bool small = bytes <= kSmall;
  auto it = free_.lower_bound({stream, small, bytes, nullptr});
  if (it == free_.end() || std::get<0>(*it) != stream || std::get<1>(*it) != small) return blocks_.end();
  const auto block = blocks_.find(std::get<3>(*it));
  use(block, bytes);
  return block;
}

void MemoryPool::make_free(Blocks::iterator block) {
  --stats_.allocations;
  --memory_.stats_.allocations;
  memory_.count(*this, -static_cast<int64_t>(block->second.bytes), 0);
  block->second.others.clear();
  if (block->second.bytes > kSmall) return join(block);
  if (kept_count_ == kMostKept) {
    join(kept_[0]);
    std::copy(kept_.begin() + 1, kept_.end(), kept_.begin());
    --kept_count_;
  }
  block->second.owner = kKept;
  kept_[kept_count_++] = block;
}

void MemoryPool::join_kept() {
  for (size_t i = 0; i < kept_count_; ++i) join(kept_[i]);
  kept_count_ = 0;
}

void MemoryPool::join(Blocks::iterator it) {
  it->second.owner = 0;
  const auto segment = segment_of(it->first);
  auto absorb = [&](Blocks::iterator into, Blocks::iterator next) {
    into->second.bytes += next->second.bytes;
    blocks_.erase(next);
  };
  const auto joins = [&](const Block& b) { return b.owner == 0 && b.stream == it->second.stream; };
  if (auto next = std::next(it); next != blocks_.end() && next->first < segment->first + segment->second.bytes && joins(next->second)) {
    free_.erase({next->second.stream, segment->second.small, next->second.bytes, next->first});
    absorb(it, next);
  }
  if (it->first != segment->first)
    if (auto before = std::prev(it); joins(before->second)) {
      free_.erase({before->second.stream, segment->second.small, before->second.bytes, before->first});
      absorb(before, it);
      it = before;
    }
  free_.emplace(it->second.stream, segment->second.small, it->second.bytes, it->first);
}

std::shared_ptr<void> MemoryPool::handle(Blocks::iterator block) {
  return {block->first, [pool = shared_from_this(), block, owner = block->second.owner, restores = restores_](void*) {
            pool->memory_.give_back(*pool, block, owner, restores);
          }};
}

PoolState MemoryPool::checkpoint() const {
  std::lock_guard lock(memory_.mutex_);
  PoolState out{id_, {}};
  for (auto& [p, b] : blocks_)
    if (b.is_used()) out.used.push_back({p, b.bytes, b.stream});
  return out;
}

std::vector<std::shared_ptr<void>> MemoryPool::restore(const PoolState& state, std::span<void* const> live) {
  std::vector<std::shared_ptr<void>> out;
  std::lock_guard lock(memory_.mutex_);
  TOROID_CHECK(state.pool == id_, "a state of pool {} for pool {}", state.pool, id_);
  auto find = [&](void* p) {
    return std::lower_bound(state.used.begin(), state.used.end(), p, [](const PoolState::Block& b, void* q) { return b.address < q; });
  };
  for (void* p : live) {
    auto it = find(p);
    TOROID_CHECK(it != state.used.end() && it->address == p, "{} was not in use in the state that its pool is brought back to", p);
  }
  memory_.count(*this, -static_cast<int64_t>(stats_.allocated), 0);
  memory_.stats_.allocations -= stats_.allocations;
  stats_.allocations = 0;
  std::map<std::byte*, StreamKey> streams;  // of segments
  for (auto& [p, b] : blocks_) streams.try_emplace(segment_of(p)->first, b.stream);
  for (auto& b : state.used) streams[segment_of(b.address)->first] = b.stream;
  blocks_.clear();
  free_.clear();
  kept_count_ = 0;
  ++restores_;
  for (auto& [p, s] : segments_) {
    blocks_[p] = {s.bytes, streams[p], 0, {}};
    free_.emplace(streams[p], s.small, s.bytes, p);
  }
  std::vector<void*> order(live.begin(), live.end());
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  for (void* p : order) {
    const PoolState::Block& want = *find(p);
    auto it = std::prev(blocks_.upper_bound(want.address));
    if (it->first != want.address) {  // cut off what lies in front
      const bool small = segment_of(it->first)->second.small;
      Block whole = it->second;
      const auto front = static_cast<size_t>(want.address - it->first);
      free_.erase({whole.stream, small, whole.bytes, it->first});
      free_.emplace(whole.stream, small, front, it->first);
      it->second.bytes = front;
      whole.bytes -= front;
      free_.emplace(whole.stream, small, whole.bytes, want.address);
      it = blocks_.emplace(want.address, whole).first;
    }
    use(it, want.bytes);
  }
  for (void* p : live) {
    auto same = std::find(live.begin(), live.begin() + static_cast<long>(out.size()), p);
    out.push_back(same - live.begin() < static_cast<long>(out.size()) ? out[static_cast<size_t>(same - live.begin())]
                                                                      : handle(blocks_.find(static_cast<std::byte*>(p))));
  }
  return out;
}

std::vector<std::pair<void*, size_t>> MemoryPool::take_unused_segments() {
  std::vector<std::pair<void*, size_t>> out;
  join_kept();
  for (auto s = segments_.begin(); s != segments_.end();) {
    auto first = blocks_.find(s->first);
    bool used = false;
    auto end = first;
    for (; end != blocks_.end() && end->first < s->first + s->second.bytes; ++end) used = used || end->second.owner != 0;
    if (used) {
      ++s;
      continue;
    }
    for (auto b = first; b != end; ++b) free_.erase({b->second.stream, s->second.small, b->second.bytes, b->first});
    blocks_.erase(first, end);
    memory_.count(*this, 0, -static_cast<int64_t>(s->second.bytes));
    --stats_.segments;
    --memory_.stats_.segments;
    out.emplace_back(s->first, s->second.bytes);
    s = segments_.erase(s);
  }
  return out;
}

// ---- all pools of a device ------------------------------------------------------------------------------------------------------

namespace {
std::atomic<uint64_t> next_pool{1};
}

DeviceMemory::DeviceMemory(std::unique_ptr<MemorySource> source)
    : source_(std::move(source)), default_pool_(std::make_shared<MemoryPool>(*this, 0)) {
  pools_[0] = default_pool_.get();
}

std::shared_ptr<MemoryPool> DeviceMemory::make_pool() {
  auto pool = std::make_shared<MemoryPool>(*this, next_pool++);
  std::lock_guard lock(mutex_);
  pools_[pool->id()] = pool.get();
  return pool;
}

std::shared_ptr<void> DeviceMemory::allocate(size_t bytes) {
  for (PoolScope* s = PoolScope::innermost_; s; s = s->outer_)
    if (&s->pool_->memory() == this) return allocate(*s->pool_, bytes);
  if (source_->caches()) {
    if (bytes <= kMost)
      if (auto p = source_->allocate_directly(bytes)) return p;
    release_unused();
    if (bytes <= kMost)
      if (auto p = source_->allocate_directly(bytes)) return p;
    std::lock_guard lock(mutex_);
    fail_out_of_memory(*default_pool_, bytes);
  }
  return allocate(*default_pool_, bytes);
}

std::shared_ptr<MemoryPool> DeviceMemory::current_pool() const {
  for (PoolScope* s = PoolScope::innermost_; s; s = s->outer_)
    if (&s->pool_->memory() == this) return s->pool_;
  return nullptr;
}

void DeviceMemory::count(MemoryPool& pool, int64_t allocated, int64_t reserved) {
  for (MemoryStats* s : {&pool.stats_, &stats_}) {
    s->allocated += static_cast<size_t>(allocated);
    s->reserved += static_cast<size_t>(reserved);
    s->peak = std::max(s->peak, s->allocated);
    s->peak_reserved = std::max(s->peak_reserved, s->reserved);
  }
}

std::shared_ptr<void> DeviceMemory::allocate(MemoryPool& pool, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > kMost) fail_out_of_memory(pool, bytes);
  const size_t size = std::max(kStep, rounded(bytes, kStep));
  const StreamKey stream = source_->current_stream();
  if (!pending_.empty()) settle_pending();
  auto block = pool.take(size, stream);
  if (block == pool.blocks_.end() && pool.kept_count_ > 0) {
    pool.join_kept();
    block = pool.take(size, stream);
  }
  if (block == pool.blocks_.end()) {
    size_t want = segment_bytes(size);
    auto ask = [&](size_t segment) { return take_fault(Fault::OutOfMemory) ? nullptr : source_->allocate(segment); };
    void* segment = ask(want);
    if (!segment) {
      release_unused_locked();
      segment = ask(want);
    }
    if (!segment && want > rounded(size, kSmallSegment)) segment = ask(want = rounded(size, kSmallSegment));
    if (!segment) fail_out_of_memory(pool, bytes);
    pool.add_segment(static_cast<std::byte*>(segment), want, size <= kSmall, stream);
    block = pool.take(size, stream);
  }
  return pool.handle(block);
}

void DeviceMemory::fail_out_of_memory(const MemoryPool& pool, size_t bytes) const {
  fail<EnvironmentError>(
      "out of memory on {}: {} wanted{}, and what was kept unused has been given back. The device has {}; this process has {}. Free "
      "tensors "
      "and graphs that are not needed, let graphs share one pool (graph_pool_handle), make the batch smaller, or end other programs that "
      "use "
      "this device",
      source_->description(), bytes_text(bytes), pool.id() ? fmt::format(" in pool {}", pool.id()) : "", bytes_text(source_->total_bytes()),
      summary_locked());
}

// The deleter of allocations: must not throw.
void DeviceMemory::give_back(MemoryPool& pool, MemoryPool::Blocks::iterator block, uint64_t owner, uint64_t restores) {
  std::lock_guard lock(mutex_);
  if (pool.restores_ != restores) return;  // the pool has been brought back to another state
  if (block->second.others.empty()) return pool.make_free(block);
  pending_.push_back({pool.shared_from_this(), block->first, owner, std::move(block->second.others), {}});
  block->second.others.clear();
  try {
    settle_pending();
  } catch (const Error&) {  // a broken device: the block stays where it is
  }
}

void DeviceMemory::settle_pending() {
  std::erase_if(pending_, [&](Pending& w) {
    if (!source_->can_free()) return false;
    for (StreamKey s : w.unmarked)
      if (auto mark = source_->mark(s)) w.marks.push_back(std::move(mark));
    w.unmarked.clear();
    if (!std::all_of(w.marks.begin(), w.marks.end(), [&](auto& m) { return source_->passed(m.get()); })) return false;
    if (auto it = w.pool->blocks_.find(w.address); it != w.pool->blocks_.end() && it->second.owner == w.owner) w.pool->make_free(it);
    return true;
  });
}

void DeviceMemory::record_stream(const void* p, StreamKey stream) {
  std::lock_guard lock(mutex_);
  auto* at = const_cast<std::byte*>(static_cast<const std::byte*>(p));
  for (auto& [id, pool] : pools_) {
    if (pool->segment_of(at) == pool->segments_.end()) continue;
    auto& [address, block] = *std::prev(pool->blocks_.upper_bound(at));
    if (block.is_used() && block.stream != stream && std::find(block.others.begin(), block.others.end(), stream) == block.others.end())
      block.others.push_back(stream);
    return;
  }
}

void DeviceMemory::retire(MemoryPool& pool) {
  std::lock_guard lock(mutex_);
  pools_.erase(pool.id());
  auto unused = pool.take_unused_segments();
  orphans_.insert(orphans_.end(), unused.begin(), unused.end());
  try {
    free_orphans();
  } catch (const Error&) {  // the device is broken: so is its memory
  }
}

void DeviceMemory::free_orphans() {
  if (orphans_.empty() || !source_->can_free()) return;
  source_->synchronize();
  for (auto& [p, bytes] : orphans_) source_->free(p, bytes);
  orphans_.clear();
}

void DeviceMemory::release_unused() {
  std::lock_guard lock(mutex_);
  release_unused_locked();
}

void DeviceMemory::release_unused_locked() {
  if (!source_->can_free()) return;
  if (!pending_.empty()) {
    source_->synchronize();
    settle_pending();
  }
  for (auto& [id, pool] : pools_) {
    if (pool->pins_ > 0) continue;
    auto unused = pool->take_unused_segments();
    orphans_.insert(orphans_.end(), unused.begin(), unused.end());
  }
  free_orphans();
}

void DeviceMemory::reset_peak() {
  std::lock_guard lock(mutex_);
  auto reset = [](MemoryStats& s) {
    s.peak = s.allocated;
    s.peak_reserved = s.reserved;
  };
  reset(stats_);
  for (auto& [id, pool] : pools_) reset(pool->stats_);
  source_->reset_direct_peak();
}

MemoryStats DeviceMemory::stats() const {
  std::lock_guard lock(mutex_);
  return stats_locked();
}

MemoryStats DeviceMemory::stats_locked() const {
  MemoryStats out = stats_;
  for (auto& [p, bytes] : orphans_) out.reserved += bytes;
  const MemoryStats direct = source_->direct_stats();
  out.allocated += direct.allocated;
  out.peak += direct.peak;
  out.reserved += direct.reserved;
  out.peak_reserved = std::max(out.peak_reserved + direct.peak_reserved, out.reserved);
  out.allocations += direct.allocations;
  return out;
}

std::string DeviceMemory::summary() const {
  std::lock_guard lock(mutex_);
  return summary_locked();
}

std::string DeviceMemory::summary_locked() const {
  auto text = [](const MemoryStats& s) {
    return fmt::format("{} in use (at most {}), {} reserved", bytes_text(s.allocated), bytes_text(s.peak), bytes_text(s.reserved));
  };
  std::string out = text(stats_locked());
  for (auto& [id, pool] : pools_)
    if (id != 0 || pool->stats_.peak > 0)
      out += fmt::format("; {}: {}{}", id ? fmt::format("pool {}", id) : "default pool", text(pool->stats_),
                         pool->pins_ > 0 ? ", kept for graphs" : "");
  return out;
}

// ---- scopes ---------------------------------------------------------------------------------------------------------------------

PoolScope::PoolScope(std::shared_ptr<MemoryPool> pool) : pool_(std::move(pool)), outer_(innermost_) { innermost_ = this; }

// Also out of order: a capture's scope ends where the capture does.
PoolScope::~PoolScope() {
  PoolScope** at = &innermost_;
  while (*at && *at != this) at = &(*at)->outer_;
  if (*at) *at = outer_;
}

}  // namespace toroid::device

namespace toroid {

using device::memory_of;

MemPool::MemPool(const Device& device) : pool_(memory_of(device).make_pool()) {}
uint64_t MemPool::id() const { return pool_ ? pool_->id() : 0; }
Device MemPool::device() const { return pool_ ? pool_->device() : Device::cpu(); }
MemoryStats MemPool::stats() const { return pool_ ? pool_->stats() : MemoryStats{}; }

MemPoolScope::MemPoolScope(const MemPool& pool) {
  TOROID_USER_CHECK(static_cast<bool>(pool), "a scope of no pool: make one with MemPool(device) or graph_pool_handle()");
  scope_ = std::make_unique<device::PoolScope>(pool.impl());
}
MemPoolScope::~MemPoolScope() = default;

MemPool graph_pool_handle(const Device& device) { return MemPool(device); }
MemoryStats memory_stats(const Device& device) { return memory_of(device).stats(); }
void reset_peak_memory_stats(const Device& device) { memory_of(device).reset_peak(); }
void empty_cache(const Device& device) { memory_of(device).release_unused(); }
std::string memory_summary(const Device& device) { return memory_of(device).source().description() + ": " + memory_of(device).summary(); }

}  // namespace toroid
