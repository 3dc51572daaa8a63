// One Program of many sizes, on the driver without a GPU (faults_test.cpp sets it up).
#include "tests/support/cuda/nvrtc.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using lz::Tensor;

TEST(CudaSizes, RowsOfManyLengthsAreAFewProgramsWithTheBitsOfTheCpu) {
    if (const std::string &why = lz::test::why_no_nvrtc(); !why.empty())
        GTEST_SKIP() << why;
    const auto f = [](const Tensor &x) { return lz::softmax(x * 0.5 + 1, -1).sum(0); };
    const auto ramp = [](int64_t n) { return (lz::arange(24 * n).to(lz::f32) / 7).sin().view({24, n}); };
    lz::sync();
    const lz::CompileStats before = lz::compile_stats();
    std::vector<std::vector<float>> found;
    for (int64_t n = 130; n < 170; ++n)
        found.push_back(f(ramp(n).cuda()).to_vector<float>());
    const lz::CompileStats after = lz::compile_stats();
    EXPECT_GE(after.programs_resized - before.programs_resized, 30);
    for (int64_t n = 130; n < 170; ++n)
        EXPECT_EQ(found[static_cast<size_t>(n - 130)], f(ramp(n)).to_vector<float>()) << n;
}

} // namespace
