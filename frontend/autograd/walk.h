#pragma once
/// The graph behind some results, in the order in which backward goes through it.

#include "frontend/autograd/step.h"
#include "lazuli/core/location.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lz::detail {

/// Throws StateError with both lines.
[[noreturn]] void throw_consumed(const Step &step, const char *function, Location loc);

/// Steps that some results depend on: each is behind all that it feeds. A function of the program alone, and
/// so is the order in which gradients are added up (S29).
class Walk {
public:
    struct Visit {
        StepRef step;
        uint32_t first_child = 0; ///< of `children`, one for each input
        uint32_t first_slot = 0;  ///< numbers of its results, counted through
        bool needed = false;      ///< what is wanted of this walk lies behind it
        bool entered = false;
    };
    static constexpr uint32_t kNone = UINT32_MAX;

    /// `needs(visit)`: whether a step itself is wanted. Throws StateError for a step that was consumed.
    template <class Needs>
    Walk(std::span<const Edge> roots, const char *function, Location loc, Needs &&needs) {
        rehash(64);
        for (const Edge &root : roots)
            find_or_add(root.step);
        for (const Edge &root : roots)
            walk(find_or_add(root.step), function, loc, needs);
    }

    /// Consumers before what they consume.
    std::span<const uint32_t> order() const { return order_; } ///< read it backwards
    Visit &visit(uint32_t number) { return visits_[number]; }
    /// The step of an input, or kNone.
    uint32_t child(const Visit &visit, size_t input) const { return children_[visit.first_child + input]; }
    size_t num_slots() const { return slots_; }
    /// Number of a step, or kNone.
    uint32_t find(const Step *step) const;

private:
    /// A step whose inputs are being visited.
    struct Pending {
        uint32_t visit;
        uint32_t next, end; ///< of `children_`
    };

    uint32_t find_or_add(Step *step);
    void enter(uint32_t number, const char *function, Location loc);
    void rehash(size_t room);
    size_t place_of(const Step *step) const;

    template <class Needs>
    void walk(uint32_t root, const char *function, Location loc, Needs &needs) {
        if (visits_[root].entered)
            return;
        enter(root, function, loc);
        while (!pending_.empty()) {
            Pending &top = pending_.back();
            if (top.next < top.end) {
                const uint32_t child = children_[top.next++];
                if (child != kNone && !visits_[child].entered)
                    enter(child, function, loc);
                continue;
            }
            Visit &done = visits_[top.visit];
            done.needed = needs(done);
            for (uint32_t c = done.first_child; c < top.end; ++c)
                done.needed |= children_[c] != kNone && visits_[children_[c]].needed;
            order_.push_back(top.visit);
            pending_.pop_back();
        }
    }

    std::vector<Visit> visits_;
    std::vector<uint32_t> children_, order_;
    std::vector<Pending> pending_;
    std::vector<uint32_t> table_; ///< open addressing; visits + 1
    size_t slots_ = 0;
};

} // namespace lz::detail
