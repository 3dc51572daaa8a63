#pragma once
/// One run of a Program, as whoever asks for it and whoever does it see it: what it binds, and what it tells.

#include "ir/diagnostic.h"
#include "ir/program/memory_use.h"
#include "ir/stream.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lz::ir {

/// Results that stand or fall together where a device refuses a call for good (S26). Asked only then.
class FailureGroups {
public:
    /// By result: the number of its group, kNone for one that stands alone. As long as no result of any group
    /// has been written over its donor, all groups are one.
    virtual void groups(std::span<uint32_t> group) const = 0;

protected:
    ~FailureGroups() = default;
};

/// Where inputs are and where results go.
struct Bindings {
    std::span<void *const> inputs;  ///< by graph parameter
    std::span<void *const> results; ///< by graph result; for a result with a donor, the donor's memory
    std::span<const int64_t> words; ///< the Program's runtime words
    /// The user's lines by recorded index, for profiles; may be empty.
    std::span<const Location> lines = {};
    /// Earlier uses of the inputs' and results' memory, noted again by the run. Empty, or null for one:
    /// nothing is pending. Results of a Program that runs on streams need theirs.
    std::span<MemoryUse *const> input_uses = {};
    std::span<MemoryUse *const> result_uses = {};
    /// The moments after which everything that the run put on streams is over are appended here, if not null.
    std::vector<Point> *ends = nullptr;
    /// What Program::user_streams stand for in this run, each another stream of the same device; empty:
    /// themselves.
    std::span<const StreamRef> streams = {};
    /// Null: each result stands alone, and the run never stops.
    const FailureGroups *failure_groups = nullptr;
};

/// What went wrong while a Program ran. Results that are not named are right.
struct RunReport {
    struct Failed {
        Failure failure;               ///< node() is the recorded index, where one is known
        std::vector<uint32_t> results; ///< graph results that could not be computed because of it, ascending
    };
    std::vector<Failed> failures; ///< in the order of the steps that failed
    /// A result that is lost because an input was.
    struct Inherited {
        uint32_t result, input;
    };
    std::vector<Inherited> inherited;
    /// Where a call was refused: results of which all, a part, or an intermediate value was written where the
    /// donor was. That is lost.
    std::vector<uint32_t> overwritten;
    /// A device refused a call for good: what is lost together goes back to what it was before the run.
    bool refused = false;
    bool ok() const { return failures.empty() && inherited.empty(); }
};

/// A run on streams in which something may still fail: it is looked at when it is over. It keeps what it
/// runs.
class Flight {
public:
    virtual ~Flight() = default;
    virtual bool done() = 0;
    virtual void wait() = 0;
    /// Waits; then what went wrong. Once. `lost_inputs` are parameters whose values turned out to be lost:
    /// what depends on them is lost too.
    virtual RunReport finish(std::span<const uint32_t> lost_inputs) = 0;
};

/// A run of which a device refused a call for good after an earlier call had changed in place what the user
/// can see. What was put is over; the calls from that one on wait for `resume`. It keeps what it runs, its
/// arenas, and copies of all that it binds; the memory of inputs and results and its uses are the caller's to
/// keep, and inputs are not to be written meanwhile.
class StoppedRun {
public:
    virtual ~StoppedRun() = default;
    /// By what it was refused last. node() as in RunReport.
    virtual const Failure &why() const = 0;
    /// Another place where the input's value is, from here on.
    virtual void move_input(uint32_t input, void *data) = 0;
    /// Goes on to the end. False: refused again, or the host has no memory to begin. True, once: `report` as
    /// of Flight::finish. Throws Failure(State) in a forked child, bad_alloc if nobody knows what was done.
    virtual bool resume(std::span<const uint32_t> lost_inputs, RunReport &report) = 0;
};

/// What a run left behind.
struct Launched {
    RunReport report; ///< what is known already
    /// Not null when something may still show: an index out of range on a device, a lost input.
    std::unique_ptr<Flight> flight;
    /// Not null when it stopped: then nothing else is known of it.
    std::unique_ptr<StoppedRun> stopped;
};

} // namespace lz::ir
