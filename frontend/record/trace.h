#pragma once
/// What a thread does while it records a function for `lz::compile`: which tensors from outside it reads and
/// changes, which random numbers it draws, and whether it does something that recording again would do
/// otherwise. The recorder of the thread has at most one; what records tells it.
///
/// A trace holds handles of tensors, never uses of values: what is stored, and in whose memory, is decided as
/// if nobody looked on.

#include "frontend/autograd/step.h"
#include "frontend/record/node.h"
#include "lazuli/tensor.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lz::detail {

/// Keeps the memory of a node, and not its value.
class HeldNode {
public:
    explicit HeldNode(Node *node) : node_(node) {
        node_->refs.fetch_add(Node::kHold, std::memory_order_relaxed);
    }
    HeldNode(HeldNode &&other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
    HeldNode &operator=(HeldNode &&) = delete;
    ~HeldNode() {
        if (node_)
            drop_hold(node_);
    }
    Node *get() const { return node_; }
    Node *operator->() const { return node_; }

private:
    Node *node_;
};

class Trace {
public:
    static constexpr uint32_t kNone = UINT32_MAX;

    /// A tensor from outside.
    struct Source {
        Tensor tensor;
        HeldNode node; ///< its version when it was first seen
        /// Which argument, or which gradient (of `gradients`) it is; neither: captured by the function.
        uint32_t argument = kNone, gradient = kNone;
        bool replaced = false; ///< it was changed in place
    };
    /// The place of a gradient that was looked at or changed.
    struct GradientPlace {
        StepRef step;
        uint16_t result = 0;
        bool defined = false; ///< when it was first seen
    };
    struct Draw {
        int64_t words;
        uint64_t seed, offset; ///< where they begin
    };
    /// A number that is asked for again at each call: the word of this node.
    struct Number {
        Node *node;
        std::function<double()> again;
    };
    /// The library takes this number from `low` to `high`, and refuses others.
    struct Limits {
        double number, low, high;
    };
    /// What is done on the host at each call, in order: a draw, work, or a number.
    struct HostWork {
        std::function<void()> work; ///< null: the next number
        std::function<void()> undo; ///< for when the call fails then; may be null
    };

    explicit Trace(std::span<const Tensor *const> arguments);

    // What records tells it. None of these throws: without memory the trace is rejected.
    void note_made(const Node *node) noexcept;
    void note_constant(const Tensor &ready) noexcept;
    void note_alias(const Cell *cell) noexcept;
    void note_read(const Tensor &tensor) noexcept;
    void note_replaced(const Tensor &target) noexcept;
    void note_gradient(Step *step, uint16_t result) noexcept;
    void note_draw(int64_t words, uint64_t seed, uint64_t offset) noexcept;
    void note_number(Node *node, std::function<double()> again) noexcept;
    void note_work(std::function<void()> work, std::function<void()> undo) noexcept;
    void note_end(std::function<void()> check) noexcept;
    void note_on_host(double number) noexcept;
    void note_limits(double number, double low, double high) noexcept;
    /// What was recorded is not kept, and why; the first reason stays.
    void reject(const char *why, Location loc) noexcept;

    bool rejected() const { return rejected_; }
    const std::string &why() const { return why_; }
    Location where() const { return where_; }

    /// Whether an operation was recorded in it.
    bool made(const Node *node) const { return made_.contains(node); }
    /// The source whose version this was, or kNone.
    uint32_t source_of(const Node *node) const;
    uint32_t source_of(const Cell *cell) const;
    /// The tensor that the function itself made of the host's data, or null.
    const Tensor *constant(const Node *node) const;

    std::vector<Source> sources; ///< arguments first
    std::vector<GradientPlace> gradients;
    std::vector<Draw> draws;
    std::vector<Number> numbers;
    std::vector<HostWork> work;
    std::vector<std::function<void()>> at_end; ///< of the recording
    /// What the library has computed with on the host (record.h).
    std::vector<double> on_host;
    bool too_many_on_host() const { return on_host.size() == kMostOnHost; }
    std::vector<Limits> limits;

private:
    static constexpr size_t kMostOnHost = 64;

    void add_source(const Tensor &tensor, uint32_t argument, uint32_t gradient);
    template <class F>
    void noted(F &&f) noexcept;

    std::unordered_set<const Node *> made_;
    std::unordered_map<const Node *, Tensor> constants_;
    std::unordered_set<const Cell *> aliases_;
    std::unordered_map<const Cell *, uint32_t> cells_;
    std::unordered_map<const Node *, uint32_t> nodes_;
    bool rejected_ = false;
    std::string why_;
    Location where_;
};

} // namespace lz::detail
