// A process without a GPU: what a tensor that is moved to one is told, of a build with the CUDA backend and
// of one without.
#include <lazuli/lazuli.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace {

TEST(WithoutGpus, AMoveToOneSaysWhyThereIsNone) {
    if (lz::cuda::is_available())
        GTEST_SKIP() << "There are GPUs: " << lz::cuda::device_count() << ".";
    const std::string why = lz::cuda::availability();
    const auto left_out = testing::HasSubstr("This build of Lazuli has no CUDA backend.");
    if (LAZULI_CUDA != 0)
        EXPECT_THAT(why, testing::AllOf(testing::Not(left_out), testing::Not(testing::IsEmpty())));
    else
        EXPECT_THAT(why, left_out);
    const lz::Tensor x = lz::arange(4, lz::f32) + 1;
    try {
        x.cuda().eval();
        FAIL() << "a device that is not there computed something";
    } catch (const lz::DeviceError &error) {
        EXPECT_THAT(error.what(),
                    testing::AllOf(testing::HasSubstr(why), testing::HasSubstr("cuda_test.cpp")));
    }
    EXPECT_EQ(x.sum().item<float>(), 10.0F) << "the CPU goes on";
}

} // namespace
