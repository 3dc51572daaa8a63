#pragma once
/// Which operations may find at run time that they cannot be computed.

#include "ir/op.h"
#include "ir/types/type.h"

namespace lz::ir {

/// Operations with checks at run time: indices, integer divisors; and calls, which may do anything. `result`
/// is the dtype of what they compute.
inline bool has_checks(Op op, DType result) {
    switch (op) {
    case Op::Gather:
    case Op::Scatter:
    case Op::Call:
        return true;
    case Op::Div:
    case Op::FloorDiv:
    case Op::Remainder:
    case Op::Fmod:
        return !is_float(result);
    default:
        return false;
    }
}

} // namespace lz::ir
