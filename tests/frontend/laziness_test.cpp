// Laziness as the user sees it: S20 to S27.
#include "tests/support/environment.h"
#include "tests/support/tensor_values.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using lz::Tensor;

/// Counts since construction.
struct Stats {
    lz::CompileStats begin = lz::compile_stats();
    int64_t compiled() const { return lz::compile_stats().programs_compiled - begin.programs_compiled; }
    int64_t resized() const { return lz::compile_stats().programs_resized - begin.programs_resized; }
    int64_t reused() const { return lz::compile_stats().programs_reused - begin.programs_reused; }
    int64_t programs() const { return compiled() + resized() + reused(); }
    int64_t kernels() const { return lz::compile_stats().kernels_compiled - begin.kernels_compiled; }
    int64_t launches() const { return lz::compile_stats().kernel_launches - begin.kernel_launches; }
};

TEST(Semantics, S20_recording_computes_nothing) {
    const Tensor x = lz::ones({1000});
    lz::sync();
    const Stats stats;
    const Tensor y = lz::exp(x) * 2 + x;
    EXPECT_EQ(stats.programs(), 0);
    EXPECT_EQ(y.size(0), 1000);
    EXPECT_EQ(stats.programs(), 0);
    EXPECT_NEAR(y.sum().item<double>(), 1000 * (2 * 2.718281828 + 1), 0.1);
    EXPECT_EQ(stats.programs(), 1);
}

TEST(Semantics, S20_shape_errors_are_thrown_at_the_recording_line) {
    const Tensor a = lz::ones({64, 10}), b = lz::ones({64, 9});
    const int line = __LINE__ + 2;
    try {
        const Tensor c = a + b;
        FAIL() << "no error";
    } catch (const lz::ShapeError &error) {
        const std::string what = error.what();
        EXPECT_NE(what.find("[64,10]"), std::string::npos) << what;
        EXPECT_NE(what.find("[64,9]"), std::string::npos) << what;
        EXPECT_NE(what.find("laziness_test.cpp:" + std::to_string(line)), std::string::npos) << what;
        EXPECT_EQ(static_cast<int>(error.line()), line);
    }
}

TEST(Semantics, S21_one_sync_computes_everything_pending) {
    const Tensor x = lz::full({8}, 3.0);
    const Tensor a = x + 1, b = x * 2, c = a - b;
    const Stats stats;
    EXPECT_EQ(b.to_vector<float>()[0], 6.0f);
    EXPECT_EQ(stats.programs(), 1);
    const int64_t launches = stats.launches();
    EXPECT_EQ(a.to_vector<float>()[7], 4.0f);
    EXPECT_EQ(c.to_vector<float>()[3], -2.0f);
    EXPECT_EQ(stats.launches(), launches);
}

TEST(Semantics, S21_eval_computes_only_what_it_needs) {
    LZ_NEEDS_JIT(); // launches are counted
    lz::sync();
    const Tensor x = lz::full({8}, 3.0);
    const Tensor a = x + 1, other = x * 100;
    const Stats stats;
    a.eval();
    EXPECT_EQ(stats.programs(), 1);
    const int64_t once = stats.launches();
    EXPECT_EQ(other.to_vector<float>()[0], 300.0f);
    EXPECT_EQ(stats.launches(), once + 1);
    EXPECT_EQ(a.to_vector<float>()[0], 4.0f);
    EXPECT_EQ(stats.launches(), once + 1);
}

TEST(Semantics, S22_a_loop_without_sync_does_not_grow) {
    lz::sync();
    Tensor x = lz::zeros({16});
    const Stats stats;
    for (int i = 0; i < 100000; ++i) {
        const Tensor y = x * 0.5;
        x = y + 1.0;
    }
    EXPECT_GE(stats.programs(), 5);
    EXPECT_LE(stats.compiled(), 3) << "the cut does not fall where the lines repeat";
    EXPECT_EQ(x.to_vector<float>()[5], 2.0f);
}

TEST(Semantics, S23_intermediates_are_never_stored) {
    lz::sync();
    const Tensor x = lz::ones({1 << 20});
    lz::sync();
    lz::reset_peak_memory_stats(x.device());
    const int64_t before = lz::memory_allocated(x.device());
    const Tensor y = lz::exp(lz::sin(x) * 2 + lz::cos(x)) - 1;
    y.eval();
    EXPECT_EQ(lz::memory_allocated(x.device()) - before, 4 << 20);
    EXPECT_EQ(lz::max_memory_allocated(x.device()) - before, 4 << 20);
}

TEST(Semantics, S24_handles_are_references) {
    Tensor a = lz::zeros({3});
    Tensor b = a;
    b.add_(1);
    EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1, 1, 1}));
    EXPECT_TRUE(a.same_tensor(b));
    const Tensor before = a + 0;
    a += 5;
    EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{6, 6, 6}));
    EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST(Semantics, S24_views_are_values_and_at_writes) {
    Tensor a = lz::arange(6).reshape({2, 3});
    const Tensor row = a.select(0, 1);
    a.at({1}) = 0;
    EXPECT_EQ(row.to_vector<int64_t>(), (std::vector<int64_t>{3, 4, 5}));
    EXPECT_EQ(a.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 0, 0, 0}));
    a.at({lz::Slice(), 1}) += 10;
    EXPECT_EQ(a.to_vector<int64_t>(), (std::vector<int64_t>{0, 11, 2, 0, 10, 0}));
}

TEST(Semantics, S26_an_index_out_of_range_names_its_line_and_spares_the_rest) {
    lz::sync();
    const Tensor table = lz::arange(5);
    const std::vector<int64_t> places{0, 7};
    const Tensor index = lz::tensor(places);
    const Tensor fine = table * 2;
    const int line = __LINE__ + 1;
    const Tensor picked = lz::index_select(table, 0, index);
    const Tensor after = picked + 1;
    try {
        lz::sync();
        FAIL() << "no error";
    } catch (const lz::IndexError &error) {
        const std::string what = error.what();
        EXPECT_NE(what.find("7"), std::string::npos) << what;
        EXPECT_NE(what.find("laziness_test.cpp:" + std::to_string(line)), std::string::npos) << what;
    }
    EXPECT_EQ(fine.to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 4, 6, 8}));
    EXPECT_THROW(picked.to_vector<int64_t>(), lz::IndexError);
    EXPECT_THROW(after.to_vector<int64_t>(), lz::IndexError);
    const Tensor dependent = after * 3;
    EXPECT_THROW(dependent.to_vector<int64_t>(), lz::IndexError);
    EXPECT_EQ((fine + 1).to_vector<int64_t>()[4], 9); // the engine goes on
}

TEST(Semantics, S26_a_handle_changed_in_place_goes_back_to_its_newest_good_version) {
    Tensor a = lz::arange(3);
    a.add_(1);
    a.eval(); // 1 2 3
    a.mul_(2);
    const std::vector<int64_t> places{0, 1, 9};
    a.add_(lz::index_select(a, 0, lz::tensor(places)));
    EXPECT_THROW(lz::sync(), lz::IndexError);
    EXPECT_EQ(a.to_vector<int64_t>(), (std::vector<int64_t>{2, 4, 6}));
    a.add_(1);
    EXPECT_EQ(a.to_vector<int64_t>(), (std::vector<int64_t>{3, 5, 7}));
}

TEST(Semantics, S66_integer_division_by_zero_is_an_error) {
    const Tensor a = lz::arange(4), zero = lz::zeros({4}, {.dtype = lz::i64});
    const Tensor q = lz::floor_divide(a, zero);
    EXPECT_THROW(q.to_vector<int64_t>(), lz::Error);
    EXPECT_EQ((a + 1).to_vector<int64_t>()[3], 4);
}

TEST(Semantics, S27_other_numbers_never_compile_again) {
    const Tensor x = lz::rand({100});
    lz::sync();
    const auto step = [&](double a, int64_t start, uint64_t seed) {
        lz::manual_seed(seed);
        const Tensor y = x.slice(0, start, start + 50) * a + lz::rand({50});
        return y.sum().item<double>();
    };
    step(1.5, 3, 1);
    const Stats stats;
    for (int i = 0; i < 10; ++i)
        step(0.25 * i, i * 5, static_cast<uint64_t>(i) + 77);
    EXPECT_EQ(stats.compiled(), 0);
    EXPECT_EQ(stats.kernels(), 0);
    EXPECT_EQ(stats.reused(), 10);
}

TEST(Semantics, S27_sizes_of_one_class_share_kernels) {
    const auto step = [&](int64_t rows, int64_t columns) {
        const Tensor x = lz::rand({rows, columns});
        const Tensor y = lz::softmax(lz::tanh(x) * 2 + 1, -1);
        return y.sum().item<double>();
    };
    step(30, 130);
    const Stats stats;
    for (int64_t i = 0; i < 10; ++i)
        EXPECT_NEAR(step(31 + 3 * i, 131 + 12 * i), static_cast<double>(31 + 3 * i), 1e-3);
    EXPECT_EQ(stats.compiled() + stats.resized(), 10);
    // For two sizes, and where the passes decide otherwise.
    if (!std::getenv("LAZULI_TEST_CUDA")) {
        EXPECT_LE(stats.compiled(), 3);
    }
    // A CUDA device's schedule follows the length of rows: threads of a row, and how many rows a block has.
    const int most = std::getenv("LAZULI_TEST_CUDA") ? 3 : 0;
    EXPECT_LE(stats.kernels(), most) << "a kernel was specialised on a size";
}

TEST(Semantics, S55_donation_holds_two_buffers_at_most) {
    lz::sync();
    Tensor x = lz::ones({1 << 20});
    lz::sync();
    lz::reset_peak_memory_stats(x.device());
    const int64_t before = lz::memory_allocated(x.device());
    for (int i = 0; i < 10; ++i) {
        x = x * 2 + 1;
        x.eval();
    }
    EXPECT_LE(lz::max_memory_allocated(x.device()) - before, 4 << 20);
    EXPECT_EQ(lz::memory_allocated(x.device()), before);
    EXPECT_EQ(x.to_vector<float>()[9], 2047.0f);
}

Tensor static_tensor = lz::ones({4}) + 1; // S68: never read; must neither crash at the start nor at the end

TEST(Semantics, S68_static_tensors_work) {
    EXPECT_EQ(static_tensor.to_vector<float>()[0], 2.0f);
}

TEST(Tensor, EmptyHandlesThrowAndDoNotCrash) {
    Tensor a = lz::ones({2});
    const Tensor b = std::move(a);
    EXPECT_FALSE(a.defined()); // NOLINT: the moved-from state is what is tested
    EXPECT_THROW(a + b, lz::StateError);
    EXPECT_THROW(a.item<float>(), lz::StateError);
    EXPECT_THROW((void)a.dtype(), lz::StateError);
}

TEST(Tensor, EmptyHandlesAreNamedWithTheLine) {
    const Tensor none;
    const auto says = [](const char *name, const std::function<void()> &f) {
        lz::test::expect_error<lz::StateError>(f, {std::string(name) + ": the tensor is empty"});
    };
    says("sizes", [&] { none.sizes(); });
    says("dtype", [&] { none.dtype(); });
    says("device", [&] { none.device(); });
    says("numel", [&] { none.numel(); });
    says("dim", [&] { none.dim(); });
    says("is_pinned", [&] { none.is_pinned(); });
    says("to_vector", [&] { none.to_vector<float>(); });
    says("item", [&] { none.item<bool>(); });
    lz::test::expect_error<lz::DTypeError>([] { lz::ones({1}).to_vector<double>(); }, {"to_vector", "f32"});
}

TEST(Tensor, ItemIsTheNumberOrAnError) {
    const auto refuses = [](const char *number, const std::function<void()> &f) {
        lz::test::expect_error<lz::StateError>(f, {"item", number, "does not fit"});
    };
    EXPECT_TRUE(lz::tensor(0.5).item<bool>());
    EXPECT_TRUE(lz::tensor(NAN).item<bool>());
    EXPECT_TRUE(lz::tensor(256).item<bool>());
    EXPECT_FALSE(lz::tensor(-0.0).item<bool>());
    EXPECT_EQ(lz::tensor(255).item<uint8_t>(), 255);
    EXPECT_EQ(lz::tensor(-128).item<int8_t>(), -128);
    EXPECT_EQ(lz::tensor(-2.7).item<int>(), -2);
    EXPECT_EQ(lz::tensor(INT64_MIN).item<int64_t>(), INT64_MIN);
    EXPECT_EQ(lz::tensor(INT64_MAX).item<uint64_t>(), static_cast<uint64_t>(INT64_MAX));
    refuses("300", [] { (void)lz::tensor(300).item<uint8_t>(); });
    refuses("70000", [] { (void)lz::tensor(70000).item<int16_t>(); });
    refuses("-1", [] { (void)lz::tensor(-1).item<uint32_t>(); });
    refuses("-1", [] { (void)lz::tensor(-1).item<uint64_t>(); });
    refuses("2147483648", [] { (void)lz::tensor(2147483648.0).item<int>(); });
    refuses("nan", [] { (void)lz::tensor(NAN).item<int64_t>(); });
}

TEST(Tensor, ItemOfManyElementsIsAStateError) {
    EXPECT_THROW(lz::ones({2}).item<float>(), lz::StateError);
    EXPECT_EQ(lz::ones({1, 1}).item<int>(), 1);
}

TEST(Tensor, MutableDataBelongsToThisTensorAlone) {
    Tensor a = lz::zeros({4}, {.device = "cpu"});
    const Tensor doubled = a * 2;
    a.mutable_data<float>()[1] = 7;
    EXPECT_EQ(doubled.to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
    EXPECT_EQ((a + 1).to_vector<float>(), (std::vector<float>{1, 8, 1, 1}));
}

} // namespace
