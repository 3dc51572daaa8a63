#pragma once
/// What the tests of modules share.

#include "tests/support/caught.h"

#include <lazuli/lazuli.h>
#include <lazuli/nn.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lz::test {

inline std::vector<float> floats(const Tensor &t) {
    return t.cpu().to(f32).to_vector<float>();
}

} // namespace lz::test
