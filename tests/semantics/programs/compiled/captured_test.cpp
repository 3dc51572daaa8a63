// S22, S90, S96: compiled functions beside pending work, what was moved from, versions that nobody keeps, and
// parts of tensors as results. (Variables that show another
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

TEST(CompiledCaptured, S96_versions_of_what_a_sort_orders_are_nobodys_variables) {
    const Tensor x = rand({7, 3});
    x.eval();
    const auto same = [&](const char *what, auto function) {
        const auto f = compile(function);
        for (int i = 0; i < 5; ++i)
            EXPECT_TRUE(lz::equal(f(x), function(x))) << what;
        EXPECT_EQ(f.stats().replays, 3) << what << ": " << f.stats().why;
    };
    same("gathered", [](const Tensor &in) {
        Tensor sorted = in.gather(0, in.argsort(0));
        sorted += 1;
        return sorted;
    });
    same("scattered", [](const Tensor &in) {
        Tensor scattered = zeros({7, 3});
        scattered.scatter_(0, in.argsort(0), in);
        scattered += 1;
        return scattered;
    });
    same("routed", [](const Tensor &in) {
        Tensor weights = in.gather(1, in.topk(2, 1).indices);
        weights /= weights.sum(1, true);
        return weights;
    });
    // But one that is kept is found.
    Tensor kept;
    const auto keeps = compile([&](const Tensor &in) {
        kept = in.argsort(0);
        Tensor sorted = in.gather(0, kept);
        sorted += 1;
        return sorted;
    });
    for (int i = 0; i < 5; ++i)
        keeps(x);
    EXPECT_EQ(keeps.stats().replays, 0);
}

TEST(CompiledCaptured, S90_a_part_of_a_tensor_is_a_result_as_its_value) {
    const auto row = compile([](const Tensor &x) { return x[0]; });
    const auto columns = compile([](const Tensor &x) { return (x + 1).at({Slice(), Slice(1, 3)}); });
    const auto picked = compile([](const Tensor &x, const Tensor &i) { return x.index({i}); });
    const Tensor x = rand({3, 4}), i = tensor<int64_t>({2, 0});
    for (int call = 0; call < 4; ++call) {
        EXPECT_TRUE(lz::equal(row(x), x[0]));
        EXPECT_TRUE(lz::equal(columns(x), (x + 1).at({Slice(), Slice(1, 3)})));
        EXPECT_TRUE(lz::equal(picked(x, i), x.index({i})));
    }
    EXPECT_GT(row.stats().replays, 0) << row.stats().why;
    EXPECT_GT(columns.stats().replays, 0) << columns.stats().why;
}

TEST(CompiledCaptured, S90_parts_are_changed_after_what_is_not_replayed) {
    const auto changes = compile([](const Tensor &x) {
        (void)x.sum().item<float>();
        Tensor y = x + 1;
        y.at({0}) *= 2;
        return y;
    });
    const auto other = compile([](Tensor x, const Tensor &y) {
        x.eval();
        x.copy_(y * 2);
        x.copy_(y);
        return x + y;
    });
    for (int call = 0; call < 3; ++call) {
        EXPECT_EQ(changes(ones({2})).to_vector<float>(), (std::vector<float>{4, 2}));
        EXPECT_EQ(other(ones({2}), full({2}, 3)).to_vector<float>(), (std::vector<float>{6, 6}));
    }
}

TEST(CompiledCaptured, S99_tensors_that_are_pending_at_times_are_no_other_function) {
    run_child("LAZULI_CHECK_COMPILED=2 LAZULI_VIRTUAL_GPUS=1", "ChecksPendingTensors");
}

} // namespace

TEST(Child, DISABLED_ChecksPendingTensors) {
    using namespace lz;
    Tensor kept = ones({2}), source = ones({2});
    const auto copies = compile([](Tensor x, const Tensor &y) {
        x.copy_(y);
        return x * 2 + y;
    });
    const auto rows = compile([&](Tensor x) {
        x.at({0}) = source;
        kept.copy_(source);
        return x + source;
    });
    for (const Device device : {Device::cpu(), Device::cuda(0)})
        for (int i = 0; i < 24; ++i) {
            const Tensor x = ones({2}, device), y = full({2}, 0.5 * i, device);
            source.copy_(y);
            const Tensor z = zeros({3, 2}, device);
            if (i % 3 == 1)
                lz::eval(y, source);
            else if (i % 3 == 2)
                lz::sync();
            EXPECT_TRUE(lz::equal(copies(x, y), y * 3)) << i;
            EXPECT_TRUE(lz::equal(x, y)) << i;
            if (device.is_cpu()) {
                EXPECT_TRUE(lz::equal(rows(z)[0], y * 2)) << i;
            }
        }
    EXPECT_GT(copies.stats().replays, 0) << copies.stats().why;
    EXPECT_GT(rows.stats().replays, 0) << rows.stats().why;
}
