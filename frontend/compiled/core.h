#pragma once
/// What a compiled function knows. For this folder alone.

#include "frontend/compiled/plan.h"
#include "frontend/compiled/signature.h"
#include "lazuli/compiled.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lz::detail {

/// What is known of one signature.
struct CompiledEntry {
    /// Plans that two recordings agreed on, the last used first.
    static constexpr size_t kPlans = 16;
    /// The first recording and the last ones.
    static constexpr size_t kRecordings = 6;
    /// So many recordings without a plan in between, and the function is not watched any more.
    static constexpr int kTries = 32;

    explicit CompiledEntry(Signature s) : signature(std::move(s)) {}

    const Signature signature;
    std::vector<CompiledPlanPtr> plans;
    std::vector<CompiledPlanPtr> recordings;
    int tries = 0;
    std::string why; ///< a recording was not kept, or agreed with none
};

/// Counts changes of what functions look at on the host.
uint64_t host_state_now();

/// What is let go under the lock, and destroyed without it: a plan may hold the last reference to what a user
/// captured, whose destructor may call anything.
using Forgotten = std::vector<std::shared_ptr<const void>>;

/// The plan that the last call replayed, for the next one to begin with: who takes it needs neither the lock
/// nor a reference of its own. One call at a time has it; others look for theirs under the lock.
class LastPlan {
public:
    /// False: another call has it.
    bool take() {
        return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
    }
    void give_back() { taken_.store(false, std::memory_order_release); }

    // Of the call that has it.
    CompiledPlanPtr plan; ///< the first one of `entry`; null: none
    std::shared_ptr<const CompiledEntry> entry;
    uint64_t generation = 0; ///< of CompiledCore, when it was found

    void count() { replays_.store(replays_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    /// Of any thread.
    int64_t replays() const { return replays_.load(std::memory_order_relaxed); }

private:
    std::atomic<bool> taken_ = false;
    std::atomic<int64_t> replays_ = 0;
};

struct CompiledCore {
    CompiledCore(const CompiledOptions &o, Location l) : options(o), loc(l) {}

    std::shared_ptr<CompiledEntry> find(const CompiledArguments &arguments, const RecordingModes &modes);
    CompiledEntry &find_or_add(const Signature &signature, Forgotten &forgotten);
    void check(const CompiledEntry &entry, CompiledPlan &plan) const;
    void keep(CompiledEntry &entry, std::shared_ptr<CompiledPlan> plan, Forgotten &forgotten);
    void note_failure(CompiledEntry &entry, const std::string &why, Location where);

    const CompiledOptions options;
    const Location loc;
    mutable std::mutex mutex;
    std::vector<std::shared_ptr<CompiledEntry>> entries; ///< the last used first
    /// Counts changes of which plan a call finds first, under the lock.
    std::atomic<uint64_t> generation = 0;
    LastPlan last;
    CompiledStats stats;
    int64_t replays = 0; ///< without those of `last`; also those that are under way
    int until_check = 0;
    int64_t dropped = 0; ///< signatures with plans that there was no room for (CompiledOptions::signatures)
};

} // namespace lz::detail
