#pragma once
/// Which buffers of a kernel depend on which of its checks and operands: what a fault loses, and what it
/// spares.

#include "ir/kernel/kernel.h"

#include <vector>

namespace lz::ir {

/// The data flow of one kernel, from its sources to what it stores. Source b is what buffer b holds when the
/// kernel begins (In, InOut); source `buffers` + c is the c-th instruction of class Check, in the order of
/// Kernel::instrs: what it gives instead of an operand that fails.
struct KernelFlow {
    using Sources = std::vector<bool>;

    size_t buffers = 0;
    std::vector<Sources> stored; ///< by buffer: what its elements come from, directly or through scratch
    std::vector<bool> written;   ///< by buffer
    std::vector<Sources> checks; ///< by check: what decides about it
};

KernelFlow flow_of(const Kernel &kernel);

} // namespace lz::ir
