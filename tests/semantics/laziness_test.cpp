// S20 to S28 where they concern GPUs; the rest of these rows is in tests/frontend, which runs on both.
#include "support.h"

#include <atomic>
#include <functional>
#include <thread>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

TEST(Semantics, S20_recording_on_gpus_runs_nothing) {
    LZ_NEEDS_GPUS(3);
    lz::sync();
    const lz::CompileStats before = lz::compile_stats();
    const Tensor x = lz::ones({1000}, {.device = kGpu1}), y = (x.cuda(2) * 2).cpu();
    EXPECT_EQ(lz::memory_allocated(kGpu2), 0);
    EXPECT_EQ(lz::compile_stats().kernel_launches, before.kernel_launches);
    EXPECT_THROW(x + lz::ones({999}, {.device = kGpu1}), lz::ShapeError);
    EXPECT_EQ(y.sum().item<double>(), 2000);
}

TEST(Semantics, S21_one_sync_runs_what_is_pending_on_every_device) {
    LZ_NEEDS_GPUS(4);
    const Tensor a = lz::ones({4}, {.device = kGpu0}) * 2, b = lz::ones({4}, {.device = kGpu3}) * 3,
                 c = lz::ones({4}) * 4;
    const lz::CompileStats before = lz::compile_stats();
    lz::sync();
    const lz::CompileStats after = lz::compile_stats();
    EXPECT_EQ(after.programs_compiled + after.programs_resized + after.programs_reused -
                  before.programs_compiled - before.programs_resized - before.programs_reused,
              1);
    const int64_t launches = after.kernel_launches;
    EXPECT_EQ(floats(a), std::vector<float>(4, 2));
    EXPECT_EQ(floats(b), std::vector<float>(4, 3));
    EXPECT_EQ(floats(c), std::vector<float>(4, 4));
    EXPECT_EQ(lz::compile_stats().kernel_launches, launches) << "everything had run";
}

TEST(Semantics, S21_synchronize_and_query_launch_pending_work_and_memory_queries_do_not) {
    LZ_NEEDS_GPUS(2);
    lz::sync();
    const auto programs = [] {
        const lz::CompileStats s = lz::compile_stats();
        return s.programs_compiled + s.programs_resized + s.programs_reused;
    };
    const std::vector<std::function<void()>> launching = {
        [] { lz::cuda::synchronize(kGpu1); },
        [] { lz::default_stream(kGpu1).query(); },
        [] { lz::default_stream(kGpu1).synchronize(); },
        [] { lz::Event().query(); },
    };
    for (const auto &f : launching) {
        const Tensor x = lz::ones({4}, {.device = kGpu1}) * 2;
        const int64_t before = programs();
        EXPECT_GE(lz::memory_allocated(kGpu1), 0);
        EXPECT_FALSE(lz::memory_stats(kGpu1).empty());
        EXPECT_EQ(programs(), before);
        f();
        EXPECT_EQ(programs(), before + 1);
        EXPECT_EQ(floats(x), std::vector<float>(4, 2));
    }
}

TEST(Semantics, S22_a_loop_without_sync_is_cut_on_a_gpu_too) {
    lz::sync();
    Tensor x = lz::zeros({16}, {.device = kGpu0});
    for (int i = 0; i < 6000; ++i)
        x = x * 0.5 + 1;
    EXPECT_EQ(floats(x), std::vector<float>(16, 2));
}

/// Batches that only pending work keeps alive, on devices of 64 MiB: 1 MiB each, 200 of them, no sync.
TEST(Child, DISABLED_RecordsWithoutSync) {
    const std::vector<float> numbers(1 << 18, 0.5f);
    Tensor total = lz::zeros({});
    lz::sync();
    lz::reset_peak_memory_stats();
    const int64_t before = lz::memory_allocated();
    for (int i = 0; i < 200; ++i)
        total = total + lz::from_blob(numbers.data(), {1 << 18}).sum();
    EXPECT_EQ(total.item<float>(), 200 * (1 << 17));
    EXPECT_LT(lz::max_memory_allocated() - before, 24 << 20);
}
/// Values that an eval stored, of which only pending sums are left.
TEST(Child, DISABLED_KeepsSumsPending) {
    const Tensor host = lz::ones({1 << 20});
    Tensor w = lz::zeros({1 << 10}, {.device = kGpu1});
    lz::sync();
    std::vector<Tensor> sums;
    for (int i = 0; i < 40; ++i) {
        const Tensor x = host.to(kGpu1);
        w.copy_(x.slice(0, 0, 1 << 10));
        sums.push_back(lz::sum(x));
        w.eval();
    }
    for (const Tensor &sum : sums)
        EXPECT_EQ(sum.item<float>(), 1 << 20);
}
TEST(Semantics, S22_pending_work_does_not_keep_much_memory_alive) {
    LZ_NEEDS_GPUS(2);
    run_child("LAZULI_VIRTUAL_MEMORY=64M", "KeepsSumsPending");
    run_child("LAZULI_VIRTUAL_MEMORY=64M", "RecordsWithoutSync");
}

/// Averages of weights and counts of hits, which nobody reads in the loop, keep the weights of every step.
TEST(Semantics, S22_what_evals_leave_pending_again_and_again_is_launched) {
    for (const Device &place : places()) {
        Tensor weight = lz::ones({1 << 16}, {.device = place}), average = weight.clone();
        Tensor hits = lz::zeros({}, {.dtype = lz::i64, .device = place});
        lz::sync();
        const int64_t before = lz::memory_allocated(place);
        int64_t most = 0;
        double expected_weight = 1, expected = 1;
        for (int i = 0; i < 200; ++i) {
            weight = weight * 0.99;
            average.lerp_(weight, 0.1);
            hits += (weight > 0.5).sum();
            weight.eval();
            most = std::max(most, lz::memory_allocated(place) - before);
            expected_weight *= 0.99;
            expected += 0.1 * (expected_weight - expected);
        }
        // What a device that is behind has not freed yet counts as well.
        EXPECT_LT(most, int64_t{100} << 18) << "bytes, of 200 times 256 KiB";
        EXPECT_NEAR(average.mean().item<double>(), expected, 1e-4);
        EXPECT_EQ(hits.item<int64_t>(), 68 * (1 << 16)); // 0.99 to the power of 68 is above a half
    }
}

/// What one eval leaves is not computed for it: it may never be asked for.
TEST(Semantics, S22_what_an_eval_leaves_is_as_pending_as_before) {
    const Tensor x = lz::rand({64});
    lz::sync();
    const Tensor rest = (x + 1).sum();
    for (int i = 0; i < 10; ++i)
        (x * i).eval();
    EXPECT_NE(lz::dump(rest).find("= sum "), std::string::npos) << lz::dump(rest);
    EXPECT_GT(rest.item<float>(), 64);
}

TEST(Semantics, S23_intermediates_are_not_stored_on_a_gpu_either) {
    LZ_NEEDS_GPUS(2);
    const Tensor x = lz::ones({1 << 20}, {.device = kGpu1});
    lz::sync();
    lz::reset_peak_memory_stats(kGpu1);
    const int64_t before = lz::memory_allocated(kGpu1);
    const Tensor y = lz::exp(lz::sin(x) * 2 + lz::cos(x)) - 1;
    lz::sync();
    EXPECT_EQ(lz::max_memory_allocated(kGpu1) - before, 4 << 20);
}

TEST(Semantics, S23_temporaries_are_not_stored_on_a_gpu_either) {
    LZ_NEEDS_GPUS(2);
    const Tensor x = lz::ones({1 << 20}, {.device = kGpu1}), other = lz::ones({1 << 20}, {.device = kGpu1});
    lz::sync();
    lz::reset_peak_memory_stats(kGpu1);
    const int64_t before = lz::memory_allocated(kGpu1);
    EXPECT_EQ((x * 2 - other).exp().log().sum().item<double>(), 1 << 20);
    EXPECT_EQ(lz::mean(lz::square(x + other)).cpu().item<double>(), 4);
    EXPECT_LT(lz::max_memory_allocated(kGpu1) - before, 1 << 20);
}

TEST(Semantics, S23_errors_name_a_temporary_that_has_let_go) {
    LZ_NEEDS_GPUS(2);
    const int line = __LINE__ + 2;
    const auto mixed = [] {
        const Tensor sum = (lz::ones({2}, {.device = kGpu0}) * 2).neg() + lz::ones({2}, {.device = kGpu1});
        lz::sync();
    };
    const Caught error = caught<lz::DeviceError>(mixed);
    const std::string at = "laziness_test.cpp:" + std::to_string(line);
    EXPECT_TRUE(error.has("made by neg at ") && error.has(at + ")")) << error.what;
    EXPECT_TRUE(error.has("made by ones at ")) << error.what;
}

TEST(Semantics, S26_a_handle_goes_back_to_a_version_that_was_pending_too) {
    LZ_NEEDS_GPUS(2);
    for (const lz::Device &device : {lz::Device::cpu(), lz::Device(kGpu1)}) {
        lz::sync();
        const Tensor table = lz::arange(4).to(lz::f32).to(device);
        const Tensor bad = lz::tensor({0, 9, 1}).to(device);
        Tensor w = lz::zeros({3}, {.device = device});
        w += lz::index_select(table, 0, bad);
        EXPECT_THROW(lz::sync(), lz::IndexError);
        EXPECT_EQ(floats(w), std::vector<float>(3, 0));
        w += 1;
        EXPECT_EQ(floats(w), std::vector<float>(3, 1));
    }
}

TEST(Semantics, S24_handles_are_references_on_a_gpu_too) {
    LZ_NEEDS_GPUS(3);
    Tensor a = lz::zeros({2, 3}, {.device = kGpu2});
    Tensor b = a;
    b.add_(1);
    a.at({0}) = 7;
    EXPECT_EQ(floats(b), (std::vector<float>{7, 7, 7, 1, 1, 1}));
    const Tensor row = a.select(0, 1);
    a.at({1}) += 1;
    EXPECT_EQ(floats(row), (std::vector<float>{1, 1, 1}));
    EXPECT_EQ(b.device(), kGpu2);
}

TEST(Child, DISABLED_BlockingOnGpu) {
    const Tensor table = lz::arange(5, {.device = kGpu1});
    uint32_t line = 0;
    const Caught error = caught<lz::IndexError>([&] {
        line = __LINE__ + 1;
        const Tensor picked = lz::index_select(table, 0, lz::tensor({1, 9}, {.device = kGpu1}));
    });
    EXPECT_EQ(error.line, line) << error.what;
    Tensor x = lz::ones({4}, {.device = kGpu0});
    x += x.cuda(1).cuda(0) * 2;
    EXPECT_EQ(floats(x), std::vector<float>(4, 3));
}

TEST(Semantics, S25_launch_blocking_throws_at_the_failing_line_on_a_gpu_too) {
    LZ_NEEDS_GPUS(2);
    run_child("LAZULI_LAUNCH_BLOCKING=1", "BlockingOnGpu");
    run_child("CUDA_LAUNCH_BLOCKING=1", "BlockingOnGpu");
}

TEST(Semantics, S26_a_bad_index_on_a_gpu_is_thrown_at_the_next_sync_and_spares_the_rest) {
    LZ_NEEDS_GPUS(3);
    const Tensor table = lz::arange(5, {.device = kGpu1});
    const Tensor index = lz::tensor({0, 7}, {.device = kGpu1});
    const Tensor fine = table * 2;
    const uint32_t line = __LINE__ + 1;
    const Tensor picked = lz::index_select(table, 0, index);
    const Tensor moved = (picked + 1).cuda(2), other = lz::ones({2}, {.device = kGpu2}) * 3;
    const Caught error = caught<lz::IndexError>([] { lz::sync(); });
    EXPECT_EQ(error.line, line) << error.what;
    EXPECT_TRUE(error.has("7")) << error.what;
    EXPECT_NO_THROW(lz::sync()) << "it throws once";
    EXPECT_EQ(fine.to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 4, 6, 8}));
    EXPECT_EQ(floats(other), (std::vector<float>{3, 3}));
    EXPECT_EQ(caught<lz::IndexError>([&] { picked.to_vector<int64_t>(); }).line, line);
    EXPECT_EQ(caught<lz::IndexError>([&] { moved.to_vector<int64_t>(); }).line, line)
        << "also on the other device";
    EXPECT_EQ(caught<lz::IndexError>([&] { (moved * 2).to_vector<int64_t>(); }).line, line);
}

TEST(Semantics, S26_what_is_launched_before_the_error_shows_fails_too) {
    LZ_NEEDS_GPUS(2);
    const Tensor table = lz::arange(5, {.device = kGpu1});
    const Tensor picked = lz::index_select(table, 0, lz::tensor({9}, {.device = kGpu1}));
    const Tensor after = picked + 1;
    const Caught error = caught<lz::IndexError>([&] {
        lz::eval({picked}); // does not wait, and throws only what it sees already
        lz::sync();
    });
    EXPECT_TRUE(error.has("9")) << error.what;
    EXPECT_THROW(after.to_vector<int64_t>(), lz::IndexError);
}

TEST(Semantics, S26_a_gpu_tensor_changed_in_place_goes_back_to_its_newest_good_version) {
    LZ_NEEDS_GPUS(2);
    Tensor x = lz::arange(4, {.device = kGpu1});
    x += 1;
    lz::sync();
    x.copy_(lz::index_select(x, 0, lz::tensor({0, 1, 2, 11}, {.device = kGpu1})));
    x += 1;
    EXPECT_THROW(lz::cuda::synchronize(kGpu1), lz::IndexError);
    EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST(Semantics, S26_synchronize_and_query_of_streams_show_errors) {
    const lz::Stream stream(kGpu0);
    {
        const lz::StreamGuard guard(stream);
        const Tensor picked =
            lz::index_select(lz::arange(3, {.device = "cuda"}), 0, lz::tensor({5}, {.device = "cuda"}));
        EXPECT_THROW(stream.synchronize(), lz::IndexError);
        EXPECT_NO_THROW(stream.synchronize());
        EXPECT_THROW(picked.to_vector<int64_t>(), lz::IndexError);
    }
}

TEST(Semantics, S27_other_numbers_and_events_never_compile_again) {
    LZ_NEEDS_GPUS(2);
    const auto step = [](double rate) {
        const Tensor x = lz::full({32}, rate, {.device = kGpu0});
        const lz::Event event;
        event.record();
        const Tensor y = x.cuda(1) * rate + 1;
        event.wait(lz::default_stream(kGpu1));
        return floats(y)[0];
    };
    EXPECT_EQ(step(2), 5);
    const lz::CompileStats before = lz::compile_stats();
    EXPECT_EQ(step(3), 10);
    EXPECT_EQ(step(4), 17);
    EXPECT_EQ(lz::compile_stats().programs_compiled, before.programs_compiled);
}

TEST(Semantics, S28_threads_record_and_sync_on_devices_of_their_own) {
    const Tensor shared = lz::arange(64, {.dtype = lz::f32, .device = kGpu0}) * 2; // pending
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            lz::cuda::set_device(t);
            Tensor mine = shared.cuda() + 0; // a tensor of its own, on GPU 0 too
            for (int i = 0; i < 5; ++i)
                mine += t;
            const std::vector<float> v = floats(mine);
            bool ok = mine.device() == Device::cuda(t);
            for (size_t i = 0; i < v.size(); ++i)
                ok = ok && v[i] == 2.0f * static_cast<float>(i) + 5.0f * static_cast<float>(t);
            right += ok;
        });
    for (std::thread &t : threads)
        t.join();
    EXPECT_EQ(right, 4);
}

TEST(Semantics, S29_gpus_and_the_cpu_agree_to_the_bit_elementwise_and_closely_in_sums) {
    LZ_NEEDS_GPUS(2);
    lz::manual_seed(5);
    const Tensor x = lz::randn({37, 301}), w = lz::randn({301, 19});
    const auto program = [&](const Device &place) {
        const Tensor here = x.to(place), there = w.to(place);
        return std::vector<Tensor>{lz::tanh(here * 2 + 1), lz::exp(here), lz::softmax(here, -1),
                                   lz::matmul(here, there)};
    };
    const auto cpu = program(Device::cpu()), gpu = program(kGpu1);
    for (size_t i = 0; i < 2; ++i)
        EXPECT_EQ(floats(cpu[i]), floats(gpu[i]));
    for (size_t i = 2; i < 4; ++i) {
        const Tensor difference = lz::abs(cpu[i] - gpu[i].cpu()).amax();
        EXPECT_LE(difference.item<float>(), 1e-4f); // sums of 301 terms of size 1
    }
}

/// An exponent that the compiler knows to be 2 makes a product; one that it does not know gives its bits.
TEST(Semantics, S29_squares_have_the_same_bits_whatever_is_known_of_the_exponent) {
    for (const lz::DType dtype : {lz::f32, lz::f64, lz::f16, lz::bf16}) {
        const Tensor x = (lz::randn({2000}) * 100).to(dtype).eval();
        const Tensor two = lz::full({}, 2, {.dtype = dtype}).eval();
        const std::vector<double> known = lz::pow(x, 2).to(lz::f64).to_vector<double>();
        EXPECT_EQ(lz::pow(x, two).to(lz::f64).to_vector<double>(), known) << dtype;
        EXPECT_EQ((x * x).to(lz::f64).to_vector<double>(), known) << dtype;
    }
}

TEST(Semantics, S29_the_same_bits_on_gpus_however_it_is_streamed_and_cut) {
    lz::manual_seed(6);
    const Tensor x = lz::randn({64, 200}, {.device = kGpu0});
    lz::sync();
    const auto plain = floats(lz::softmax(x * 3, -1) + x.sum(1, true));
    const Tensor y = x * 3;
    lz::sync();
    EXPECT_EQ(floats(lz::softmax(y, -1) + x.sum(1, true)), plain);
    const lz::Stream s(kGpu0), t(kGpu0);
    Tensor p, q;
    {
        const lz::StreamGuard guard(s);
        p = lz::softmax(x * 3, -1);
    }
    {
        const lz::StreamGuard guard(t);
        q = x.sum(1, true);
    }
    EXPECT_EQ(floats(p + q), plain);
}

} // namespace
