#pragma once
/// The sums over paths of connectionist temporal classification, for the loss and its gradient.

#include "frontend/ops/compose.h"

#include <vector>

namespace lz::detail {

/// What a sample's paths go through: before, between and behind its classes stands the blank. Everything but
/// `states` is made of lengths; all of it is without gradients.
struct CtcStates {
    Tensor states;   ///< i64[n, S]: the class of each state, S = 2 * classes + 1
    Tensor may_skip; ///< bool[n, S]: whether a path may come from two states before
    Tensor steps;    ///< i64[n, 1]: of each sample's input
    Tensor last;     ///< i64[n, 1]: the last state of a path, a blank: 2 * (length of the target)
    Tensor place;    ///< i64[1, S]: 0, 1, ...
    Location loc;

    /// `lengths`: i64[2, n], of the inputs and of the targets.
    CtcStates(const Tensor &states, const Tensor &lengths, Location loc);
    /// [steps, n, S]: logarithms of the probabilities of the states' classes.
    Tensor scores(const Tensor &log_probs) const;
    /// For each step, [n, S]: the logarithm of the probability of all ways to a state, it included.
    std::vector<Tensor> forward(const Tensor &scores) const;
    /// For each step: of all ways from a state to the end, it included; -inf behind the end.
    std::vector<Tensor> backward(const Tensor &scores) const;
    /// [n]: less the logarithm of the probability of all paths; inf where there is none.
    Tensor loss(const std::vector<Tensor> &forward) const;
};

} // namespace lz::detail
