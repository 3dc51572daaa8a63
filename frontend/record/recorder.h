#pragma once
/// The recorder of a thread: its list of pending operations in the order they were written.
///
/// The list owns nothing: a node that nobody can reach any more leaves it. Only the owning thread links and
/// unlinks; another thread that drops the last use of a node pushes it on `foreign_dead`, and the owner
/// unlinks and frees it later, pending or not: Node::owner never changes, so that nobody has to agree on when
/// a node left the list. When a thread ends, what it told streams to do is launched, other pending values are
/// left to whoever reads them, and its recorder is kept for the next thread that starts recording.

#include "frontend/record/node.h"
#include "ir/host/hot_tls.h"
#include "ir/stream.h"
#include "lazuli/core/location.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace lz::detail {

class Trace;

class Recorder {
public:
    /// The calling thread's.
    static Recorder &current() {
        if (Recorder *r = current_) [[likely]]
            return *r;
        return attach();
    }
    /// The calling thread's, or nullptr when it never recorded (or is ending).
    static Recorder *current_or_null() { return current_; }

    void append(Node *node) {
        node->owner = this;
        node->linked = true;
        node->prev = tail_;
        (tail_ ? tail_->next : head_) = node;
        tail_ = node;
        ++count_;
        ++recorded_;
    }
    void unlink(Node *node) {
        (node->prev ? node->prev->next : head_) = node->next;
        (node->next ? node->next->prev : tail_) = node->prev;
        node->prev = node->next = nullptr;
        node->linked = false;
        --count_;
    }
    Node *head() const { return head_; }
    Node *tail() const { return tail_; }
    uint32_t count() const { return count_; }
    /// How many operations this recorder has seen.
    uint64_t recorded() const { return recorded_; }

    /// Whether the user names streams now.
    bool names_streams() const { return named_streams_ != 0; }
    /// The user's stream for work on a device, or kNoStream (S41).
    int32_t stream(ir::Device device) const {
        return named_streams_ == 0 || device == ir::kCpu ? ir::kNoStream : user_stream(device);
    }
    /// kNoStream: none. `handle` keeps the stream alive until another one is set; its number stays taken
    /// until what was recorded on it has been launched.
    void set_stream(ir::Device device, int32_t stream, std::shared_ptr<void> handle);
    /// The handle of the user's stream, null where there is none.
    std::shared_ptr<void> stream_handle(ir::Device device) const {
        return device.index < streams_.size() ? streams_[device.index].handle : nullptr;
    }
    /// GPUs for which a stream may be named: those with a smaller index.
    size_t devices_with_streams() const { return streams_.size(); }

    /// Who is told of what is recorded (trace.h), or null.
    Trace *trace() const { return trace_; }
    /// What it was before.
    Trace *set_trace(Trace *trace) {
        Trace *const before = std::exchange(trace_, trace);
        find_whether_it_looks();
        return before;
    }

    /// Whether operations on tensors that want a gradient are kept for backward (S70).
    bool grad_mode() const { return grad_mode_; }
    /// What it was before.
    bool set_grad_mode(bool on) { return std::exchange(grad_mode_, on); }

    /// Index of the GPU that `cuda` means (S03).
    int current_gpu() const { return current_gpu_; }
    void set_current_gpu(int index) { current_gpu_ = index; }

    /// Effects have no handle: the recorder holds them, and what they refer to, until they have run.
    void expect_effect();
    /// After `expect_effect`: never throws.
    void hold_effect(Cell *effect, std::shared_ptr<void> payload) noexcept;
    bool has_effects() const { return !effects_.empty(); }
    /// Whether something is held for the sake of pending work.
    bool holds() const { return !effects_.empty() || !held_.empty(); }
    /// Lets go of what has been launched.
    void drop_done() noexcept;

    /// Called by a foreign thread for a node of this list whose value is dead; keeps the node's memory held.
    void push_foreign_dead(Node *node) {
        Node *next = foreign_dead_.load(std::memory_order_relaxed);
        do
            node->mark.link(next);
        while (!foreign_dead_.compare_exchange_weak(next, node, std::memory_order_release,
                                                    std::memory_order_relaxed));
    }
    /// Owner only: unlinks what other threads left.
    void drain_foreign_dead();

    /// S22: more pending nodes than this are launched on their own.
    static constexpr uint32_t kMaxPending = 65536;

    /// A pending operation reads a stored value of this size.
    void note_read(int64_t bytes) { read_bytes_ += bytes; }
    int64_t read_bytes() const { return read_bytes_; }
    /// S22: whether the pending operations may keep more memory alive than they should. What they read is an
    /// upper bound of what they alone keep; the truth (kept_bytes) is looked for when that has grown enough.
    bool may_keep_much() const { return read_bytes_ >= next_look_ && recorded_ >= next_look_at_; }
    /// Nothing is to be done after an operation was recorded: the usual case.
    bool is_within_limits() const { return count_ < max_pending_ && !may_keep_much(); }
    /// What the environment asks of every operation.
    struct RecordModes {
        bool launch_blocking = false, check_devices = false, warn_views = false;
    };
    const RecordModes &modes() const { return modes_; }
    /// Whether an operation is more than a node of the list now: streams are named, or a mode looks at each.
    bool looks_at_each() const { return looks_at_each_; }
    /// Under launch blocking: nothing is launched until it is set back. What it was before.
    bool set_overwriting(bool overwriting) { return std::exchange(overwriting_, overwriting); }
    bool overwriting() const { return overwriting_; }

    void looked(int64_t kept, int64_t limit) {
        next_look_ = read_bytes_ + limit - kept;
        // What is read again and again by many is not looked at each time.
        next_look_at_ = recorded_ + (kept > limit / 4 ? 1 : kLookEvery);
    }
    /// After `eval` of some values, and before a call of a compiled function. True: for so many times in a
    /// row something else has stayed pending, and it is to be launched (S22): what nobody asks for, as
    /// averages of weights, would else keep all values that it reads.
    bool leaves_too_often() {
        evals_with_rest_ = count_ > 0 ? evals_with_rest_ + 1 : 0;
        if (evals_with_rest_ < kMostEvalsWithRest)
            return false;
        evals_with_rest_ = 0;
        return true;
    }
    static constexpr uint32_t kMostEvalsWithRest = 16;
    /// What was pending has been launched.
    void forget_reads() {
        read_bytes_ = 0;
        next_look_ = kFirstLook;
        next_look_at_ = 0;
        evals_with_rest_ = 0;
    }

private:
    static Recorder &attach();
    void leave() noexcept;
    void reset();
    friend struct RecorderSlot;
    LZ_HOT_TLS static constinit thread_local Recorder *current_;

    Node *head_ = nullptr, *tail_ = nullptr;
    uint32_t count_ = 0;
    static constexpr uint32_t kLookEvery = 16;
    static constexpr int64_t kFirstLook = int64_t{1} << 20;
    RecordModes modes_;
    uint32_t max_pending_ = kMaxPending;
    uint32_t evals_with_rest_ = 0;
    bool overwriting_ = false;
    bool looks_at_each_ = false;
    bool grad_mode_ = true;
    Trace *trace_ = nullptr;
    int64_t read_bytes_ = 0, next_look_ = kFirstLook;
    uint64_t recorded_ = 0, next_look_at_ = 0; ///< operations so far

    int current_gpu_ = 0;
    int named_streams_ = 0;
    struct NamedStream {
        int32_t number = ir::kNoStream;
        std::shared_ptr<void> handle;
    };
    std::vector<NamedStream> streams_; ///< by GPU
    std::vector<ir::StreamRef> held_;  ///< streams of pending work that are not current any more, each once
    struct Effect {
        Cell *cell;
        std::shared_ptr<void> payload;
    };
    std::vector<Effect> effects_;

    void hold_stream(ir::StreamRef stream) noexcept;
    void release_streams() noexcept;
    void find_whether_it_looks() {
        looks_at_each_ = named_streams_ != 0 || modes_.check_devices || modes_.warn_views || trace_;
    }
    int32_t user_stream(ir::Device device) const {
        return device.index < streams_.size() ? streams_[device.index].number : ir::kNoStream;
    }

    std::atomic<Node *> foreign_dead_{nullptr};
    Recorder *next_idle_ = nullptr;
};

} // namespace lz::detail
