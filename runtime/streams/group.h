#pragma once
/// What the streams of one device share when they run on threads of the host: whether the device is lost, and
/// which streams are more urgent than others.

#include "ir/diagnostic.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

namespace lz::runtime {

class StreamGroup {
public:
    /// `name` is that of the device; `kind` of the failures that say that it is lost.
    StreamGroup(std::string name, ir::ErrorKind kind)
        : name_(std::move(name)), kind_(kind), sync_(std::make_unique<Sync>()) {}
    ~StreamGroup();
    StreamGroup(const StreamGroup &) = delete;
    StreamGroup &operator=(const StreamGroup &) = delete;

    const std::string &name() const { return name_; }

    /// From now on nothing that is on the streams or comes is done. `cause` is a sentence; the first one
    /// stays.
    void lose(std::string cause);
    bool lost() const { return lost_.load(std::memory_order_acquire); }
    /// Throws that the device is lost when it is.
    void check() const {
        if (lost()) [[unlikely]]
            throw_lost();
    }

    /// A stream of this priority has work that could run, or (false) has none any more or waits.
    void set_busy(int priority, bool busy);
    /// Work of this priority waits here while a more urgent stream is busy; until `hurry` is set and `wake`
    /// called.
    void give_way(int priority, const std::atomic<bool> &hurry);
    void wake();

    /// CUDA's range: 0 is normal, -5 the most urgent.
    static int clamp_priority(int priority);

private:
    static constexpr int kLevels = 6;
    struct Sync {
        std::mutex mutex;
        std::condition_variable calm;
    };
    [[noreturn]] void throw_lost() const;
    bool more_urgent(int priority) const;

    const std::string name_;
    const ir::ErrorKind kind_;
    std::unique_ptr<Sync> sync_;
    std::atomic<bool> lost_{false};
    std::string cause_;                            ///< written before lost_ is set
    std::array<std::atomic<int>, kLevels> busy_{}; ///< streams of priority -i that are busy
};

} // namespace lz::runtime
