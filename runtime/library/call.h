#pragma once
/// The tensors of a `call` step, as what is registered for it sees them.

#include "ir/host/calls.h"
#include "ir/types/type.h"
#include "runtime/api/library.h"

namespace lz::runtime {

struct CallDims {
    int64_t shape[ir::kMaxRank], strides[ir::kMaxRank];
};

/// How many operands and results there are together.
inline size_t count_call_tensors(std::span<const int64_t> ints) {
    return static_cast<size_t>(ints[0] + ints[1]);
}

/// Fills one of each for every operand and result, operands first. The tensors point into `dims`.
void read_call_tensors(const LibraryArgs &args, CallDims *dims, ir::CallTensor *tensors);

} // namespace lz::runtime
