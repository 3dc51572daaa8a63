// S50 to S55 on GPUs: each has an allocator of its own.
#include "support.h"

#include <atomic>
#include <cstdlib>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

constexpr int64_t kMiB = int64_t{1} << 20;

Tensor megabytes(int64_t n, const Device &place) {
    return lz::full({n * kMiB / 4}, 1, {.dtype = lz::f32, .device = place});
}

TEST(Semantics, S50_every_device_counts_its_own_memory) {
    LZ_NEEDS_GPUS(3);
    for (const Device &place : places()) {
        lz::sync();
        const int64_t before = lz::memory_allocated(place), elsewhere = lz::memory_allocated(kGpu2);
        lz::reset_peak_memory_stats(place);
        {
            const Tensor x = megabytes(4, place), y = megabytes(2, place);
            lz::eval({x, y});
            EXPECT_EQ(lz::memory_allocated(place) - before, 6 * kMiB) << place;
        }
        EXPECT_EQ(lz::memory_allocated(place), before) << place;
        EXPECT_EQ(lz::max_memory_allocated(place) - before, 6 * kMiB) << place;
        EXPECT_GE(lz::memory_reserved(place), lz::memory_allocated(place));
        EXPECT_GE(lz::max_memory_reserved(place), lz::max_memory_allocated(place));
        EXPECT_EQ(lz::memory_cached(place), lz::memory_reserved(place));
        EXPECT_EQ(lz::max_memory_cached(place), lz::max_memory_reserved(place));
        EXPECT_EQ(lz::memory_stats(place).at("allocated_bytes.all.peak"), before + 6 * kMiB);
        EXPECT_NE(lz::memory_summary(place).find("Allocated memory"), std::string::npos);
        EXPECT_EQ(lz::memory_snapshot(place).front(), '[');
        EXPECT_EQ(lz::memory_allocated(kGpu2), elsewhere);
    }
}

TEST(Semantics, S50_names_in_cuda_mean_the_current_gpu) {
    LZ_NEEDS_GPUS(2);
    lz::sync();
    const Tensor live = megabytes(3, kGpu1).eval();
    lz::cuda::synchronize(kGpu1);
    const lz::cuda::DeviceGuard guard(1);
    lz::cuda::empty_cache();
    EXPECT_GE(lz::cuda::memory_allocated(), 3 * kMiB);
    EXPECT_EQ(lz::cuda::memory_allocated(), lz::memory_allocated(kGpu1));
    EXPECT_EQ(lz::cuda::max_memory_allocated(), lz::max_memory_allocated(kGpu1));
    EXPECT_EQ(lz::cuda::memory_cached(), lz::memory_reserved(kGpu1));
    EXPECT_EQ(lz::cuda::max_memory_cached(), lz::cuda::max_memory_reserved());
    EXPECT_EQ(lz::cuda::memory_snapshot(), lz::memory_snapshot(kGpu1));
    const auto [free, total] = lz::cuda::mem_get_info();
    EXPECT_EQ(total, lz::cuda::get_device_properties(kGpu1).total_memory);
    EXPECT_EQ(free, total - lz::memory_reserved(kGpu1));
    lz::cuda::set_per_process_memory_fraction(0.25); // 64 MiB, and what other tests' tensors have reserved
    EXPECT_THROW(megabytes(200, kGpu1).eval(), lz::OutOfMemoryError);
    lz::cuda::set_per_process_memory_fraction(1);
    EXPECT_NO_THROW(megabytes(80, kGpu1).eval());
}

TEST(Semantics, S51_empty_cache_of_a_gpu_gives_back_what_is_unused) {
    LZ_NEEDS_GPUS(2);
    lz::sync();
    const Tensor live = megabytes(1, kGpu1) * 3;
    live.eval();
    megabytes(64, kGpu1).eval();
    lz::cuda::synchronize(kGpu1);
    const int64_t before = lz::memory_reserved(kGpu1);
    lz::empty_cache(kGpu1);
    EXPECT_LE(lz::memory_reserved(kGpu1), before - 64 * kMiB);
    EXPECT_EQ(live.sum().item<double>(), 3.0 * kMiB / 4);
}

TEST(Semantics, S52_out_of_memory_of_a_gpu_names_the_line_and_the_engine_goes_on) {
    LZ_NEEDS_GPUS(4);
    lz::sync(); // each GPU of these tests has 256 MiB
    lz::cuda::synchronize(kGpu3);
    lz::empty_cache(kGpu3);
    const int64_t before = lz::memory_allocated(kGpu3);
    Tensor kept = megabytes(16, kGpu3);
    kept += 1;
    lz::sync();
    const uint32_t line = __LINE__ + 1;
    Tensor large = lz::full({128 * kMiB}, 1, {.dtype = lz::f32, .device = kGpu3}); // 512 MiB
    const Tensor after = large * 2, independent = kept * 2;
    const Caught error = caught<lz::OutOfMemoryError>([&] { lz::sync(); });
    EXPECT_EQ(error.line, line);
    for (const char *part : {"cuda:3", "512.00 MiB were asked for", "256.00 MiB in total", "free",
                             "live tensors", "reserved", "Try"})
        EXPECT_TRUE(error.has(part)) << part << " is not in " << error.what;
    EXPECT_EQ(independent.sum().item<double>(), 4.0 * 16 * kMiB / 4);
    EXPECT_THROW(after.to_vector<float>(), lz::OutOfMemoryError);
    EXPECT_THROW(large.to_vector<float>(), lz::OutOfMemoryError) << "the same error again";
    large = Tensor();
    EXPECT_EQ(kept.sum().item<double>(), 2.0 * 16 * kMiB / 4);
    // The cache is given back before anything fails.
    for (int i = 0; i < 4; ++i)
        (megabytes(100 + i, kGpu3) * 2).eval();
    lz::sync();
    EXPECT_NEAR(static_cast<double>(lz::memory_allocated(kGpu3) - before), 2.0 * 16 * kMiB, 4096);
}

TEST(Semantics, S53_a_fraction_caps_one_gpu) {
    LZ_NEEDS_GPUS(3);
    lz::sync();
    lz::empty_cache(kGpu2);
    lz::set_per_process_memory_fraction(0.25, kGpu2); // 64 MiB
    const Tensor large = megabytes(80, kGpu2);
    EXPECT_THROW(large.eval(), lz::OutOfMemoryError);
    EXPECT_NO_THROW(megabytes(80, kGpu1).eval());
    lz::set_per_process_memory_fraction(1, kGpu2);
    EXPECT_NO_THROW((megabytes(80, kGpu2) * 2).eval());
}

TEST(Child, DISABLED_Allocates) {
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ((megabytes(2, kGpu1) * 2).sum().item<double>(), 2.0 * 2 * kMiB / 4);
    lz::cuda::synchronize(kGpu1);
    const Tensor live =
        lz::ones({1}, {.device = kGpu1}).eval(); // what was freed on streams is looked at again
    const bool caching = std::getenv("LAZULI_NO_MEMORY_CACHING") == nullptr;
    EXPECT_EQ(lz::memory_reserved(kGpu1) > lz::memory_allocated(kGpu1), caching);
}
TEST(Semantics, S53_options_of_the_allocator_hold_for_gpus) {
    LZ_NEEDS_GPUS(2);
    run_child("LAZULI_NO_MEMORY_CACHING=1", "Allocates");
    run_child("LAZULI_ALLOC_CONF=max_split_size_mb:64", "Allocates");
}

TEST(Semantics, S54_freeing_does_not_wait) {
    // The callback holds up the stream until the tensor has been freed: waiting would never end.
    const lz::Stream stream(kGpu0);
    std::atomic<bool> freed{false};
    stream.add_callback([&] {
        while (!freed)
            ;
    });
    {
        const lz::StreamGuard guard(stream);
        Tensor x = megabytes(1, kGpu0) * 2;
        x.eval();
        EXPECT_FALSE(stream.query());
        x = Tensor();
    }
    freed = true;
    stream.synchronize();
    EXPECT_TRUE(stream.query());
}

/// The number behind `words` in the line of the planned peak: `8 bytes`, `12.0 KiB`, `3.0 MiB`.
int64_t bytes_after(const std::string &text, const std::string &words) {
    const size_t line = text.find("Planned peak"), at = text.find(words, line);
    if (line == std::string::npos || at == std::string::npos)
        return -1;
    size_t length = 0;
    const std::string rest = text.substr(at + words.size());
    const double number = std::stod(rest, &length);
    const std::string unit = rest.substr(length, 4);
    return static_cast<int64_t>(number * (unit == " KiB" ? 1024 : unit == " MiB" ? 1024 * 1024 : 1));
}

TEST(Semantics, S55_intermediates_share_an_arena_that_results_do_not_keep) {
    LZ_NEEDS_GPUS(2);
    lz::sync();
    for (const Device &place : {Device::cpu(), kGpu1}) {
        const Tensor x = lz::randn({512, 512}, {.device = place});
        lz::sync();
        lz::cuda::synchronize(kGpu1);
        const int64_t before = lz::memory_allocated(place);
        lz::reset_peak_memory_stats(place);
        Tensor y = x;
        for (int i = 0; i < 12; ++i)
            y = lz::matmul(y, x) * 0.04; // eleven intermediates of 1 MiB, two at a time
        const Tensor sum = y.sum();
        y = Tensor(); // nobody can reach the last product
        const std::string said = lz::explain(sum);
        sum.eval();
        lz::cuda::synchronize(kGpu1);
        // What it took is what had been planned, results and intermediates, to the rounding of blocks.
        const int64_t planned = bytes_after(said, "results ") + bytes_after(said, "intermediates ");
        EXPECT_LE(planned, 6 * kMiB) << said;
        EXPECT_NEAR(static_cast<double>(lz::max_memory_allocated(place) - before),
                    static_cast<double>(planned), 4096)
            << place << '\n'
            << said;
        lz::sync();
        EXPECT_LE(lz::memory_allocated(place) - before, 4096) << place << ": one number keeps no arena";
    }
}

} // namespace
