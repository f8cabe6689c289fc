#include "tensor/recorded_members.h"

#include <atomic>

namespace toroid {
namespace {
std::atomic<RecordedMembers*> members_installed{nullptr};
}

RecordedMembers* recorded_members() { return members_installed.load(std::memory_order_acquire); }
void install_recorded_members(RecordedMembers* m) { members_installed.store(m, std::memory_order_release); }

}  // namespace toroid
