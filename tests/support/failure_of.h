#pragma once
/// The failure that a call throws.

#include "ir/diagnostic.h"

#include <gtest/gtest.h>

namespace lz::test {

/// The failure that f throws; where it throws none, the test fails.
template <class F>
ir::Failure failure_of(F f) {
    try {
        f();
    } catch (const ir::Failure &failure) {
        return failure;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {ir::ErrorKind::Internal, ""};
}

} // namespace lz::test
