#pragma once
/// Executes a Kernel naively: the oracle for emitters. It follows the documented order of reductions exactly,
/// so an emitter has to give the same bits (but for contractions, whose order of summation is the target's).
///
/// Math operations run through libm in double and round once. Run `expand_math` first to get the bits that
/// compiled kernels give.

#include "ir/kernel/compiled_kernel.h"
#include "ir/kernel/kernel.h"

namespace lz::ir {

/// Runs all phases one after another on the calling thread. Precondition: `verify(kernel)` passes and the
/// frame has a pointer for each buffer, an argument and a scalar slot for each of the kernel's; pointers of
/// Worker buffers are not read (scratch is `worker`, as large as the kernel's offsets ask for). Checks record
/// their faults in `frame.fault`, which may be null when the kernel has none.
void interpret(const Kernel &kernel, const KernelFrame &frame, void *worker = nullptr);

/// One phase only, over all of its grid.
void interpret_phase(const Kernel &kernel, const Phase &phase, const KernelFrame &frame,
                     void *worker = nullptr);

/// One scalar instruction that neither reads memory nor checks: Arith, Compare, Convert and Math, on operands
/// in storage format (zero extended), as the Kernel IR defines it. `from` is the dtype of the first operand.
uint64_t evaluate(KOp op, DType dtype, DType from, const uint64_t *operands);

} // namespace lz::ir
