// S30 to S33: copies and pinned memory.
#include "support.h"

#include <numeric>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

std::vector<float> counting(size_t n, float from = 0) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), from);
    return v;
}

TEST(Semantics, S30_copies_are_ordered_with_what_reads_and_writes_either_side) {
    LZ_NEEDS_GPUS(2);
    Tensor x = lz::tensor(counting(5000), {5000}).cuda(0);
    const Tensor before = x.cuda(1);
    x += 1; // after the copy has read
    const Tensor after = x.cuda(1), back = after.cpu();
    x.zero_();
    EXPECT_EQ(floats(before), counting(5000));
    EXPECT_EQ(floats(back), counting(5000, 1));
    EXPECT_EQ(floats(after * 2 - back.cuda(1)), counting(5000, 1));
    EXPECT_EQ(floats(x), std::vector<float>(5000, 0));
}

TEST(Semantics, S30_in_loops_too) {
    LZ_NEEDS_GPUS(2);
    Tensor a = lz::zeros({1000}, {.device = kGpu0}), b = lz::zeros({1000}, {.device = kGpu1});
    for (int i = 0; i < 20; ++i) {
        a += 1;
        b.copy_(a);
        b += b;
        a.copy_(b.cuda(0) - a);
        if (i % 3 == 0)
            lz::eval({a, b});
    }
    EXPECT_EQ(floats(a), std::vector<float>(1000, 20));
    EXPECT_EQ(floats(b), std::vector<float>(1000, 40));
}

TEST(Semantics, S31_pinned_memory_is_a_property_of_tensors_on_the_cpu) {
    const Tensor x = lz::arange(10, {.dtype = lz::f32});
    EXPECT_FALSE(x.is_pinned());
    const Tensor p = x.pin_memory();
    EXPECT_TRUE(p.is_pinned());
    EXPECT_FALSE(x.is_pinned());
    EXPECT_TRUE(p.pin_memory().same_tensor(p));
    EXPECT_EQ(floats(p), counting(10));
    EXPECT_EQ(p.device(), Device::cpu());
    EXPECT_TRUE(p.is_pinned());
    const Device any = Device::cpu();
    for (const Tensor &t : {lz::empty({4}, {.pinned = true}), lz::zeros({4}, {.pinned = true}),
                            lz::full({4}, 2, {.pinned = true}), lz::rand({4}, {.pinned = true}),
                            lz::tensor({1.0, 2.0}, {.device = any, .pinned = true}),
                            lz::arange(4, {.pinned = true}), lz::zeros_like(x, {.pinned = true})}) {
        EXPECT_TRUE(t.is_pinned());
        const int64_t in_use = lz::host_memory_stats().at("allocated_bytes.all.current");
        t.eval();
        EXPECT_TRUE(t.is_pinned());
        EXPECT_GE(lz::host_memory_stats().at("allocated_bytes.all.current"), in_use);
    }
    EXPECT_TRUE(caught<lz::DeviceError>([] { lz::ones({2}, {.device = kGpu0}).pin_memory(); }).has("cuda:0"));
    EXPECT_THROW(lz::ones({2}, {.device = kGpu0, .pinned = true}), lz::DeviceError);
}

TEST(Semantics, S31_pinned_memory_is_counted_and_cached) {
    lz::sync();
    const auto in_use = [] { return lz::host_memory_stats().at("allocated_bytes.all.current"); };
    const int64_t before = in_use();
    int64_t reserved = 0;
    for (int i = 0; i < 4; ++i) {
        const Tensor p = lz::ones({1 << 18}, {.pinned = true});
        p.eval();
        EXPECT_EQ(in_use() - before, 1 << 20);
        const int64_t now = lz::host_memory_stats().at("reserved_bytes.all.current");
        if (i > 0) {
            EXPECT_EQ(now, reserved) << "the same memory again";
        }
        reserved = now;
    }
    EXPECT_EQ(in_use(), before);
    lz::empty_host_cache();
    EXPECT_LT(lz::host_memory_stats().at("reserved_bytes.all.current"), reserved);
}

TEST(Semantics, S31_filling_pinned_memory_keeps_it_pinned) {
    LZ_NEEDS_GPUS(2);
    Tensor p = lz::empty({6}, {.pinned = true});
    p.copy_(lz::arange(6, {.dtype = lz::f32}));
    EXPECT_TRUE(p.is_pinned());
    p += 1;
    lz::sync();
    EXPECT_TRUE(p.is_pinned());
    Tensor q = lz::empty({6}, {.pinned = true});
    q.copy_(p.cuda(1) * 2); // straight from the GPU
    EXPECT_TRUE(q.is_pinned());
    EXPECT_EQ(floats(q), (std::vector<float>{2, 4, 6, 8, 10, 12}));
    EXPECT_TRUE(q.is_pinned());
    EXPECT_EQ(floats(p), counting(6, 1));
    float *const at = p.mutable_data<float>();
    at[0] = 100;
    EXPECT_TRUE(p.is_pinned());
    EXPECT_EQ(floats(p.cuda())[0], 100);
}

TEST(Semantics, S32_non_blocking_copies_are_right_from_pinned_and_from_pageable_memory) {
    LZ_NEEDS_GPUS(2);
    const Tensor pageable = lz::tensor(counting(100000), {100000}), pinned = pageable.pin_memory();
    lz::sync();
    for (const Tensor &source : {pageable, pinned}) {
        const Tensor there = source.to(kGpu1, {.non_blocking = true});
        const Tensor result = there * 2;
        EXPECT_EQ(floats(result - there), counting(100000));
        const Tensor back = result.to("cpu", {.non_blocking = true});
        EXPECT_TRUE(back.is_pinned());
        EXPECT_EQ(floats(back / 2), counting(100000));
    }
}

/// The overlap itself, by the clock of modelled hardware: copies of 4 MB beside kernels as long.
TEST(Child, DISABLED_Overlap) {
    constexpr int64_t kElements = int64_t{1} << 20;
    const auto elapsed = [&](bool overlapped) {
        std::vector<Tensor> batches;
        for (int i = 0; i < 8; ++i)
            batches.push_back(lz::full({kElements}, i, {.dtype = lz::f32, .pinned = true}));
        lz::sync();
        const lz::Stream copies(kGpu0);
        const lz::Event begin({.timing = true}), end({.timing = true});
        begin.record();
        Tensor sum = lz::zeros({1}, {.device = kGpu0});
        for (const Tensor &batch : batches) {
            Tensor x;
            if (overlapped) {
                const lz::StreamGuard guard(copies);
                x = batch.to(kGpu0, {.non_blocking = true});
            } else {
                x = batch.to(kGpu0);
                lz::cuda::synchronize(kGpu0);
            }
            for (int k = 0; k < 12; ++k)
                x = lz::cumsum(x, 0) * 0.5;
            sum = sum + x.mean();
            if (!overlapped)
                lz::cuda::synchronize(kGpu0);
        }
        end.record();
        return begin.elapsed_time(end);
    };
    elapsed(true);
    elapsed(false); // both are compiled now
    const double together = elapsed(true), alone = elapsed(false);
    EXPECT_LT(together, alone) << "milliseconds of the virtual clock";
}
TEST(Semantics, S32_copies_from_pinned_memory_overlap_with_work) {
    run_child("LAZULI_VIRTUAL_MODEL=h200", "Overlap");
}

TEST(Semantics, S33_reading_the_result_of_a_copy_waits_for_it) {
    Tensor x = lz::zeros({1 << 18}, {.device = kGpu0});
    for (int i = 0; i < 10; ++i)
        x = lz::sin(x) + 1;
    const Tensor copy = x.to("cpu", {.non_blocking = true});
    copy.eval(); // launched, not awaited
    const float *const read = copy.data<float>();
    const std::vector<float> expected = floats(x);
    EXPECT_EQ(std::vector<float>(read, read + (1 << 18)), expected);
}

TEST(Semantics, S33_writing_to_the_source_of_a_pending_copy_waits) {
    Tensor source = lz::full({1 << 20}, 1, {.dtype = lz::f32, .pinned = true});
    lz::sync();
    const Tensor there = source.to(kGpu0, {.non_blocking = true});
    there.eval();
    float *const write = source.mutable_data<float>();
    for (int64_t i = 0; i < 1 << 20; ++i)
        write[i] = 2;
    EXPECT_EQ(there.sum().item<double>(), 1 << 20);
    const Tensor again = source.cuda(0);
    EXPECT_EQ(again.sum().item<double>(), 2 << 20);
    source += 1; // an in-place form after data(): new memory, and the pointer is the user's no more
    EXPECT_EQ(source.sum().item<double>(), 3 << 20);
    EXPECT_EQ(again.sum().item<double>(), 2 << 20);
}

TEST(Semantics, S33_adopted_memory_is_never_written_and_is_given_back_after_the_last_copy) {
    LZ_NEEDS_GPUS(2);
    std::vector<float> mine = counting(4096);
    bool given_back = false;
    Tensor there;
    {
        Tensor x = lz::from_blob(mine.data(), {4096}, [&](void *) { given_back = true; });
        there = x.to(kGpu1, {.non_blocking = true});
        there.eval();
        x += 1;
        EXPECT_EQ(floats(x)[0], 1);
    }
    EXPECT_EQ(mine, counting(4096));
    EXPECT_EQ(floats(there), counting(4096));
    EXPECT_TRUE(given_back);
}

TEST(Copies, DtypeAndDeviceCanChangeTogether) {
    LZ_NEEDS_GPUS(2);
    const Tensor x = lz::tensor({1.5, -2.5, 300.0}, {.dtype = lz::f64});
    const Tensor y = x.to(kGpu1, lz::f16), z = y.to("cpu", lz::f64, {.non_blocking = true});
    EXPECT_EQ(y.device(), kGpu1);
    EXPECT_EQ(y.dtype(), lz::f16);
    EXPECT_EQ(z.to_vector<double>(), (std::vector<double>{1.5, -2.5, 300}));
    EXPECT_TRUE(z.is_pinned());
}

} // namespace
