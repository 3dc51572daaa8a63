// An operation that fails takes down what depends on it and nothing else, however much was fused with it
// (S26), on every kind of device.
#include "support.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using lz::Device;
using lz::Tensor;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

class FusedS26 : public testing::TestWithParam<const char *> {
protected:
    void SetUp() override {
        if (device().is_cuda())
            LZ_NEEDS_GPUS(2);
    }
    Device device() const { return GetParam(); }
    Tensor ints(const Ints &values) const { return lz::tensor(values).to(device()); }
    Tensor floats(const Floats &values) const { return lz::tensor(values).to(device()); }
    template <class E>
    static std::string message_of(const Tensor &t) {
        try {
            t.str();
        } catch (const E &error) {
            return error.what();
        }
        return "no error";
    }
    static void sync_that_fails() { EXPECT_THROW(lz::sync(), lz::Error); }
};

bool has(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

TEST_P(FusedS26, a_division_by_zero_spares_what_was_fused_with_it) {
    const Tensor x = ints({4, 4}), zero = ints({0, 0});
    lz::eval({x, zero});
    const Tensor before = x + 1;
    const int line = __LINE__ + 1;
    const Tensor bad = lz::floor_divide(before, zero);
    const Tensor after = before * 2, of_bad = bad + before;
    sync_that_fails();
    EXPECT_EQ(before.to_vector<int64_t>(), (Ints{5, 5}));
    EXPECT_EQ(after.to_vector<int64_t>(), (Ints{10, 10}));
    for (const Tensor &t : {bad, of_bad})
        EXPECT_TRUE(has(message_of<lz::Error>(t), "fused_failures_test.cpp:" + std::to_string(line)))
            << message_of<lz::Error>(t);
}

TEST_P(FusedS26, a_bad_index_spares_a_sum_over_what_it_was_fused_with) {
    const Tensor w = floats(Floats(3000, 1)), source = floats(Floats(3000, 2));
    Ints places(3000, 1);
    places[2999] = 3000;
    const Tensor index = ints(places);
    lz::eval({w, source, index});
    const Tensor a = w + 1, sum = a.sum();
    const Tensor bad = a - source.gather(0, index), bad_sum = bad.sum(), scaled = a / sum;
    sync_that_fails();
    EXPECT_EQ(a.to_vector<float>(), Floats(3000, 2));
    EXPECT_EQ(sum.item<float>(), 6000);
    EXPECT_EQ(scaled.to_vector<float>(), Floats(3000, 2.0f / 6000));
    EXPECT_TRUE(has(message_of<lz::IndexError>(bad), "index 3000 is out of range"));
    EXPECT_TRUE(has(message_of<lz::IndexError>(bad_sum), "index 3000"));
}

TEST_P(FusedS26, each_of_two_failures_in_one_kernel_takes_down_its_own) {
    const Tensor x = ints({1, 2, 3}), zero = ints({1, 0, 1}), index = ints({0, 7, 1});
    lz::eval({x, zero, index});
    const Tensor fine = x + 1;
    const Tensor divided = lz::floor_divide(fine, zero), picked = fine + x.gather(0, index),
                 both = divided + picked;
    sync_that_fails();
    EXPECT_EQ(fine.to_vector<int64_t>(), (Ints{2, 3, 4}));
    EXPECT_TRUE(has(message_of<lz::Error>(divided), "divided by zero"));
    EXPECT_TRUE(has(message_of<lz::IndexError>(picked), "index 7"));
    EXPECT_THROW(both.to_vector<int64_t>(), lz::Error);
    EXPECT_NO_THROW(lz::sync());
}

TEST_P(FusedS26, a_later_kernel_that_reads_a_lost_value_keeps_the_rest_of_its_results) {
    const Tensor x = ints({1, 2, 3}), zero = ints({0, 0, 0});
    lz::eval({x, zero});
    const Tensor good = lz::cumsum(x, 0), bad = lz::cumsum(lz::floor_divide(x, zero), 0);
    const Tensor doubled = good * 2, mixed = doubled + bad, picked = doubled.gather(0, bad);
    sync_that_fails();
    EXPECT_EQ(doubled.to_vector<int64_t>(), (Ints{2, 6, 12}));
    EXPECT_TRUE(has(message_of<lz::Error>(mixed), "divided by zero"));
    EXPECT_TRUE(has(message_of<lz::Error>(picked), "divided by zero")) << "not its own index";
}

TEST_P(FusedS26, an_index_into_an_axis_without_elements_reads_nothing) {
    const Tensor w = floats({1}), empty = floats({}), index = ints({0});
    lz::eval({w, empty, index});
    const Tensor fine = w + 1, bad = fine - empty.gather(0, index);
    sync_that_fails();
    EXPECT_EQ(fine.to_vector<float>(), Floats{2});
    EXPECT_TRUE(has(message_of<lz::IndexError>(bad), "index 0 is out of range"));
}

TEST_P(FusedS26, writing_to_a_part_of_a_lost_value_does_not_bring_it_back) {
    const Tensor x = ints({1, 2, 3}), zero = ints({1, 0, 1}), place = ints({2}), seven = ints({7});
    lz::eval({x, zero, place, seven});
    Tensor bad = lz::floor_divide(x, zero), moved = lz::floor_divide(x, zero).cpu();
    Tensor untouched = lz::floor_divide(x, zero);
    const Tensor scattered = bad.scatter(0, place, seven);
    bad.at({lz::Slice(2, 3)}) = seven;
    moved.at({2}) = 7;
    untouched.at({lz::Slice(2, 2)}) = 7;
    sync_that_fails();
    for (const Tensor &t : {bad, scattered, moved, untouched})
        EXPECT_TRUE(has(message_of<lz::Error>(t), "divided by zero")) << message_of<lz::Error>(t);
}

TEST_P(FusedS26, each_part_of_a_merged_kernel_fails_at_its_own_line) {
    const Tensor fine = ints({1, 2, 3}), zero = ints({1, 0, 3, 4});
    lz::eval({fine, zero});
    const uint32_t line = __LINE__;
    const Tensor first = lz::floor_divide(fine, fine);
    const Tensor second = lz::floor_divide(zero, zero);
    try {
        lz::eval({first, second});
        lz::sync();
        FAIL() << "nothing was thrown";
    } catch (const lz::Error &error) {
        EXPECT_EQ(error.line(), line + 2) << error.what();
    }
    EXPECT_EQ(first.to_vector<int64_t>(), (std::vector<int64_t>{1, 1, 1}));
}

INSTANTIATE_TEST_SUITE_P(Semantics, FusedS26, testing::Values("cpu", "cuda:1"),
                         [](const auto &info) { return info.param[1] == 'p' ? "cpu" : "cuda"; });

} // namespace
