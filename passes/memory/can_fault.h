#pragma once
/// Whether a step may find while it runs that it fails.

#include "ir/program/program.h"
#include "passes/lower/lowered_step.h"

#include <algorithm>

namespace lz::passes {

/// It has checks, or is a library call (a join of tensors aside).
inline bool can_fault(const ir::Program &program, const ir::Step &step) {
    if (step.kind == ir::StepKind::Library)
        return step.symbol != kConcat;
    return step.kind == ir::StepKind::Launch &&
           std::ranges::any_of(program.kernels[step.kernel].instrs,
                               [](const ir::Instr &i) { return ir::info(i.op).cls == ir::KOpClass::Check; });
}

} // namespace lz::passes
