#pragma once
/// What effects of the user's refer to. The runtime word of a record_event, wait_event or host_callback is
/// the address of one of these; whoever records the effect keeps it until the effect has run.

#include "runtime/api/backend.h"

#include <functional>
#include <memory>
#include <mutex>

namespace lz::runtime {

class UserEvent {
public:
    /// The last moment at which it was recorded; `backend` is null when it never was.
    struct Moment {
        Backend *backend = nullptr;
        Point point;
        std::shared_ptr<Timestamp> time; ///< null unless timing was asked for
    };

    explicit UserEvent(bool timing) : timing_(timing) {}
    bool timing() const { return timing_; }
    void set(Moment moment) {
        const std::lock_guard lock(mutex_);
        moment_ = std::move(moment);
    }
    Moment get() const {
        const std::lock_guard lock(mutex_);
        return moment_;
    }

private:
    const bool timing_;
    mutable std::mutex mutex_;
    Moment moment_;
};

struct UserCallback {
    std::function<void()> function;
};

inline int64_t effect_word(const UserEvent *event) {
    return static_cast<int64_t>(reinterpret_cast<intptr_t>(event));
}
inline int64_t effect_word(const UserCallback *callback) {
    return static_cast<int64_t>(reinterpret_cast<intptr_t>(callback));
}

} // namespace lz::runtime
