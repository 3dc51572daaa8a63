#pragma once
/// What effects of the user's refer to. The runtime word of a record_event, wait_event or host_callback is
/// the address of one of these; whoever records the effect keeps it until the effect has run.

#include "runtime/api/backend.h"

#include <condition_variable>
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

    /// The user has recorded it, and nobody has launched that yet. `resolve` follows once for each: when the
    /// record has been launched, or will never be.
    void expect() {
        const std::lock_guard lock(mutex_);
        ++expected_;
    }
    void resolve() {
        const std::lock_guard lock(mutex_);
        if (--expected_ == 0)
            resolved_.notify_all();
    }
    bool expected() const {
        const std::lock_guard lock(mutex_);
        return expected_ > 0;
    }
    /// Waits until no record is expected. Whoever records must be about to launch on its own.
    void await_records() const {
        std::unique_lock lock(mutex_);
        resolved_.wait(lock, [this] { return expected_ == 0; });
    }

private:
    const bool timing_;
    mutable std::mutex mutex_;
    mutable std::condition_variable resolved_;
    Moment moment_;
    int64_t expected_ = 0;
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
