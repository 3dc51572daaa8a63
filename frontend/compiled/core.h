#pragma once
/// What a compiled function knows. For this folder alone.

#include "frontend/compiled/learn.h"
#include "frontend/compiled/plan.h"
#include "frontend/compiled/signature.h"
#include "lazuli/compiled.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lz::detail {

/// What is known of the calls of one form, whatever their sizes.
struct CompiledForm {
    explicit CompiledForm(Signature first) : signature(std::move(first)) {}

    const Signature signature; ///< of any sizes
    AcrossSizes across;
    uint64_t learned = 0; ///< counts changes of `across`
    int tries = 0;        ///< recordings that could not be kept
    uint64_t used = 0;    ///< of CompiledCore's clock
};

/// What is known of the calls of one signature, with its sizes.
struct CompiledEntry {
    /// Plans that two recordings agreed on, the last used first.
    static constexpr size_t kPlans = 16;
    /// The first recording and the last ones.
    static constexpr size_t kRecordings = 6;
    /// So many recordings without a plan in between, and the function is not watched any more.
    static constexpr int kTries = 32;

    CompiledEntry(Signature s, std::shared_ptr<CompiledForm> f)
        : signature(std::move(s)), form(std::move(f)) {}

    const Signature signature;
    const std::shared_ptr<CompiledForm> form;
    std::vector<CompiledPlanPtr> plans;
    std::vector<std::shared_ptr<CompiledPlan>> recordings;
    int tries = 0;
    uint64_t learned = 0; ///< of `form`, when the only recording was compared with it
    uint64_t used = 0;    ///< of CompiledCore's clock
    std::string why;      ///< a recording was not kept, or agreed with none

    /// Nothing that it recorded could be kept, too often.
    bool is_given_up() const { return tries >= kTries || (form->learned == 0 && form->tries >= kTries); }
};

/// Counts changes of what functions look at on the host.
uint64_t host_state_now();

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
    /// The last used first.
    std::vector<const CompiledEntry *> sorted_entries() const;

    /// Plans take no more memory than this, if there is more than one.
    static constexpr size_t kPlanBytes = size_t{64} << 20;
    /// So many recordings, and those that are dead are looked for.
    static constexpr int kKept = 16;

    const CompiledOptions options;
    const Location loc;
    mutable std::mutex mutex;
    std::unordered_multimap<uint64_t, std::shared_ptr<CompiledEntry>> entries; ///< by hash of the signature
    std::vector<std::shared_ptr<CompiledForm>> forms;
    uint64_t clock = 0;
    size_t plan_bytes = 0;
    int kept = 0; ///< recordings since those that are dead were looked for
    /// Counts changes of which plan a call finds first, under the lock.
    std::atomic<uint64_t> generation = 0;
    LastPlan last;
    CompiledStats stats;
    int64_t replays = 0; ///< without those of `last`; also those that are under way
    int until_check = 0;
    int64_t dropped = 0; ///< signatures with plans that there was no room for (CompiledOptions)

private:
    std::shared_ptr<CompiledForm> form_of(const Signature &signature, Forgotten &forgotten);
    void confirm_by_other_sizes(CompiledEntry &entry);
    bool is_confirmed(CompiledEntry &entry, CompiledPlan &plan, Forgotten &forgotten);
    void add_plan(CompiledEntry &entry, CompiledPlanPtr plan, Forgotten &forgotten);
    void forget_oldest(Forgotten &forgotten);
    void forget_dead(Forgotten &forgotten);
    using Entries = decltype(entries);
    Entries::iterator forget(Entries::iterator at, Forgotten &forgotten);
};

} // namespace lz::detail
