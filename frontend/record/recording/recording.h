#pragma once
/// A recording in canonical form: what a sync claimed, in topological order, with the key by which its
/// Program is found. Node numbers in the key are positions of first encounter, inputs and operations counted
/// together. Members stand by what they are for: claim.cpp, key.cpp, results.cpp, graph.cpp.

#include "frontend/engine/engine.h"
#include "frontend/record/recorder.h"
#include "ir/graph/graph.h"

#include <cstdint>
#include <mutex>
#include <vector>

namespace lz::detail {

class Recording;

/// Is told of a recording that is found or compiled, bound, and about to be launched.
class RunObserver {
public:
    /// Every node that is not an input is claimed and has no storage yet.
    virtual void run(const Recording &recording, const engine::ExecutablePtr &executable) noexcept = 0;

protected:
    ~RunObserver() = default;
};

/// Claims and linearises under the process-wide sync lock. One object is one sync; its vectors are the
/// thread's, so that a steady loop allocates nothing. What it claims is pending again when it goes, unless
/// `settled` was called: whatever is thrown, nobody waits for a node for ever.
class Recording {
    struct Scratch;

public:
    struct Input {
        Node *node;
        uint32_t index; ///< its number in the key
        uint32_t key_at;
        int32_t storage_group; ///< the input with the same storage that came first, or -1
        bool donated;
        uint32_t donated_to = ir::kNone; ///< as ir::Param::donated_to
        bool kept = false;               ///< as ir::Param::kept
    };
    /// Its node stays while the recording does: a later operation reads it, or it is `held`.
    struct Operation {
        Node *node;
        uint32_t index;
        uint32_t key_at;
        bool wanted;
        bool argument; ///< a ready number on the CPU beside operands on a GPU: its value goes into `words`
                       ///< (S07)
        bool held;     ///< the recording has a use of it
        bool for_versions = false; ///< wanted for keep_versions alone
    };

    /// A wanted reshape of an input: it gets the input's storage, and nothing is computed.
    struct Alias {
        Node *node;
        Node *source;
    };

    /// Room for what a run of it binds.
    struct Bound {
        std::vector<void *> inputs, results;
        std::vector<ir::MemoryUse *> input_uses, result_uses;
        std::vector<Storage *> storages; ///< of the results
    };

    /// Makes what a thread keeps for its syncs.
    static void prepare_thread();

    /// Takes the sync lock; it is held until `release_lock` or the end.
    Recording();
    ~Recording();
    Recording(const Recording &) = delete;
    Recording &operator=(const Recording &) = delete;

    /// Claims the calling thread's pending nodes up to (not including) `stop`, and what they need of other
    /// threads'.
    void claim_list(Recorder &recorder, const Node *stop);
    /// Claims one node and what it needs.
    void claim(Node *node);
    /// The same for several, the calling thread's in the order in which they were recorded, which is that of
    /// the user's streams (S41).
    void claim_in_order(Recorder &recorder, std::span<Node *const> nodes);
    /// After the claims: marks wanted results and donated inputs, finishes the key. `share`: a reshape of a
    /// value that is there shares its storage; else it is a result like any other.
    void finish(bool share = true);
    void release_lock();

    bool empty() const { return operations.empty(); }
    /// Whether a Program has something to do.
    bool computes() const { return !wanted.empty() || has_effects_; }
    /// Nodes claimed by other syncs; they are inputs here.
    bool awaits() const { return !awaited.empty(); }
    /// Blocks until they are done; false if one did not become ready (then unclaim and try again).
    bool wait();
    /// Gives every claimed node that has not failed back as pending, in its list's place. The end of it.
    void unclaim() noexcept;
    /// Every claimed node is Ready or Failed, or belongs to those that are; the recording's uses are the
    /// caller's to drop.
    void settled() { claims_ = false; }
    /// Every operation is `held` from here on: none goes when one that reads it lets go of it.
    void hold_all() noexcept;

    /// The Graph of the recording (a Program miss, dumps). Needs no lock: it reads numbers from the key,
    /// never the nodes' scratch, which belongs to whoever holds the lock.
    enum class StreamNames : uint8_t { Canonical, Real };
    ir::Graph build_graph(StreamNames names = StreamNames::Canonical) const;

    RunObserver *observer = nullptr; ///< of who runs it
    /// Words of the key that were there before `finish`: the claimed operations and what they read.
    size_t claimed_words = 0;

    std::vector<Operation> &operations;
    std::vector<Input> &inputs;
    std::vector<uint64_t> &key;
    std::vector<int64_t> &words;
    std::vector<uint32_t> &wanted; ///< positions in operations, in order
    std::vector<Alias> &aliases;
    Bound &bound;
    /// The user's streams that it names, by device. In the key and in the Graph their numbers are canonical:
    /// the first of a device is kFirstUserStream, the second one more, so that a loop that opens a stream in
    /// each turn finds its Programs again.
    std::vector<ir::StreamRef> &streams;

private:
    explicit Recording(Scratch &scratch);
    static Scratch &take_scratch();
    static void return_scratch(Scratch *scratch);

    /// Number of an operation's operand, from the key.
    uint32_t operand_index(const Operation &operation, size_t operand) const {
        return static_cast<uint32_t>(key[operation.key_at + 1 + operand / 2] >> (32 * (operand % 2)));
    }
    /// Claims a node, of which the recording has a use already, and what it needs.
    void claim_held(Node *root);
    void visit(Node *root);
    static void hold(Operation &operation) noexcept {
        if (!operation.held) {
            operation.held = true;
            add_use(operation.node);
        }
    }
    void add_operation(Node *node);
    void add_words(Node *node);
    void claim_projections(Node *node);
    void note_like(Node *node);
    void add_input(Node *node, const Node *user);
    void append_input(Node *node, uint64_t tag, int32_t storage_group);
    void add_overwritten(Node *node, uint32_t donated_to, bool kept);
    void keep_versions();
    void keep_fallbacks();
    Node *shared_source(Node *node) const;
    std::vector<bool> find_losable() const;
    /// As an operation: its fields are this sync's alone.
    bool is_claimed_here(const Node *node) const;
    bool is_argument(const Node *node, const Node *user) const;
    void add_argument(Node *node);
    /// A number for an event of the user's, in the order of first encounter.
    uint64_t event_number(int64_t word);
    /// The canonical number of a stream.
    int32_t canonical(ir::StreamRef stream) const;
    void note_stream(ir::StreamRef stream);
    void note_streams(Node *node);
    uint64_t operation_word(Node *node) const;
    bool needs_visit(const Node *operand) const;

    std::vector<Node *> &awaited;
    std::vector<Node *> &stack;
    std::vector<int64_t> &events;
    std::vector<Node *> &spare; ///< uses that are no operation's
    Scratch &scratch_;
    Node *held_ = nullptr; ///< its use is taken already
    bool claims_ = true;   ///< what it claimed is still to be settled
    bool has_effects_ = false;
    bool has_fallbacks_ = false;
    std::unique_lock<std::mutex> lock_;
    uint64_t epoch_;
    uint32_t next_index_ = 0;
    /// An operation may fail while it runs: what handles go back to is overwritten by nothing but the version
    /// that replaces it, and not if that is lost.
    bool may_fault_ = false;
    /// An input may turn out to be lost: what handles go back to is not overwritten at all.
    bool input_may_fault_ = false;
};

/// A graph of many nodes does not stay in a core's cache from one walk to the next.
inline void prefetch(const Node *node) {
    for (size_t line = 0; line < sizeof(Node); line += 64)
        __builtin_prefetch(reinterpret_cast<const char *>(node) + line, 1);
}
constexpr size_t kAhead = 8;
inline void prefetch_ahead(const std::vector<Recording::Operation> &operations, size_t at) {
    if (at + kAhead < operations.size())
        prefetch(operations[at + kAhead].node);
}

/// Effects are the last rows of the op table.
inline bool is_effect(const Node *node) {
    return node->op >= ir::Op::RecordEvent;
}
static_assert(static_cast<int>(ir::Op::RecordEvent) + 1 == static_cast<int>(ir::Op::WaitEvent) &&
                  static_cast<int>(ir::Op::WaitStream) + 1 == static_cast<int>(ir::Op::HostCallback),
              "is_effect knows the order of the op table");

} // namespace lz::detail
