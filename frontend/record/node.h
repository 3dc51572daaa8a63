#pragma once
/// What recording makes: one Node an operation, one arena object each.
///
/// **Ownership.** `refs` has two counts in one word. The low half are *uses* of the value: edges from
/// consumers that are alive, and cells whose current version it is. When it falls to 0 nobody can reach the
/// value: the node gives up its operands and storage and leaves its thread's pending list. The high half are
/// *holds* of the memory: one while the uses are not 0, one while the embedded cell has handles, and for a
/// projection one of the node whose result it is. When both are 0 the memory goes back to the arena.
///
/// **Several results.** The node itself is the first one, and each other one is a *projection* that uses it.
/// It knows its projections without using them: a sync that claims it claims all that somebody can still ask
/// for, so that they are computed together, and once.
///
/// **Threads.** Everything but the atomics is written before the node is published by a handle, or by the
/// thread that claimed it (see sync.cpp). The pending list belongs to the recording thread.

#include "ir/graph/checks.h"
#include "ir/location.h"
#include "ir/op.h"
#include "ir/stream.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

namespace lz::detail {

struct Node;
struct Step;
struct Storage;
class Recorder;
struct FailureRecord;

/// What a tensor handle points to: a variable whose current version is a node. `b = a` shares the cell; an
/// in-place form replaces `current`, and `history` with it.
struct Cell {
    std::atomic<uint32_t> handles{0};
    uint16_t result = 0; ///< which result of `history` the current version is
    bool alone = false;  ///< in memory of its own, not inside a node: another tensor of a value that is there
    bool keeps_grad = false; ///< `history` keeps a gradient for this tensor, which goes when the tensor goes
    Node *current = nullptr;
    /// How backward goes on from the current version (autograd/step.h); null where no gradient is wanted.
    Step *history = nullptr;
};

enum class State : uint8_t {
    Pending, ///< recorded; operands are held
    Claimed, ///< a sync is computing it
    Ready,   ///< has storage
    Failed,  ///< has a failure
    Stopped, ///< has a failure and storage, and becomes Ready or Failed: execution/stopped.h
};
/// No value now: who reads it is told why.
inline bool has_failed(State state) {
    return state >= State::Failed;
}

/// A word of a node with two lives. While the value can be reached it is the epoch of the sync that last
/// looked at it; when nobody can reach it any more it links the nodes that are being destroyed, which no
/// epoch equals. A sync may look at the mark of a node that another thread destroys meanwhile.
class Mark {
public:
    Mark &operator=(uint64_t epoch) {
        word_.store(epoch, std::memory_order_relaxed);
        return *this;
    }
    operator uint64_t() const { return word_.load(std::memory_order_relaxed); } // NOLINT: converts
    void link(Node *next) {
        word_.store(reinterpret_cast<uintptr_t>(next) | kLink, std::memory_order_relaxed);
    }
    Node *next() const {
        return reinterpret_cast<Node *>(word_.load(std::memory_order_relaxed) &
                                        ~kLink); // NOLINT: from a pointer
    }

private:
    static constexpr uint64_t kLink = uint64_t{1} << 63;
    std::atomic<uint64_t> word_{0};
};

struct Node {
    static constexpr uint64_t kUse = 1;
    static constexpr uint64_t kHold = uint64_t{1} << 32;

    // What recording and letting go need.
    Cell cell;
    Node *prev = nullptr, *next = nullptr; ///< pending list of `owner`
    Recorder *owner = nullptr;             ///< the recorder that made it, for good; nullptr if none did
    ir::Location loc;
    // What every walk of a sync needs, in a cache line of its own.
    std::atomic<uint64_t> refs;
    Storage *storage = nullptr;       ///< Ready or Stopped
    FailureRecord *failure = nullptr; ///< Failed or Stopped; of a Ready node it is over
    /// The version that an in-place form replaced by this one (a use), until this one is ready: where the
    /// handle goes back to should this one fail (S26).
    Node *fallback = nullptr;
    int16_t stream = ir::kNoStream;
    uint16_t projection = 0; ///< k > 0: result k of operand 0, which is a node with several results
    std::atomic<State> state{State::Pending};
    ir::Op op;
    uint8_t size_class = 0;
    // Written before anybody else knows the node.
    bool several : 1 = false; ///< has results beyond its own, which projections of it are
    bool pinned : 1 = false;  ///< its value is wanted in page-locked memory
    bool like : 1 = false;    ///< an update of a part: its last operand is the slice that reads the part, and
                              ///< is only there to say that both have the same starts
    bool is_view : 1 = false; ///< view_warnings.h knows what it is a view of
    bool may_fail : 1 = false; ///< it itself, or what it is computed from, has checks at run time
    bool linked = false;       ///< in the list of `owner`: that thread's business alone
    /// Ready, but what computes it may still fail (sync.cpp: flights).
    std::atomic<bool> in_flight{false};
    uint16_t num_operands = 0, num_structural = 0, num_runtime = 0;
    // Scratch of the sync that looks at it, valid under the sync lock when mark equals the sync's epoch.
    uint32_t index = 0;
    uint32_t inner_uses = 0;
    Mark mark;
    ir::TensorType type;

    // Trailing: Node *operands[num_operands]; int64_t structural[num_structural]; int64_t
    // runtime[num_runtime]; of a node with several results its projections
    Node **operand_data() { return reinterpret_cast<Node **>(this + 1); }
    int64_t *structural_data() { return reinterpret_cast<int64_t *>(operand_data() + num_operands); }
    int64_t *runtime_data() { return structural_data() + num_structural; }
    /// Of a node that is computed already there are none, or null pointers.
    std::span<Node *> operands() { return {operand_data(), num_operands}; }
    /// Those whose values it reads.
    std::span<Node *> read_operands() { return operands().first(num_operands - (like ? 1u : 0u)); }
    /// Of a node with several results: projection 1 and so on; null where none was made.
    std::span<Node *> projections() {
        const auto count = several ? static_cast<size_t>(ir::num_results(attrs())) - 1 : size_t{0};
        return {reinterpret_cast<Node **>(runtime_data() + num_runtime), count};
    }
    ir::AttrView attrs() { return {op, {structural_data(), num_structural}, {runtime_data(), num_runtime}}; }
    uint32_t uses() const { return static_cast<uint32_t>(refs.load(std::memory_order_acquire)); }
    bool pending() const { return state.load(std::memory_order_acquire) == State::Pending; }
};
static_assert(alignof(Node) == 8 && sizeof(Node) <= 216,
              "one size class holds a node with five words of operands and attributes");
static_assert(offsetof(Node, refs) == 64 && offsetof(Node, type) == 128,
              "each begins a cache line: nodes are 64-byte aligned");

/// Whose streams run it: a transfer is the work of the GPU that is written, or of the one that is read.
inline ir::Device device_of_work(Node *n) {
    return n->op == ir::Op::Transfer && n->num_operands == 1 && n->type.device == ir::kCpu
               ? n->operand_data()[0]->type.device
               : n->type.device;
}

/// The stream of its own that a node names.
inline ir::StreamRef stream_of(Node *n) {
    return {device_of_work(n), n->stream};
}
/// The stream that a WaitStream waits for.
inline ir::StreamRef waited_for(Node *n) {
    return {ir::device_from_word(n->structural_data()[ir::attr::kWaitStreamOf]),
            static_cast<int32_t>(n->structural_data()[ir::attr::kWaitStreamStream])};
}

inline bool has_checks(const Node *n) {
    return ir::has_checks(n->op, n->type.dtype);
}

inline void add_use(Node *n) {
    n->refs.fetch_add(Node::kUse, std::memory_order_relaxed);
}
/// A use of a node that the caller knows from its own list alone: false, and none taken, if its last one has
/// gone meanwhile.
inline bool try_add_use(Node *n) {
    if (static_cast<uint32_t>(n->refs.fetch_add(Node::kUse, std::memory_order_acquire)) != 0)
        return true;
    n->refs.fetch_sub(Node::kUse, std::memory_order_relaxed);
    return false;
}
/// May destroy the node, its operands and so on, without recursion.
void drop_use(Node *n);
/// A node gives back its memory when the last hold goes.
void drop_hold(Node *n);
/// What a handle means whose current version failed (S26): the newest version that did not, if there is one
/// and the thread that launched it knows of the failure; else the failed one. The cell is not changed, so
/// that several threads may read it; it keeps both versions.
Node *newest_that_did_not_fail(Node *failed);
/// Called when the last handle of a cell goes.
void drop_cell(Cell *cell);
/// A cell of its own memory, with one handle, whose current version is `node`, which gets a use: another
/// tensor of the same value. Where `history` is given it gets a reference.
Cell *make_alias(Node *node, Step *history = nullptr, uint16_t result = 0);
/// The same of a use that the caller has, which is the cell's from now on.
Cell *make_alias_of_use(Node *node, Step *history = nullptr, uint16_t result = 0);

/// The node that an embedded cell is a part of.
inline Node *home(Cell *cell) {
    return reinterpret_cast<Node *>(reinterpret_cast<char *>(cell) - offsetof(Node, cell));
}

} // namespace lz::detail
