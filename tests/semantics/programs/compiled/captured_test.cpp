// S22, S90: compiled functions beside pending work, and what was moved from. (Variables that show another
// tensor later are told from the library's own only where that is a shared library: tests/project/variables.)
#include "support.h"

#include <algorithm>
#include <utility>

namespace {

using namespace lz;
using namespace lz::test;

float first(const Tensor &t) {
    return t.flatten().at({0}).item<float>();
}

/// An average of weights that the function changes in place keeps those of every call until it is computed.
TEST(CompiledCaptured, S22_what_calls_leave_pending_again_and_again_is_launched) {
    Tensor weight = ones({1 << 16}), average = weight.clone();
    lz::sync();
    const auto step = compile([&](const Tensor &x) {
        weight *= x;
        return weight.sum();
    });
    const Tensor factor = full({}, 0.99);
    const int64_t before = memory_allocated(Device::cpu());
    int64_t most = 0;
    double expected_weight = 1, expected = 1;
    for (int i = 0; i < 200; ++i) {
        step(factor);
        average.lerp_(weight, 0.1);
        most = std::max(most, memory_allocated(Device::cpu()) - before);
        expected_weight *= 0.99;
        expected += 0.1 * (expected_weight - expected);
    }
    EXPECT_LT(most, int64_t{40} << 18) << "bytes, of 200 times 256 KiB";
    EXPECT_NEAR(average.mean().item<double>(), expected, 1e-4);
    EXPECT_NEAR(weight.mean().item<double>(), expected_weight, 1e-4);
    EXPECT_GT(step.stats().replays, 190) << step.explain();
}

TEST(CompiledCaptured, S90_a_compiled_function_that_was_moved_from_says_so) {
    auto f = compile([](const Tensor &x) { return x * 2; });
    const auto copy = f;
    const auto g = std::move(f);
    EXPECT_THROW(f(ones({1})), StateError); // NOLINT: it was moved from
    EXPECT_THROW(f.stats(), StateError);
    EXPECT_THROW(f.explain(), StateError);
    EXPECT_THROW(f.clear(), StateError);
    EXPECT_EQ(first(g(ones({1}))), 2);
    EXPECT_EQ(first(copy(ones({1}))), 2);
}

} // namespace
