// What shows a user what happened: the profiler, memory statistics, dump and explain.
#include "ir/location.h"
#include "tests/support/environment.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <string>

namespace {

using lz::Tensor;

bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

TEST(Profiler, NamesKernelsWithTheirLinesInTraceAndPicture) {
    LZ_NEEDS_JIT();
    lz::sync();
    const Tensor x = lz::ones({64, 64}) * 2;
    lz::Profiler profiler;
    const int line = __LINE__ + 1;
    const Tensor y = lz::softmax(x, -1);
    y.eval();
    EXPECT_THROW(lz::Profiler(), lz::StateError) << "one at a time";
    const std::string json = profiler.json(), svg = profiler.svg();
    EXPECT_TRUE(contains(json, "exp")) << json;
    EXPECT_TRUE(contains(json, "tools_test.cpp:" + std::to_string(line))) << json;
    EXPECT_TRUE(contains(svg, "<svg") && contains(svg, y.device().str() + " stream 0") &&
                contains(svg, "exp"))
        << svg;
    EXPECT_THROW(profiler.save("/no/such/folder/trace.json"), lz::IoError);
    EXPECT_NO_THROW(lz::Profiler()) << "the first one has stopped";
}

TEST(Profiler, NamesPartsOfTheProgram) {
    lz::Profiler profiler;
    {
        const lz::ProfileRange range("epoch 3");
        lz::ones({4}).eval();
    }
    EXPECT_TRUE(contains(profiler.json(), "\"epoch 3\"")) << profiler.json();
    EXPECT_TRUE(contains(profiler.svg(), "epoch 3"));
}

TEST(MatmulPrecision, IsSetByNamesAndValues) {
    using enum lz::MatmulPrecision;
    EXPECT_EQ(lz::float32_matmul_precision(), Highest);
    lz::set_float32_matmul_precision("medium");
    EXPECT_EQ(lz::float32_matmul_precision(), Medium);
    try {
        lz::set_float32_matmul_precision("low");
        FAIL() << "there is no such precision";
    } catch (const lz::StateError &error) {
        EXPECT_TRUE(contains(error.what(), "\"low\"") && contains(error.what(), "\"highest\""))
            << error.what();
    }
    EXPECT_EQ(lz::float32_matmul_precision(), Medium);
    // Where no tensor core multiplies it changes nothing.
    const Tensor x = lz::full({3, 3}, 1.0F + 0x1p-20F);
    const Tensor medium = lz::matmul(x, lz::ones({3, 3})).eval();
    lz::set_float32_matmul_precision(Highest);
    if (std::getenv("LAZULI_TEST_CUDA") == nullptr) {
        EXPECT_TRUE(lz::equal(lz::matmul(x, lz::ones({3, 3})), medium));
    }
}

TEST(Semantics, S50_memory_is_counted) {
    lz::sync();
    const lz::Device here = lz::get_default_device();
    const int64_t before = lz::memory_allocated(here);
    lz::reset_peak_memory_stats(here);
    {
        const Tensor x = lz::ones({1 << 18}) + 1;
        x.eval();
        EXPECT_EQ(lz::memory_allocated(here) - before, 1 << 20);
    }
    EXPECT_EQ(lz::memory_allocated(here), before);
    EXPECT_EQ(lz::max_memory_allocated(here) - before, 1 << 20);
    EXPECT_GE(lz::memory_reserved(here), lz::memory_allocated(here));
    EXPECT_EQ(lz::memory_cached(here), lz::memory_reserved(here));
    EXPECT_EQ(lz::memory_stats(here).at("allocated_bytes.all.current"), before);
    EXPECT_FALSE(lz::memory_summary(here).empty());
    EXPECT_EQ(lz::memory_snapshot(here).front(), '[');
}

TEST(Semantics, S51_empty_cache_spares_live_tensors) {
    const Tensor live = lz::full({1 << 20}, 3.0).eval();
    const lz::Device here = live.device();
    {
        lz::full({1 << 24}, 1.0).eval(); // 64 MiB: a segment of its own
    }
    const int64_t before = lz::memory_reserved(here);
    lz::empty_cache(here);
    EXPECT_LT(lz::memory_reserved(here), before);
    EXPECT_EQ(live.to_vector<float>()[12345], 3.0f);
}

TEST(Semantics, S53_the_fraction_must_make_sense) {
    EXPECT_THROW(lz::set_per_process_memory_fraction(0), lz::StateError);
    EXPECT_THROW(lz::set_per_process_memory_fraction(1.5), lz::StateError);
    EXPECT_NO_THROW(lz::set_per_process_memory_fraction(1));
}

TEST(Explain, SaysWhatIsPendingAndComputesNothing) {
    lz::sync();
    const int64_t launches = lz::compile_stats().kernel_launches;
    const Tensor y = lz::softmax(lz::ones({8, 8}) * 2, -1);
    EXPECT_TRUE(contains(lz::explain(y), "1 kernel")) << lz::explain(y);
    EXPECT_TRUE(contains(lz::dump(y), "exp")) << lz::dump(y);
    EXPECT_EQ(lz::compile_stats().kernel_launches, launches);
    EXPECT_NEAR(y.sum().item<double>(), 8, 1e-5); // still pending then, and right
    EXPECT_TRUE(contains(lz::explain(y), "computed already")) << lz::explain(y);
    // What only makes or moves values is one operation for each kernel.
    const Tensor moved = lz::arange(6).reshape({2, 3}).transpose(0, 1).contiguous();
    EXPECT_TRUE(contains(lz::explain(moved), "became 1 kernel out of 1 operation.")) << lz::explain(moved);
    EXPECT_TRUE(contains(lz::verify_schedule(moved), "1 step on 1 stream,")) << lz::verify_schedule(moved);
}

TEST(Explain, SaysHowATensorFailed) {
    const int line = __LINE__ + 1;
    const Tensor y = lz::index_select(lz::ones({2}), 0, lz::tensor({5}));
    EXPECT_THROW((void)y.to_vector<float>(), lz::IndexError);
    const std::string said = lz::explain(y);
    EXPECT_TRUE(contains(said, "The tensor could not be computed")) << said;
    EXPECT_TRUE(contains(said, "index 5 is out of range")) << said;
    EXPECT_TRUE(contains(said, "tools_test.cpp:" + std::to_string(line))) << said;
    EXPECT_FALSE(contains(said, "computed already")) << said;
}

/// The name of a primitive gives way to that of the function that was called; a check's name is a sentence.
TEST(Tools, ErrorsBearTheNameOfWhatWasCalled) {
    lz::Location loc = lz::Location::current();
    const auto said = [&](const char *message) { return lz::StateError(message, loc).msg(); };
    loc.function = lz::ir::intern_function("log");
    EXPECT_EQ(said("log2: no"), "log: no");
    EXPECT_EQ(said("div: no"), "log: no");
    EXPECT_EQ(said("no name"), "no name");
    loc.function = lz::ir::intern_function("nll_loss: a label is no class");
    EXPECT_EQ(said("nll_loss: a label is no class"), "nll_loss: a label is no class");
}

} // namespace
