#include "toroid/tensor_notes.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "tensor/tensor_impl.h"

namespace toroid::detail {
namespace {

// By tensor, for as long as it lives.
class TensorNotes {
 public:
  struct Note {
    std::weak_ptr<TensorImpl> tensor;
    std::string replaced;
    int trainers = 0;
    std::function<std::string()> held = {};
  };

  template <class F>
  void change(const Tensor& t, F&& f) {
    if (!t.defined()) return;
    std::lock_guard lock(mutex_);
    if (notes_.size() >= next_sweep_) {
      std::erase_if(notes_, [](auto& n) { return n.second.tensor.expired(); });
      next_sweep_ = std::max<size_t>(2 * notes_.size(), 64);
    }
    Note& note = notes_[t.impl()];
    if (note.tensor.lock().get() != t.impl()) note = {t.shared_impl(), {}, 0, {}};  // another one had the address
    f(note);
  }
  Note of(const Tensor& t) {
    std::lock_guard lock(mutex_);
    const auto it = notes_.find(t.impl());
    return it != notes_.end() && it->second.tensor.lock().get() == t.impl() ? it->second : Note();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const TensorImpl*, Note> notes_;
  size_t next_sweep_ = 64;
};

TensorNotes& notes() {
  static TensorNotes& n = *new TensorNotes;  // never destroyed: threads may outlive main
  return n;
}

}  // namespace

void note_replaced(const Tensor& t, const std::string& where) {
  notes().change(t, [&](auto& n) { n.replaced = where; });
}
void withdraw_replaced(const Tensor& t) {
  notes().change(t, [](auto& n) {
    n.replaced.clear();
    n.held = nullptr;
  });
}
void note_held(const Tensor& t, std::function<std::string()> replaced) {
  notes().change(t, [&](auto& n) { n.held = std::move(replaced); });
}
std::string replaced(const Tensor& t) {
  const auto note = notes().of(t);
  return note.replaced.empty() && note.held ? note.held() : note.replaced;
}

void note_trained(const Tensor& t) {
  notes().change(t, [](auto& n) { ++n.trainers; });
}
void withdraw_trained(const Tensor& t) {
  notes().change(t, [](auto& n) { n.trainers = std::max(n.trainers - 1, 0); });
}
bool is_trained(const Tensor& t) { return notes().of(t).trainers > 0; }

}  // namespace toroid::detail
