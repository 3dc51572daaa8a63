// Products with what is done before they are stored, beside the CPU's: of small whole numbers every order of
// a sum is the same. The environment is faults_test.cpp's.
#include "tests/support/cuda/driver/fake_cuda.h"
#include "tests/support/cuda/nvrtc.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <functional>
#include <tuple>
#include <vector>

namespace {

using namespace lz;

class OnCudaProducts : public ::testing::Test {
protected:
    void SetUp() override {
        if (!test::why_no_nvrtc().empty())
            GTEST_SKIP() << test::why_no_nvrtc();
        ASSERT_TRUE(cuda::is_available());
    }
};

/// Numbers from -3 to 3.
Tensor whole(std::vector<int64_t> shape, DType dtype, int64_t seed) {
    int64_t count = 1;
    for (const int64_t extent : shape)
        count *= extent;
    const Tensor i = arange(count);
    return (remainder(i * 37 + i * i * 11 + seed, 7) - 3).to(dtype).reshape(shape);
}

using Program = std::function<Tensor(const Tensor &, const Tensor &, const Tensor &)>;

/// Launches of kernels that the program takes on the GPU, beside the library's calls; its result is the
/// CPU's.
int64_t launches(const Program &program, DType dtype, std::vector<int64_t> x_shape = {9, 5}) {
    const Tensor x = whole(x_shape, dtype, 1), w = whole({6, 5}, dtype, 2), b = whole({6}, dtype, 3);
    const Tensor here = program(x, w, b);
    const Tensor x1 = x.cuda(), w1 = w.cuda(), b1 = b.cuda();
    lz::sync();
    cuda::synchronize();
    reset_compile_stats();
    const Tensor there = program(x1, w1, b1).eval();
    const int64_t count = compile_stats().kernel_launches;
    EXPECT_TRUE(equal(there.cpu(), here)) << there << here;
    return count;
}

/// 1 + 2^-12 is 1 in TF32 and in bf16, 1 + 2^-9 only in bf16.
TEST_F(OnCudaProducts, OfF32RoundTheirOperandsAsTheProgramAllows) {
    const auto sum_of = [](double value, DType dtype = f32) {
        const Tensor x = full({4, 4}, value, {.dtype = dtype, .device = "cuda:0"});
        return matmul(x, ones_like(x)).cpu().to(f64)[0][0].item<double>();
    };
    using enum MatmulPrecision;
    const double fine = 1 + 0x1p-12, coarse = 1 + 0x1p-9;
    for (const auto &[precision, of_fine, of_coarse] :
         {std::tuple{Highest, 4 * fine, 4 * coarse}, {High, 4.0, 4 * coarse}, {Medium, 4.0, 4.0}}) {
        set_float32_matmul_precision(precision);
        EXPECT_EQ(sum_of(fine), of_fine);
        EXPECT_EQ(sum_of(coarse), of_coarse);
        EXPECT_EQ(sum_of(fine, f64), 4 * fine) << "another dtype's";
        set_reproducible(true);
        EXPECT_EQ(sum_of(fine), 4 * fine) << "no library multiplies";
        set_reproducible(false);
    }
    set_float32_matmul_precision(Highest);
}

/// What was chosen for one GPU is found again by another of its model, as by another process.
TEST_F(OnCudaProducts, AlgorithmsAreSearchedOnce) {
    ASSERT_GE(cuda::device_count(), 2);
    static void *const fake = ::dlopen(LAZULI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    const auto fail =
        reinterpret_cast<decltype(&::lazuli_fake_cuda_fail)>(::dlsym(fake, "lazuli_fake_cuda_fail"));
    constexpr int kNotSupported = 15;
    const auto product = [](const char *device, int64_t n) {
        const Tensor x = ones({n, 41}, {.device = device});
        return matmul(x, x.t()).cpu().sum().item<double>();
    };
    EXPECT_EQ(product("cuda:0", 19), 19 * 19 * 41);
    for (const unsigned nth : {1U, 2U, 3U, 4U}) // a call that is refused is made again
        fail("cublasLtMatmulAlgoGetHeuristic", nth, kNotSupported);
    EXPECT_EQ(product("cuda:1", 19), 19 * 19 * 41);
    fail("cublasLtMatmulAlgoGetHeuristic", 0, kNotSupported);
    EXPECT_EQ(product("cuda:1", 23), 23 * 23 * 41);
}

TEST_F(OnCudaProducts, TheLibraryAddsABiasAndTakesTheLargerOfItAndZero) {
    const Program with_relu = [](const Tensor &x, const Tensor &w, const Tensor &) {
        return relu(linear(x, w));
    };
    const Program with_bias = [](const Tensor &x, const Tensor &w, const Tensor &b) {
        return linear(x, w, b);
    };
    const Program with_both = [](const Tensor &x, const Tensor &w, const Tensor &b) {
        return relu(linear(x, w, b));
    };
    EXPECT_EQ(launches(with_relu, DType::F32), 1);
    EXPECT_EQ(launches(with_relu, DType::F16), 1);
    EXPECT_EQ(launches(with_bias, DType::F32), 1);
    EXPECT_EQ(launches(with_both, DType::F32), 1);
    EXPECT_EQ(launches(with_both, DType::F32, {2, 3, 5}), 1);
    // Rounded before the bias is added; of f64 the library has none.
    EXPECT_EQ(launches(with_both, DType::BF16), 2);
    EXPECT_EQ(launches(with_both, DType::F64), 2);
    // The bias is computed, and the result goes on.
    EXPECT_EQ(launches([](const Tensor &x, const Tensor &w,
                          const Tensor &b) { return matmul(relu(linear(x, w, b + 1)), w); },
                       DType::F32),
              3);
}

/// Layers in a row, of one plan each: each product has its own bias, although they share the plan.
TEST_F(OnCudaProducts, LayersOfOneShapeHaveBiasesOfTheirOwn) {
    const auto net = [](const Tensor &x, const std::vector<Tensor> &weights,
                        const std::vector<Tensor> &biases) {
        Tensor h = x;
        for (size_t i = 0; i < weights.size(); ++i)
            h = relu(linear(h, weights[i], biases[i]));
        return h;
    };
    std::vector<Tensor> weights, biases, weights1, biases1;
    for (int64_t i = 0; i < 4; ++i) {
        weights.push_back(whole({4, 4}, DType::F32, 5 * i));
        biases.push_back(whole({4}, DType::F32, i));
        weights1.push_back(weights.back().cuda());
        biases1.push_back(biases.back().cuda());
    }
    const Tensor x = whole({3, 4}, DType::F32, 9);
    for (int round = 0; round < 3; ++round) // graphs replay from the second on
        EXPECT_TRUE(equal(net(x.cuda(), weights1, biases1).cpu(), net(x, weights, biases)));
}

} // namespace
