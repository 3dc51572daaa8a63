#pragma once
/// What the tests of semantics.md share. The process has four virtual GPUs and verifies every schedule
/// (setup.cpp).

#include "tests/support/caught.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lz::test {

inline const Device kGpu0 = Device::cuda(0), kGpu1 = Device::cuda(1), kGpu2 = Device::cuda(2),
                    kGpu3 = Device::cuda(3);
/// Where every row has to hold.
inline const std::vector<Device> kPlaces = {Device::cpu(), kGpu0, kGpu3};

inline std::vector<float> floats(const Tensor &t) {
    return t.to(f32).to_vector<float>();
}

/// Standard error and output of this program running the disabled test Child.DISABLED_<test> under
/// `variables`. Fails unless the child passes.
std::string run_child(const std::string &variables, const std::string &test);

} // namespace lz::test
