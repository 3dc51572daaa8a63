#pragma once
/// What the tests of semantics.md share. The process has four virtual GPUs, unless it runs on CUDA devices,
/// and verifies every schedule (setup.cpp).

#include "tests/support/caught.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lz::test {

inline const Device kGpu0 = Device::cuda(0), kGpu1 = Device::cuda(1), kGpu2 = Device::cuda(2),
                    kGpu3 = Device::cuda(3);
/// Where every row has to hold: the CPU, cuda:0 and the last of at most four GPUs.
const std::vector<Device> &places();

/// First in a test that names GPUs beyond cuda:0: on a machine with fewer it is skipped, which says so.
#define LZ_NEEDS_GPUS(count)                                                                                 \
    if (lz::cuda::device_count() < (count))                                                                  \
    GTEST_SKIP() << "This needs " << (count) << " GPUs, and there are " << lz::cuda::device_count() << "."

inline std::vector<float> floats(const Tensor &t) {
    return t.to(f32).to_vector<float>();
}

/// Standard error and output of this program running the disabled test Child.DISABLED_<test> under
/// `variables`. Fails unless the child passes.
std::string run_child(const std::string &variables, const std::string &test);

} // namespace lz::test
