#pragma once
/// Whether recordings of one function are the same, and what may differ from call to call.

#include "frontend/compiled/plan.h"

#include <memory>
#include <string>
#include <vector>

namespace lz::detail {

/// What is let go under the lock, and destroyed without it: a plan may hold the last reference to what a user
/// captured, whose destructor may call anything.
using Forgotten = std::vector<std::shared_ptr<const void>>;

/// Whether two recordings of one signature would be replayed alike. If so `now` may learn of `before`: that
/// an argument or a number is not always the same one. `why` says what differs.
bool learn(CompiledPlan &now, const CompiledPlan &before, std::string &why);

/// Whether a call that was recorded as `now` could have been a replay of the plan, as far as that can be
/// seen.
bool would_hold(const CompiledPlan &plan, const CompiledPlan &now);

/// What the plans of one form of calls have in common whatever the sizes are: the operations, and which words
/// of a recording go with the sizes. Each plan was recorded with its own sizes, so none is ever made of this:
/// it only saves the second recording, which would show that the function does the same at each call.
class AcrossSizes {
public:
    /// `plan`: two recordings of the same sizes agreed on it. True: more is known now.
    bool learn(const CompiledPlanPtr &plan, Forgotten &forgotten);
    /// Whether the first recording of its sizes is one more of what is known. If so it may learn what other
    /// sizes have shown of arguments, but nothing of numbers.
    bool has_seen(CompiledPlan &now) const;
    /// Forgets what captures tensors that nobody else has any more.
    void forget_dead(Forgotten &forgotten);

private:
    /// As many ways in which sizes (one of 1, say) make a function do something else; of more, those that
    /// were confirmed last.
    static constexpr size_t kForms = 16;
    struct Form {
        CompiledPlanPtr example;
        std::vector<bool> key, words; ///< that have differed between sizes
    };
    std::vector<Form> forms_;
};

} // namespace lz::detail
