#include "dist/messages/message_mail.h"

#include <algorithm>
#include <thread>

#include "toroid/error.h"

namespace toroid::distributed::messages {

void MessageMail::post(const std::string& text) try {
  std::lock_guard lock(mutex_);
  if (!transport_) return;
  Batch& batch = under_way_.emplace_back(*transport_, tag_);
  for (int member : members_)
    if (member != transport_->rank()) batch.send(member, text.data(), static_cast<int64_t>(text.size()));
  std::erase_if(under_way_, [](Batch& b) { return b.poll(); });
} catch (const EnvironmentError&) {
  // Whoever waits for that rank is told.
}

std::optional<Mail::Letter> MessageMail::take() try {
  std::lock_guard lock(mutex_);
  if (!transport_) return std::nullopt;
  transport_->progress();
  return take_one();
} catch (const EnvironmentError&) {
  return std::nullopt;
}

// Strangers' letters are passed over.
std::optional<Mail::Letter> MessageMail::take_one() {
  while (const auto waiting = transport_->find(tag_)) {
    Batch batch(*transport_, tag_);
    const size_t place = batch.receive(waiting->from, waiting->bytes);
    while (!batch.poll()) std::this_thread::yield();  // it is here, at least its beginning
    const auto member = std::find(members_.begin(), members_.end(), waiting->from);
    if (member == members_.end()) continue;
    const auto content = batch.received(place);
    return Letter{static_cast<int>(member - members_.begin()), std::string(reinterpret_cast<const char*>(content.data()), content.size())};
  }
  return std::nullopt;
}

void MessageMail::end() {
  std::lock_guard lock(mutex_);
  if (!transport_) return;
  try {
    transport_->progress();
    while (take_one()) {
    }
  } catch (const EnvironmentError&) {
    // The transport has ended before.
  }
  under_way_.clear();
  transport_ = nullptr;
}

}  // namespace toroid::distributed::messages
