#include "runtime/streams/group.h"

#include "runtime/streams/threads.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::runtime {

StreamGroup::~StreamGroup() {
    // A condition variable that the parent's threads wait for cannot be destroyed in a forked child.
    if (in_forked_child())
        (void)sync_.release(); // NOLINT: left where it is
}

void StreamGroup::lose(std::string cause) {
    {
        const std::lock_guard lock(sync_->mutex);
        if (lost_.load(std::memory_order_relaxed))
            return;
        cause_ = std::move(cause);
        if (!cause_.ends_with('.')) // what a callback threw is not a sentence of ours
            cause_ += '.';
        lost_.store(true, std::memory_order_release);
    }
    sync_->calm.notify_all();
}

void StreamGroup::throw_lost() const {
    throw ir::Failure(kind_,
                      fmt::format("{} is lost: {} Nothing more can be done on it in this process; other "
                                  "devices go on.",
                                  name_, cause_));
}

int StreamGroup::clamp_priority(int priority) {
    return std::clamp(priority, 1 - kLevels, 0);
}

bool StreamGroup::more_urgent(int priority) const {
    for (int level = 1 - priority; level < kLevels; ++level)
        if (busy_[static_cast<size_t>(level)].load() > 0)
            return true;
    return false;
}

void StreamGroup::set_busy(int priority, bool busy) {
    if (priority == 0)
        return; // nothing is less urgent
    std::atomic<int> &count = busy_[static_cast<size_t>(-priority)];
    if (busy) {
        ++count;
        return;
    }
    --count;
    wake();
}

void StreamGroup::give_way(int priority, const std::atomic<bool> &hurry) {
    if (!more_urgent(priority)) [[likely]]
        return;
    std::unique_lock lock(sync_->mutex);
    sync_->calm.wait(lock, [&] { return hurry.load() || lost() || !more_urgent(priority); });
}

void StreamGroup::wake() {
    {
        const std::lock_guard lock(sync_->mutex);
    }
    sync_->calm.notify_all();
}

} // namespace lz::runtime
