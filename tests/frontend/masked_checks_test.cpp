// A check counts where its value is used: integer divisions and looked-up indices under the masks of padding,
// joining and writing to a part.
#include "tests/support/tensor_values.h"

#include <functional>

namespace {

using namespace lz::test;
using lz::Tensor;

Tensor divisors() {
    return lz::tensor({1, 2, 4}, {.dtype = lz::i32}).eval();
}
Tensor twelve() {
    return lz::tensor({12, 12, 12}, {.dtype = lz::i32}).eval();
}

using Divide = std::function<Tensor(const Tensor &, const Tensor &)>;
const std::vector<Divide> &divisions() {
    static const auto &all = *new std::vector<Divide>{
        [](const Tensor &x, const Tensor &y) { return lz::floor_divide(x, y); },
        [](const Tensor &x, const Tensor &y) { return lz::remainder(x, y) + lz::floor_divide(x, y); },
        [](const Tensor &x, const Tensor &y) { return lz::fmod(x, y) + lz::floor_divide(x, y); },
    };
    return all;
}

TEST(MaskedChecks, IntegerDivisionFusedIntoPad) {
    for (const Divide &divide : divisions()) {
        expect_values(lz::pad(divide(twelve(), divisors()), {2, 1}, 7), {7, 7, 12, 6, 3, 7});
        // The divisor is 0 just where the pad reads nothing.
        expect_values(lz::pad(divide(twelve(), divisors()), {0, 2}) + 1, {13, 7, 4, 1, 1});
    }
}

TEST(MaskedChecks, IntegerDivisionFusedIntoCatAndStack) {
    for (const Divide &divide : divisions()) {
        const Tensor nothing = lz::zeros({2}, {.dtype = lz::i32}).eval();
        expect_values(lz::cat({divide(twelve(), divisors()), nothing}) * 2, {24, 12, 6, 0, 0});
        expect_values(lz::cat({nothing, divide(twelve(), divisors()), nothing}), {0, 0, 12, 6, 3, 0, 0});
        expect_values(lz::stack({divide(twelve(), divisors()), twelve()}, 1) + 0, {12, 12, 6, 12, 3, 12});
        expect_values(lz::cat({divide(twelve(), divisors()), divide(twelve(), divisors() * 3)}),
                      {12, 6, 3, 4, 2, 1});
    }
}

TEST(MaskedChecks, IntegerDivisionFusedIntoAWriteToAPart) {
    for (const Divide &divide : divisions()) {
        Tensor x = lz::zeros({6}, {.dtype = lz::i32}).eval();
        x.at({lz::Slice(2, 5)}) = divide(twelve(), divisors());
        expect_values(x, {0, 0, 12, 6, 3, 0});
        Tensor y =
            lz::zeros({6}, {.dtype = lz::i32}) + 1; // not there yet: the write is fused with what makes it
        y.at({lz::Slice(0, 6, 2)}) = divide(twelve(), divisors());
        expect_values(y * 1, {12, 1, 6, 1, 3, 1});
        Tensor z = divide(twelve(), divisors());
        z.at({0}) = 5;
        expect_values(z, {5, 6, 3});
    }
}

TEST(MaskedChecks, IndicesUnderPadsFlipsRollsAndSlices) {
    const Tensor table = lz::tensor({10.0, 20.0, 30.0}).eval();
    const Tensor index = lz::tensor({2, 1, 0, 1}).eval();
    const auto rows = [&] { return lz::index_select(table, 0, index); };
    expect_values(lz::pad(rows(), {3, 2}, -1), {-1, -1, -1, 30, 20, 10, 20, -1, -1});
    expect_values(lz::roll(lz::pad(rows(), {1, 0}), {2}, {0}), {10, 20, 0, 30, 20});
    expect_values(lz::flip(lz::pad(rows(), {0, 1}), {0}), {0, 20, 10, 20, 30});
    expect_values(lz::pad(rows(), {1, 1}).at({lz::Slice(0, 3)}) * 1, {0, 30, 20});
    // A table of nothing is looked into nowhere.
    const Tensor nothing = lz::zeros({0}).eval(), no_index = lz::zeros({0}, {.dtype = lz::i64}).eval();
    expect_values(lz::pad(lz::index_select(nothing, 0, no_index), {2, 1}, 4), {4, 4, 4});
    expect_values(lz::cat({lz::index_select(nothing, 0, no_index), table}) + 0, {10, 20, 30});
}

TEST(MaskedChecks, WhatIsUsedAndCannotBeComputedStillFails) {
    const Tensor zero = lz::tensor({1, 0, 4}, {.dtype = lz::i32}).eval();
    for (const Divide &divide : divisions()) {
        expect_error<lz::Error>([&] { lz::pad(divide(twelve(), zero), {1, 1}).to_vector<int32_t>(); },
                                {"divided by zero"});
        expect_error<lz::Error>([&] { lz::cat({twelve(), divide(twelve(), zero)}).to_vector<int32_t>(); },
                                {"divided by zero"});
        // Both sides of `where` are computed, as in PyTorch.
        expect_error<lz::Error>(
            [&] { lz::where(zero == 0, twelve(), divide(twelve(), zero)).to_vector<int32_t>(); },
            {"divided by zero"});
    }
    const Tensor table = lz::ones({3}).eval();
    expect_error<lz::IndexError>(
        [&] { lz::pad(lz::index_select(table, 0, lz::tensor({0, 3})), {1, 1}).to_vector<float>(); },
        {"index_select: index 3"});
}

} // namespace
