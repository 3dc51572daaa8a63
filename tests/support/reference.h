#pragma once
/// The reference columns of ir/elementwise.def and ir/math/math.def, for tests that have no oracle of their
/// own for a row. A new elementwise operation is tested by them until its own rows are written.

#include "ir/interpreter/ref.h"
#include "ir/op.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lz::test {

/// What an elementwise op gives for floats, over double. Operands that it lacks are not read.
inline double reference(ir::Op op, [[maybe_unused]] double x, [[maybe_unused]] double y = 0,
                        [[maybe_unused]] double z = 0) {
    using namespace ir;
    switch (op) {
#define LZ_ELEMENTWISE(E, text, arity, rule, cost, kernel, fref, iref)                                       \
    case Op::E:                                                                                              \
        return static_cast<double>(fref);
#include "ir/elementwise.def"
    default:
        return static_cast<double>(ref::never());
    }
}

/// The same for bool and integers of this dtype, before it is wrapped.
inline int64_t reference_of_integers(ir::Op op, [[maybe_unused]] ir::DType dtype, [[maybe_unused]] int64_t x,
                                     [[maybe_unused]] int64_t y = 0, [[maybe_unused]] int64_t z = 0) {
    using namespace ir;
    switch (op) {
#define LZ_ELEMENTWISE(E, text, arity, rule, cost, kernel, fref, iref)                                       \
    case Op::E:                                                                                              \
        return static_cast<int64_t>(iref);
#include "ir/elementwise.def"
    default:
        return ref::never();
    }
}

} // namespace lz::test
