#include "dist/local/mailboxes.h"

#include <utility>

namespace toroid::distributed::local {

class Mailboxes::End : public Mail {
 public:
  End(std::shared_ptr<Mailboxes> all, size_t rank) : all_(std::move(all)), rank_(rank) {}

  void post(const std::string& text) override {
    for (size_t r = 0; r < all_->boxes_.size(); ++r) {
      if (r == rank_) continue;
      Box& box = *all_->boxes_[r];
      std::lock_guard lock(box.mutex);
      box.letters.push_back({static_cast<int>(rank_), text});
      box.count.store(box.letters.size(), std::memory_order_release);
    }
  }

  std::optional<Letter> take() override {
    if (!may_have_come()) return std::nullopt;
    Box& box = *all_->boxes_[rank_];
    std::lock_guard lock(box.mutex);
    if (box.letters.empty()) return std::nullopt;
    Letter out = std::move(box.letters.front());
    box.letters.pop_front();
    box.count.store(box.letters.size(), std::memory_order_release);
    return out;
  }

  bool may_have_come() const override { return all_->boxes_[rank_]->count.load(std::memory_order_acquire) > 0; }

 private:
  const std::shared_ptr<Mailboxes> all_;
  const size_t rank_;
};

Mailboxes::Mailboxes(int ranks) {
  for (int r = 0; r < ranks; ++r) boxes_.push_back(std::make_unique<Box>());
}
Mailboxes::~Mailboxes() = default;

std::shared_ptr<Mail> Mailboxes::of(std::shared_ptr<Mailboxes> all, int rank) {
  return std::make_shared<End>(std::move(all), static_cast<size_t>(rank));
}

}  // namespace toroid::distributed::local
