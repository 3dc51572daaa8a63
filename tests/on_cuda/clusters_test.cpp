// Rows of clusters of blocks, on the driver without a GPU (faults_test.cpp sets it up).
#include "tests/support/cuda/nvrtc.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

namespace {

using namespace lz;

/// More elements than a block holds, or than a cluster; launched at once, and as a graph from the second run
/// on.
TEST(CudaClusters, RowsHaveTheBitsOfTheCpu) {
    if (const std::string &why = test::why_no_nvrtc(); !why.empty())
        GTEST_SKIP() << why;
    for (const DType t : {f32, bf16})
        for (const int64_t length : {40000, 66001, 262144, 262145}) {
            if (t == bf16 && length > 100000)
                continue;
            manual_seed(3);
            const Tensor x = rand({length > 100000 ? 1 : 3, length}).to(t), w = rand({length}).to(t);
            const Tensor there = x.to(Device::cuda(0)), scale = w.to(Device::cuda(0));
            for (int run = 0; run < (length > 100000 ? 2 : 3); ++run) {
                const Tensor p = softmax(there, -1), n = layer_norm(there, {length}, scale, scale);
                EXPECT_TRUE(equal(p.cpu(), softmax(x, -1))) << length << ", run " << run;
                EXPECT_TRUE(equal(n.cpu(), layer_norm(x, {length}, w, w))) << length << ", run " << run;
            }
        }
}

} // namespace
