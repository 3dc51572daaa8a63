#pragma once
/// What the tests of optimizers share.

#include "tests/support/caught.h"

#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lz::test {

inline std::vector<double> doubles(const Tensor &t) {
    return t.cpu().to(f64).to_vector<double>();
}

/// A leaf with a value of its own.
inline Tensor leaf(Tensor value) {
    value.eval();
    return std::move(value).requires_grad_();
}

} // namespace lz::test
