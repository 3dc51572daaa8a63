#pragma once
/// What backward walks: one Step for each operation that was recorded from a tensor that wants a gradient,
/// and one for each leaf (a tensor on which `requires_grad_` was called).
///
/// **Ownership.** A step is counted: by the cells whose history it is, and by the edges of steps recorded
/// from them. It points back only, so that nothing of a graph outlives its results. What it saves are uses of
/// *values* (nodes), never handles: a value does not change and knows no history, so a step may save its own
/// result. Letting go of a chain of a million steps is a loop.
///
/// **Threads.** A step is written before its cell can be seen. Afterwards only backward changes it, under its
/// lock; a leaf's gradient changes under its lock, too.

#include "frontend/record/arena.h"
#include "frontend/record/node.h"
#include "ir/location.h"
#include "ir/op.h"
#include "lazuli/tensor.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace lz::detail {

struct Rule;

/// Where the gradient of an operand goes: to a result of the step that made it. No step: it wants none.
struct Edge {
    Step *step = nullptr;
    uint16_t result = 0;
};

/// What only some steps have.
struct StepExtras {
    struct Hook {
        unsigned number;
        uint16_t result;
        std::function<Tensor(const Tensor &)> function;
    };
    std::vector<Hook> hooks; ///< called with the whole gradient of a result, in this order
    unsigned next_hook = 0;
    struct Kept {
        uint16_t result;
        Tensor grad; ///< undefined until backward has come by
    };
    /// Gradients that somebody can ask for: a leaf's, and those of `retain_grad`. Not moved while handed out.
    std::vector<std::unique_ptr<Kept>> kept;
    bool frozen = false; ///< a leaf that does not want a gradient now
    /// The user's stream on which the operation ran (S44), which backward uses, too.
    ir::Device stream_device;
    int32_t stream = ir::kNoStream;
    std::shared_ptr<void> stream_handle;
    std::shared_ptr<void> payload; ///< of the rule: what fits no word
};

struct Step {
    static constexpr uint32_t kResult0 =
        16; ///< bit of result 0 among what a step saves; operands are before it
    static constexpr uint32_t saved_result(int k) {
        return uint32_t{1} << (kResult0 + static_cast<uint32_t>(k));
    }

    std::atomic<uint32_t> refs{1};
    std::atomic<bool> busy{false}; ///< the lock
    bool consumed = false;         ///< backward has used it up
    ir::Op op{};
    uint8_t size_class = 0;
    uint16_t num_results = 0, num_inputs = 0, num_saved = 0, num_words = 0;
    const Rule *rule = nullptr; ///< null: a leaf
    StepExtras *extras = nullptr;
    /// While it is destroyed, the next one that is.
    Step *dead_next = nullptr;
    ir::Location loc;        ///< of the operation, or of `requires_grad_`
    uint32_t saved_mask = 0; ///< bit i: operand i; saved_result(k): result k
    /// Name of the backward that consumed it (ir::function_name), which says the line.
    uint16_t consumed_by = 0;
    uint16_t num_structural = 0; ///< of the words

    // Trailing: ir::TensorType results[]; Edge inputs[]; Node *saved[], in the order of the mask's bits;
    // int64_t words[]: the operation's structural and runtime attributes, or a composition's numbers
    bool is_leaf() const { return rule == nullptr; }
    std::span<ir::TensorType> results() {
        return {reinterpret_cast<ir::TensorType *>(this + 1), num_results};
    }
    std::span<Edge> inputs() {
        return {reinterpret_cast<Edge *>(results().data() + num_results), num_inputs};
    }
    std::span<Node *> saved() { return {reinterpret_cast<Node **>(inputs().data() + num_inputs), num_saved}; }
    std::span<int64_t> words() {
        return {reinterpret_cast<int64_t *>(saved().data() + num_saved), num_words};
    }
    StepExtras &more() {
        if (!extras)
            extras = new StepExtras;
        return *extras;
    }
    /// The gradient that is kept of a result, or null.
    StepExtras::Kept *kept(uint16_t result);
    bool wants_gradient() const { return !is_leaf() || !extras->frozen; }
};

/// Room for these. One reference. No input has an edge yet; the other trailing arrays are the caller's to
/// fill before anybody sees the step.
inline Step *make_step(const Rule *rule, ir::Op op, ir::Location loc, size_t results, size_t inputs,
                       size_t saved, size_t words) {
    static_assert(sizeof(Step) % alignof(ir::TensorType) == 0 && sizeof(ir::TensorType) % alignof(Edge) == 0,
                  "the trailing arrays follow each other");
    static_assert(std::is_trivially_copyable_v<ir::TensorType> && std::is_trivially_copyable_v<Edge>);
    const size_t bytes = sizeof(Step) + results * sizeof(ir::TensorType) + inputs * sizeof(Edge) +
                         saved * sizeof(Node *) + words * sizeof(int64_t);
    const uint8_t size_class = size_class_of(bytes);
    Step *const step = new (allocate_node(size_class, bytes)) Step;
    step->rule = rule;
    step->op = op;
    step->loc = loc;
    step->size_class = size_class;
    step->num_results = static_cast<uint16_t>(results);
    step->num_inputs = static_cast<uint16_t>(inputs);
    step->num_saved = static_cast<uint16_t>(saved);
    step->num_words = static_cast<uint16_t>(words);
    for (Edge &edge : step->inputs())
        edge = {};
    return step;
}
Step *make_leaf(const ir::TensorType &type, ir::Location loc);

inline void retain(Step *step) {
    step->refs.fetch_add(1, std::memory_order_relaxed);
}
/// Null is nothing. Any thread; without recursion, whatever a step keeps alive.
void release(Step *step) noexcept;
/// Gives up one of two references that the caller has. Where nobody else has one nobody can add one
/// meanwhile, and the count is written without an atomic exchange.
inline void release_one_of_two(Step *step) noexcept {
    if (step->refs.load(std::memory_order_acquire) == 2)
        step->refs.store(1, std::memory_order_relaxed);
    else
        step->refs.fetch_sub(1, std::memory_order_acq_rel);
}
/// The tensor that could ask for it is gone: the gradient is let go of, so that one with a history of its own
/// keeps no graph alive.
void forget_grad(Step &step, uint16_t result) noexcept;

/// A step while one looks at what backward may let go of.
class StepLock {
public:
    explicit StepLock(Step &step) : step_(step) {
        if (step_.busy.exchange(true, std::memory_order_acquire)) [[unlikely]]
            wait();
    }
    ~StepLock() { step_.busy.store(false, std::memory_order_release); }
    StepLock(const StepLock &) = delete;
    StepLock &operator=(const StepLock &) = delete;

private:
    void wait() noexcept;
    Step &step_;
};

/// A reference.
class StepRef {
public:
    StepRef() = default;
    explicit StepRef(Step *step) : step_(step) {
        if (step_)
            retain(step_);
    }
    /// Takes over one.
    static StepRef take(Step *step) {
        StepRef out;
        out.step_ = step;
        return out;
    }
    StepRef(StepRef &&other) noexcept : step_(std::exchange(other.step_, nullptr)) {}
    StepRef &operator=(StepRef &&other) noexcept {
        std::swap(step_, other.step_);
        return *this;
    }
    ~StepRef() {
        if (step_)
            release(step_);
    }
    StepRef(const StepRef &) = delete;
    StepRef &operator=(const StepRef &) = delete;
    Step *get() const { return step_; }
    /// Gives it up to somebody who counts it.
    Step *leave() { return std::exchange(step_, nullptr); }
    Step *operator->() const { return step_; }
    Step &operator*() const { return *step_; }

private:
    Step *step_ = nullptr;
};

} // namespace lz::detail
