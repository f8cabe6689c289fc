#include "dist/messages/batch.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace toroid::distributed::messages {
namespace {

std::mutex& leftover_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

// Never destroyed: a transport may hold this memory until the process ends.
template <class Message>
std::vector<Message>& leftovers() {
  static auto& all = *new std::vector<Message>;
  return all;
}

}  // namespace

Batch::~Batch() {
  for (Message& m : messages_) {
    if (!m.request) continue;
    transport_.cancel(m.request);
    std::lock_guard lock(leftover_mutex());
    leftovers<Message>().push_back(std::move(m));
  }
}

size_t Batch::sweep() {
  std::lock_guard lock(leftover_mutex());
  auto& all = leftovers<Message>();
  std::erase_if(all, [](Message& m) {
    m.transport->progress();
    return m.transport->test(m.request).has_value();
  });
  return all.size();
}

void Batch::abandon(const Transport& transport) {
  static auto& kept = *new std::vector<std::unique_ptr<std::byte[]>>;  // never destroyed, as above
  std::lock_guard lock(leftover_mutex());
  std::erase_if(leftovers<Message>(), [&](Message& m) {
    if (m.transport != &transport) return false;
    kept.push_back(std::move(m.memory));
    return true;
  });
}

Transport::~Transport() { Batch::abandon(*this); }

void Batch::send(int to, const void* data, int64_t bytes) {
  Message m{.transport = &transport_,
            .rank = to,
            .is_receive = false,
            .memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes))};
  std::memcpy(m.memory.get(), data, static_cast<size_t>(bytes));
  m.request = transport_.send(m.memory.get(), bytes, to, tag_);
  messages_.push_back(std::move(m));
}

size_t Batch::receive(int from, int64_t bytes) {
  Message m{.transport = &transport_,
            .rank = from,
            .is_receive = true,
            .memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes))};
  m.request = transport_.receive(m.memory.get(), bytes, from, tag_);
  receives_.push_back(messages_.size());
  messages_.push_back(std::move(m));
  return receives_.size() - 1;
}

bool Batch::poll() {
  transport_.progress();
  for (size_t i = first_open_; i < messages_.size(); ++i) {
    Message& m = messages_[i];
    if (m.request) m.bytes = transport_.test(m.request).value_or(0);
    if (!m.request && i == first_open_) ++first_open_;
  }
  return first_open_ == messages_.size();
}

std::vector<int> Batch::awaited(bool receives) const {
  std::vector<int> out;
  for (auto& m : messages_)
    if (m.request && m.is_receive == receives) out.push_back(m.rank);
  return out;
}

std::span<const std::byte> Batch::received(size_t place) const {
  const Message& m = messages_[receives_[place]];
  return {m.memory.get(), static_cast<size_t>(m.bytes)};
}

}  // namespace toroid::distributed::messages
