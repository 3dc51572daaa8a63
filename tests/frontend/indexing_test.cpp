#include "tests/support/tensor_values.h"

#include <functional>

namespace {

using namespace lz::test;
using lz::Ellipsis, lz::None, lz::Slice, lz::Tensor;

Tensor counting(int64_t rows, int64_t columns) {
    return lz::arange(rows * columns).reshape({rows, columns}).to(lz::f32);
}

TEST(Indexing, ReadsAsPythonDoes) {
    const Tensor x = counting(3, 4);
    expect_tensor(x.at(1), {4}, lz::f32, {4, 5, 6, 7});
    expect_tensor(x[-1], {4}, lz::f32, {8, 9, 10, 11});
    expect_tensor(x[1][2], {}, lz::f32, {6});
    expect_tensor(x.at({0, 3}), {}, lz::f32, {3});
    expect_tensor(x.at({Slice(), Slice(1, 4, 2)}), {3, 2}, lz::f32, {1, 3, 5, 7, 9, 11});
    expect_tensor(x.at({Ellipsis, -1}), {3}, lz::f32, {3, 7, 11});
    expect_tensor(x.at({Slice(None, None, -2), 0}), {2}, lz::f32, {8, 0});
    expect_tensor(x.at({None, 0, None}), {1, 1, 4}, lz::f32, {0, 1, 2, 3});
    expect_tensor(x.at({Slice(-2, None), Slice(None, -3)}), {2, 1}, lz::f32, {4, 8});
    EXPECT_EQ(x.at({Slice(5, 9)}).sizes(), (Extents{0, 4}));
    expect_tensor(x.at({lz::tensor({2, -3}), Slice(0, 2)}), {2, 2}, lz::f32, {8, 9, 0, 1});
    expect_tensor(x.at({0, lz::tensor({{1, 0}})}), {1, 2}, lz::f32, {1, 0});
    EXPECT_EQ((x.at({0}) + x.at({1})).sum().item<double>(), 28);
}

template <class T>
concept WritesToAPartOfAPart = requires(T x) { x[0][2] = 77; };
template <class T>
concept AddsToAPartOfAPart = requires(T x) { x.at({0}).at({1}) += 1; };

template <class T>
concept WritesThroughThreeIndices = requires(T x) { x[0][1][2] = 77; };
template <class T>
concept WritesAPartOfAPartToOne = requires(T x) { x[0][1] = x[1][0]; };

TEST(Semantics, S24_writing_to_a_part_of_a_part_does_not_compile) {
    static_assert(!WritesToAPartOfAPart<Tensor> && !AddsToAPartOfAPart<Tensor>);
    static_assert(!WritesThroughThreeIndices<Tensor> && !WritesAPartOfAPartToOne<Tensor>);
    auto kept = lz::arange(8).reshape({2, 2, 2})[1][0]; // a tensor of its own, which can be written
    kept[1] = 9;
    kept = kept + 1;
    kept += 1;
    EXPECT_EQ(values(kept), (Values{6, 11}));
    const Tensor x = lz::arange(6).reshape({2, 3});
    EXPECT_EQ(x[1][2].item<int>(), 5); // reading is fine
}

TEST(Semantics, S24_writing_to_a_part_changes_the_whole) {
    Tensor x = lz::zeros({3, 4});
    const Tensor alias = x;
    x.at({1}) = 5.0;
    x.at({Slice(), 0}) += lz::tensor({1.0, 2.0, 3.0});
    x.at({2, Slice(1, 3)}) = lz::tensor({8.0, 9.0});
    expect_values(alias, {1, 0, 0, 0, 7, 5, 5, 5, 3, 8, 9, 0});
    x.at({0}) -= 1;
    x.at({0}) *= 3;
    x.at({1}) /= 2;
    x.at({Slice(None, None, -1), 3}) = lz::tensor({30.0, 20.0, 10.0});
    expect_values(alias, {0, -3, -3, 10, 3.5, 2.5, 2.5, 20, 3, 8, 9, 30});
    x.at({Ellipsis, Slice(None, None, 2)}).fill_(0);
    x.at({0}).copy_(x.at({2}));
    x.at({1, None, 3}) = lz::tensor({{6}});
    expect_values(alias, {0, 8, 0, 30, 0, 2.5, 0, 6, 0, 8, 0, 30});
    x[2] = x[1];
    expect_values(alias, {0, 8, 0, 30, 0, 2.5, 0, 6, 0, 2.5, 0, 6});
}

TEST(Indexing, WritesThroughPositionsAndMasks) {
    Tensor x = counting(3, 2);
    x.at(lz::tensor({2, 0})) = lz::tensor({{10.0, 20.0}, {30.0, 40.0}});
    expect_values(x, {30, 40, 2, 3, 10, 20});
    x.at({Slice(1, 3), lz::tensor({-1})}) = 0;
    expect_values(x, {30, 40, 2, 0, 10, 0});
    x.at(x > 25) = -1;
    expect_values(x, {-1, -1, 2, 0, 10, 0});
    x.at(lz::tensor({false, true, false})) = 7;
    expect_values(x, {-1, -1, 7, 7, 10, 0});
    x.at(x == 7) += 1;
    expect_values(x, {-1, -1, 8, 8, 10, 0});
}

TEST(Indexing, ReadsThroughMasks) {
    const Tensor x = counting(3, 2);
    const Tensor chosen = x.at(x > 2); // was an empty handle
    expect_tensor(chosen, {3}, lz::f32, {3, 4, 5});
    EXPECT_EQ(x.at(x > 2).sum().item<int>(), 12);
    EXPECT_EQ((1 + x[x > 2] * 2).to_vector<float>(), (std::vector<float>{7, 9, 11}));
    EXPECT_EQ(x.at(x > 2).str(), "tensor([3., 4., 5.])");
    EXPECT_EQ(x.at(x > 2).sizes(), (Extents{3}));
    EXPECT_TRUE(x.at(x > 2).defined());
    expect_tensor(x.at(lz::tensor({true, false, true})), {2, 2}, lz::f32, {0, 1, 4, 5});
    expect_tensor(x.at(x > 9), {0}, lz::f32, {});
    expect_tensor(x.at(lz::tensor(true)), {1, 3, 2}, lz::f32, {0, 1, 2, 3, 4, 5});
    Tensor later;
    later = x.at(x > 4);
    expect_tensor(later, {1}, lz::f32, {5});
    const Tensor parts[] = {x.at(x > 4), x.at(x < 1)};
    const auto copied = [](const Tensor &t) { return Tensor(t); };
    expect_tensor(copied(x.at(x > 4)), {1}, lz::f32, {5});
    Tensor changed = counting(3, 2);
    const lz::Part &part = changed.at(lz::tensor({true, false, true}));
    expect_values(part, {0, 1, 4, 5});
    part += 1;
    expect_values(part, {1, 2, 5, 6});
    expect_values(lz::cat({parts[0], x.at(x < 1)}), {5, 0});
    expect_values(lz::clamp(x.at(x > 2), lz::tensor({4.0}), lz::Tensor()), {4, 4, 5});
    const Tensor bias = lz::tensor({7.0, 8.0, 9.0});
    expect_values(lz::linear(lz::ones({1, 2}), lz::ones({2, 2}), bias.at(bias > 7)), {10, 11});
}

TEST(Indexing, WritesTensorsThroughMasks) {
    Tensor x = counting(3, 2);
    const Tensor alias = x;
    x.at(x > 2) = lz::tensor({30.0, 40.0, 50.0}); // one for each that the mask selects
    expect_values(alias, {0, 1, 2, 30, 40, 50});
    x.at(lz::tensor({true, false, true})) = lz::tensor({-1.0, -2.0}); // the same to each row
    expect_values(alias, {-1, -2, 2, 30, -1, -2});
    x.at(lz::tensor({true, true, false})) = lz::tensor({{1.0}, {2.0}});
    expect_values(alias, {1, 1, 2, 2, -1, -2});
    x.at(x > 0) += lz::tensor({0.0, 10.0, 20.0, 30.0});
    expect_values(alias, {1, 11, 22, 32, -1, -2});
    const Tensor y = lz::tensor({{1.0, 0.0}, {0.0, 1.0}, {0.0, 0.0}});
    x.at(y > 0) = x.at(y > 0) * 2;
    expect_values(alias, {2, 11, 22, 64, -1, -2});
    x.at(x > 100) = lz::ones({0});
    expect_values(alias, {2, 11, 22, 64, -1, -2});
}

TEST(Indexing, WritingANumberThroughAMaskComputesNothing) {
    Tensor x = counting(3, 2);
    lz::sync();
    const int64_t launches = lz::compile_stats().kernel_launches;
    x.at(x > 2) = 7;
    x.at(x == 7) += 1;
    x.at(x == 8) = lz::tensor({9.0});
    EXPECT_EQ(lz::compile_stats().kernel_launches, launches);
    expect_values(x, {0, 1, 2, 9, 9, 9});
}

TEST(Indexing, AValueTakesTheDtypeOfTheWhole) {
    Tensor x = lz::tensor({1, 2, 3});
    x.at({0}) = 7.9;
    x.at({1}) = lz::tensor(5.5);
    expect_tensor(x, {3}, lz::i64, {7, 5, 3});
}

TEST(Indexing, WhatIsWrongIsSaidAndNothingChanges) {
    Tensor x = counting(2, 3);
    expect_error<lz::IndexError>([&] { x.at({2}); }, {"at", "index 2", "axis 0", "f32[2,3]"});
    expect_error<lz::IndexError>([&] { x.at({-3}); }, {"at", "index -3", "axis 0", "f32[2,3]"});
    expect_error<lz::IndexError>([&] { x[-3] = 1; }, {"at", "index -3", "axis 0", "f32[2,3]"});
    expect_error<lz::IndexError>([&] { x.at({0, 0, 0}); }, {"at", "3 axes"});
    expect_error<lz::IndexError>([&] { x.at({Ellipsis, Ellipsis}); }, {"Ellipsis"});
    expect_error<lz::IndexError>([&] { x.at({Slice(0, 1, 0)}); }, {"step"});
    expect_error<lz::ShapeError>([&] { x.at({0}) = lz::ones({2}); }, {"at", "[2]", "[3]"});
    expect_error<lz::ShapeError>([&] { x.at({0}) = lz::ones({2, 3}); }, {"at", "[2,3]", "[3]"});
    expect_error<lz::DTypeError>([&] { x.at({lz::tensor({0.5})}); }, {"at", "f32[1]"});
    expect_error<lz::IndexError>([&] { x.at(lz::tensor({true})); }, {"mask", "[1]"});
    expect_error<lz::ShapeError>([&] { x.at(x > 1) = lz::ones({2}); }, {"mask", "[2]", "[4]"});
    expect_error<lz::ShapeError>([&] { x.at(x > 1) = lz::ones({2, 3}); }, {"mask", "[2,3]", "[4]"});
    expect_values(x, {0, 1, 2, 3, 4, 5});
}

template <class T>
concept TakesExp = requires(T t) { t.exp_(); };
template <class T>
concept Fills = requires(T t) { t.fill_(1); };

TEST(Indexing, OtherInPlaceFormsOfAPartDoNotCompile) {
    static_assert(TakesExp<Tensor &> && !TakesExp<const lz::Part &> && !TakesExp<lz::Part &>);
    static_assert(Fills<const lz::Part &>);
}

/// An index of x[2,3,4,5] with what PyTorch makes of it: the part's shape, and sums of elements times their
/// positions from 1 on, of the part, of x after the numbers from 1000 on were written to the part, and after
/// `+= 1`.
struct IndexCase {
    std::function<std::vector<lz::Index>()> index;
    Extents sizes;
    double part, written, added;
};

TEST(Indexing, SeveralTensorsMasksAndListsPickAsInPyTorch) {
    const Tensor p2 = lz::tensor({0, 1}), p3 = lz::tensor({0, 1, 1}), q2 = lz::tensor({2, 0}),
                 q31 = lz::tensor({{2}, {0}, {1}}), r2 = lz::tensor({3, -1}, {.dtype = lz::i32}),
                 s2 = lz::tensor({4, 1}), s3 = lz::tensor({4, 0, 1}), zero = lz::tensor(0),
                 m2 = lz::tensor({true, false}), m4 = lz::tensor({false, true, true, false}),
                 m5 = lz::tensor({true, false, false, true, true}), one = lz::tensor(true);
    Tensor m = lz::zeros({3, 4}, {.dtype = lz::boolean});
    m.at({0, 1}) = true;
    m.at({2, 3}) = true;
    m.at({1, 0}) = true;
    using Spec = std::vector<lz::Index>;
    const IndexCase cases[] = {
        {[&] { return Spec{p2, q2}; }, {2, 4, 5}, 54120, 2899160, 578380},
        {[&] { return Spec{p2, q31}; }, {3, 2, 4, 5}, 439960, 7699960, 583220},
        {[&] { return Spec{Slice(), q2, r2}; }, {2, 2, 5}, 16110, 1833760, 577320},
        {[&] { return Spec{p2, Slice(), r2}; }, {2, 3, 5}, 39965, 2482610, 578000},
        {[&] { return Spec{p2, Slice(), r2, Slice(None, None, 2)}; }, {2, 3, 3}, 14631, 1710482, 577184},
        {[&] { return Spec{Ellipsis, q2, r2, 1}; }, {2, 2}, 740, 821554, 576228},
        {[&] { return Spec{p2, 1, r2}; }, {2, 5}, 4455, 1205210, 576640},
        {[&] { return Spec{0, Slice(), r2}; }, {3, 2, 5}, 21265, 1132560, 576530},
        {[&] { return Spec{Slice(), zero, Slice(), s3}; }, {2, 4, 3}, 16496, 1495616, 576924},
        {[&] { return Spec{p2, None, q2}; }, {2, 1, 4, 5}, 54120, 2899160, 578380},
        {[&] { return Spec{None, p2, q2}; }, {1, 2, 4, 5}, 54120, 2899160, 578380},
        {[&] { return Spec{p2, q2, r2, s2}; }, {2}, 211, 703645, 576097},
        {[&] { return Spec{p2, Ellipsis, s2}; }, {2, 3, 4}, 23534, 1947846, 577424},
        {[&] { return Spec{Slice(1, 2), Slice(None, None, 2), r2, s2}; }, {1, 2, 2}, 1052, 930604, 576354},
        {[&] { return Spec{zero, zero}; }, {4, 5}, 2660, 785960, 576170},
        {[&] { return Spec{m2, Slice(), 1}; }, {1, 3, 5}, 4270, 984560, 576380},
        {[&] { return Spec{Slice(), m}; }, {2, 3, 5}, 36590, 2255985, 577750},
        {[&] { return Spec{0, m}; }, {3, 5}, 4720, 1005985, 576405},
        {[&] { return Spec{p3, m}; }, {3, 5}, 11020, 1527685, 577005},
        {[&] { return Spec{m2, q2}; }, {2, 4, 5}, 17520, 1759760, 577180},
        {[&] { return Spec{m2, Slice(), m4}; }, {2, 3, 5}, 16340, 1471610, 576875},
        {[&] { return Spec{Slice(), Slice(), m4, s2}; }, {2, 3, 2}, 6086, 1255460, 576692},
        {[&] { return Spec{Ellipsis, m5}; }, {2, 3, 4, 3}, 209088, 4814768, 580340},
        {[&] { return Spec{one, m2}; }, {1, 3, 4, 5}, 71980, 2405960, 577790},
        {[&] { return Spec{p2.reshape({2, 1}), Slice(), r2, None}; },
         {2, 2, 3, 1, 5},
         153730,
         2535260,
         578000},
    };
    const Tensor x = lz::arange(120).reshape({2, 3, 4, 5}).to(lz::f64).eval();
    const auto weighed = [](const Tensor &t) {
        const Tensor flat = t.flatten();
        return (flat * lz::arange(1, flat.numel() + 1)).sum().item<double>();
    };
    int number = 0;
    for (const IndexCase &c : cases) {
        SCOPED_TRACE(testing::Message() << "case " << number++);
        const Spec index = c.index();
        const Tensor part = x.at(index);
        EXPECT_EQ(part.sizes(), c.sizes);
        EXPECT_EQ(weighed(part), c.part);
        Tensor y = x.clone();
        y.at(index) = (lz::arange(part.numel()) + 1000).reshape(part.sizes());
        EXPECT_EQ(weighed(y), c.written);
        y = x.clone();
        y.at(index) += 1;
        EXPECT_EQ(weighed(y), c.added);
    }
    EXPECT_EQ(number, 25);
    EXPECT_EQ(x.at({p2, q2, r2, s2}).sizes(), (Extents{2})); // as a list in place
}

TEST(Indexing, EachOfSeveralTensorsIsCheckedAgainstItsOwnAxis) {
    Tensor x = counting(3, 4);
    // 1 * 4 + 5 is inside x's memory, and no element of row 1.
    expect_error<lz::IndexError>([&] { values(x.at({lz::tensor({1}), lz::tensor({5})})); },
                                 {"at", "index 5", "4"});
    expect_error<lz::IndexError>(
        [&] {
            Tensor y = x.clone();
            y.at({lz::tensor({-4}), lz::tensor({0})}) = 1;
            values(y);
        },
        {"at", "index -4", "3"});
    expect_error<lz::IndexError>([&] { x.at({lz::tensor({0, 1}), lz::tensor({0, 1, 2})}); },
                                 {"at", "[2]", "[3]", "broadcast"});
    expect_error<lz::IndexError>([&] { x.at({Slice(), lz::tensor({true, false})}); },
                                 {"mask", "[2]", "axes from 1"});
    expect_values(x.at({lz::tensor({1, 2}), lz::tensor({3, -4})}), {7, 8});
    EXPECT_EQ(x.at({lz::zeros({0}, {.dtype = lz::i64}), lz::tensor({1})}).sizes(), (Extents{0}));
}

TEST(Indexing, TensorsOfPositionsPickInOneKernel) {
    const Tensor x = counting(64, 32).eval(), i = lz::arange(50).eval(), j = (lz::arange(50) % 32).eval();
    const int64_t launches = lz::compile_stats().kernel_launches;
    const Tensor picked = (x.at({i, j}) * 2).eval();
    EXPECT_EQ(lz::compile_stats().kernel_launches, launches + 1);
    EXPECT_EQ(picked.sum().item<double>(), [] {
        double sum = 0;
        for (int k = 0; k < 50; ++k)
            sum += 2 * (32 * k + k % 32);
        return sum;
    }());
}

} // namespace
