#pragma once
/// The rules of compositions. A composition that has none is differentiated as the primitives that it is made
/// of; one has a rule for PyTorch's choice of slope where there are several, for fewer steps, and because of
/// what would have to be kept otherwise: gelu keeps x alone, and not what lies between.
///
/// Inputs, numbers (RuleCall::words) and what is kept, in the order of the calls:

#include "frontend/autograd/attach.h"

namespace lz::detail {

// Activations (composites/activations.cpp). Input: x.
extern const CompositeRule kSquareRule, kReluRule, kSiluRule, kGeluErfRule, kGeluTanhRule;
extern const CompositeRule kErfcRule, kLogGammaRule;
extern const CompositeRule kPowerRule;     ///< the exponent
extern const CompositeRule kSoftplusRule;  ///< beta, threshold
extern const CompositeRule kLeakyReluRule; ///< slope
extern const CompositeRule kClampRule;     ///< x, lower or none, upper or none; whether they are numbers
extern const CompositeRule kDropoutRule;   ///< seed, offset, probability of a zero
extern const CompositeRule kLogAddExpRule;

// Over axes (composites/reductions.cpp). Input: x. Numbers: keepdim, then the axes.
extern const CompositeRule kLogSumExpRule;
extern const CompositeRule kVarRule, kStdRule;            ///< correction before them
extern const CompositeRule kNormRule;                     ///< p before them
extern const CompositeRule kSoftmaxRule, kLogSoftmaxRule; ///< the axis alone
extern const CompositeRule kExtremeRule; ///< x, the place of the extreme (in x's rank); the axis alone

extern const CompositeRule kMedianRule; ///< x, a vector; no numbers

/// a, b (composites/distances.cpp): distances of rows, of equal batch axes.
extern const CompositeRule kEuclideanRule;
/// Logarithms of probabilities [T, n, classes], states [n, 2 S + 1], lengths [2, n] (composites/ctc.cpp).
extern const CompositeRule kCtcRule;

// Normalizations and losses (composites/losses.cpp).
extern const CompositeRule kLayerNormRule; ///< x, weight, bias; eps, number of axes
extern const CompositeRule kRmsNormRule;   ///< x, weight; eps, number of axes
extern const CompositeRule kMseLossRule;   ///< x, target; the reduction
/// Scores, classes; the class axis, the reduction, the class that counts for nothing, the smoothing.
extern const CompositeRule kCrossEntropyRule, kNllLossRule;
/// Scores, probabilities; the same.
extern const CompositeRule kSoftCrossEntropyRule;

} // namespace lz::detail
