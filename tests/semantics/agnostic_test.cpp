// S60 to S68 on every kind of device.
#include "support.h"
#include "tests/support/forked.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>
#include <thread>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

TEST(Semantics, S60_one_source_runs_on_both) {
    for (const bool disable_cuda : {false, true}) {
        const Device device = lz::cuda::is_available() && !disable_cuda ? Device("cuda") : Device("cpu");
        const lz::cuda::DeviceGuard guard(device);
        Tensor x = lz::empty({8, 42}, {.device = device});
        x.fill_(2);
        const Tensor y = lz::relu(lz::matmul(x, lz::ones({42, 3}, {.device = device}))).to(device);
        lz::cuda::synchronize(device);
        EXPECT_EQ(y.is_cuda(), !disable_cuda);
        EXPECT_EQ(floats(y), std::vector<float>(24, 84));
    }
}

TEST(Semantics, S61_new_and_like_keep_the_device_and_take_overrides) {
    LZ_NEEDS_GPUS(3);
    const Tensor x = lz::ones({2, 3}, {.dtype = lz::f64, .device = kGpu1});
    for (const Tensor &t : {x.new_tensor({1, 2}), x.new_full({2}, 3), x.new_zeros({2}), x.new_ones({2}),
                            x.new_empty({2}), lz::ones_like(x), lz::zeros_like(x), lz::full_like(x, 4),
                            lz::empty_like(x), lz::rand_like(x), lz::randn_like(x)}) {
        EXPECT_EQ(t.device(), kGpu1);
        EXPECT_EQ(t.dtype(), lz::f64);
    }
    EXPECT_EQ(x.new_zeros({2}, {.device = kGpu2}).device(), kGpu2);
    EXPECT_EQ(lz::rand_like(x, {.dtype = lz::f32, .device = "cpu"}).device(), Device::cpu());
    EXPECT_EQ(floats(x.new_full({2}, 3) + x.new_ones({2})), (std::vector<float>{4, 4}));
}

TEST(Semantics, S62_promotion_and_half_types_are_the_same_on_every_device) {
    for (const Device &place : places()) {
        const Tensor i = lz::ones({2}, {.dtype = lz::i32, .device = place}),
                     h = lz::ones({2}, {.dtype = lz::f16, .device = place});
        EXPECT_EQ((i + h).dtype(), lz::f16);
        EXPECT_EQ((i + 0.5).dtype(), lz::f32);
        EXPECT_EQ((h + lz::tensor(1.0, {.dtype = lz::f64})).dtype(), lz::f16) << "0-dim counts by category";
        EXPECT_TRUE(std::isinf(floats(h * 60000 * 2)[0])) << place;
        const Tensor many = lz::full({4096}, 1, {.dtype = lz::f16, .device = place});
        EXPECT_EQ(floats(many.sum().reshape({1}))[0], 4096) << "sums in f32";
        lz::sync();
        const int64_t before = lz::memory_allocated(place);
        const Tensor half = lz::full({1 << 18}, 1, {.dtype = lz::bf16, .device = place});
        half.eval();
        EXPECT_EQ(lz::memory_allocated(place) - before, 2 << 18);
    }
}

TEST(Semantics, S63_one_seed_gives_the_same_numbers_everywhere) {
    LZ_NEEDS_GPUS(3);
    std::vector<std::vector<float>> seen;
    for (const Device &place : places()) {
        lz::manual_seed(1234);
        const Tensor a = lz::rand({1000}, {.device = place}), b = lz::randn({1000}, {.device = place});
        const Tensor c = lz::randint(0, 1000000, {1000}, {.device = place});
        const Tensor d = lz::randperm(1000, {.device = place});
        seen.push_back(floats(lz::cat({a, b, c.to(lz::f32), d.to(lz::f32)})));
    }
    EXPECT_EQ(seen[1], seen[0]);
    EXPECT_EQ(seen[2], seen[0]);
    lz::Generator generator(7);
    const lz::Generator::State state = generator.get_state();
    const Tensor first = lz::rand({10}, generator, {.device = kGpu1});
    generator.set_state(state);
    EXPECT_EQ(floats(lz::rand({10}, generator, {.device = kGpu2})), floats(first));
}

TEST(Semantics, S64_printing_names_the_device_and_copies_once) {
    LZ_NEEDS_GPUS(4);
    const Tensor x = lz::tensor({{1.0, 2.0}, {3.0, 4.5}}, {.device = kGpu0});
    EXPECT_EQ(x.str(), "tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]], device='cuda:0')");
    EXPECT_EQ(lz::tensor({1, 2}, {.dtype = lz::i8, .device = kGpu3}).str(),
              "tensor([1, 2], device='cuda:3', dtype=i8)");
    {
        const lz::DefaultDeviceGuard guard(kGpu0);
        EXPECT_EQ(lz::tensor({1, 2}).str(), "tensor([1, 2])") << "the default is not named";
        EXPECT_EQ(lz::tensor({1, 2}, {.device = "cpu"}).str(), "tensor([1, 2], device='cpu')");
    }
    const Tensor large = lz::ones({1 << 20}, {.device = kGpu1}).eval();
    lz::sync();
    lz::Profiler profiler;
    EXPECT_NE(large.str().find("..."), std::string::npos);
    const std::string trace = profiler.json();
    size_t copies = 0;
    for (size_t at = trace.find("\"copy\""); at != std::string::npos; at = trace.find("\"copy\"", at + 1))
        ++copies;
    EXPECT_EQ(copies, 1u) << trace;
}

TEST(Child, DISABLED_Forks) {
    const Tensor x = lz::ones({100}, {.device = kGpu0}) * 2;
    EXPECT_EQ(x.sum().item<double>(), 200);
    EXPECT_EQ(in_child([] { (lz::ones({5}, {.device = kGpu0}) + 1).to_vector<float>(); }), 42);
    EXPECT_EQ(in_child([&] { (void)x.sum().item<double>(); }), 42);
    EXPECT_EQ(in_child([] { (lz::ones({100}) + 1).to_vector<float>(); }), 42);
    EXPECT_EQ(in_child([] { lz::cuda::synchronize(kGpu0); }), 42);
    EXPECT_EQ((x + 1).sum().item<double>(), 300) << "the parent goes on";
}
TEST(Semantics, S65_a_gpu_in_a_forked_child_is_a_clear_error) {
    run_child("LAZULI_THREADS=2", "Forks");
}

/// Printing has no line of its own, so that the message names the one where the tensor was made.
void print_expecting(const Tensor &x, const std::string &made_by, uint32_t line) {
    try {
        std::ostringstream out;
        out << x;
    } catch (const lz::StateError &error) {
        if (std::string(error.what())
                .ends_with("start the child with exec, while printing the tensor that was "
                           "made by " +
                           made_by + ", at agnostic_test.cpp:" + std::to_string(line)) &&
            error.line() == line)
            throw;
    }
}
TEST(Child, DISABLED_ForksAndPrints) {
    const uint32_t line = __LINE__;
    const Tensor ready = lz::softmax(lz::ones({100}, {.device = kGpu0}), 0).eval();
    const Tensor pending = lz::ones({100}) + 1;
    const Tensor brought = lz::tensor({1.5, 2.5}, {.device = kGpu1});
    lz::eval({brought});
    EXPECT_EQ(in_child([&] { print_expecting(ready, "softmax", line + 1); }), 42);
    EXPECT_EQ(in_child([&] { print_expecting(pending, "add", line + 2); }), 42);
    EXPECT_EQ(in_child([&] { print_expecting(brought, "tensor", line + 3); }), 42);
}
TEST(Semantics, S65_printing_in_a_forked_child_names_where_the_tensor_was_made) {
    LZ_NEEDS_GPUS(2);
    run_child("LAZULI_THREADS=2", "ForksAndPrints");
}

TEST(Semantics, S66_corners_are_the_same_on_every_device) {
    const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
    for (const Device &place : places()) {
        const Tensor wild = lz::tensor({nan, inf, -inf, 1e20, -3.7}, {.device = place});
        EXPECT_EQ(wild.to(lz::i32).to_vector<int32_t>(),
                  (std::vector<int32_t>{0, INT32_MAX, INT32_MIN, INT32_MAX, -3}))
            << place;
        EXPECT_EQ(wild.to(lz::u8).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 255, 0, 255, 0})) << place;
        const Tensor top = lz::tensor({INT32_MAX}, {.dtype = lz::i32, .device = place});
        EXPECT_EQ((top + 1).to_vector<int32_t>()[0], INT32_MIN) << place;
        const Tensor one = lz::tensor({1.0, nan}, {.device = place}),
                     two = lz::tensor({nan, 2.0}, {.device = place});
        for (const float v : floats(lz::minimum(one, two) + lz::maximum(one, two)))
            EXPECT_TRUE(std::isnan(v)) << place;
        const Tensor zeros = lz::tensor({0.0, -0.0, 0.0, -0.0}, {.device = place}), turned = -zeros;
        for (const Tensor &least : {zeros.amin(), lz::minimum(zeros, turned), lz::minimum(zeros, -0.0)})
            for (const float v : floats(least))
                EXPECT_TRUE(std::signbit(v)) << place;
        for (const Tensor &most : {zeros.amax(), lz::maximum(zeros, turned), lz::relu(zeros)})
            for (const float v : floats(most))
                EXPECT_FALSE(std::signbit(v)) << place;
        const Tensor bits = lz::tensor({-8, 8}, {.dtype = lz::i32, .device = place});
        EXPECT_EQ((bits >> 40).to_vector<int32_t>(), (std::vector<int32_t>{-1, 0})) << place;
        EXPECT_EQ((bits << 40).to_vector<int32_t>(), (std::vector<int32_t>{0, 0})) << place;
        const Tensor zero = lz::zeros({2}, {.dtype = lz::i32, .device = place});
        const uint32_t line = __LINE__ + 1;
        const Tensor divided = lz::floor_divide(bits, zero);
        EXPECT_EQ(caught<lz::Error>([&] { divided.to_vector<int32_t>(); }).line, line) << place;
    }
}

TEST(Semantics, S67_gpu_results_do_not_depend_on_the_number_of_threads) {
    LZ_NEEDS_GPUS(2);
    const int before = lz::num_threads();
    lz::manual_seed(2);
    const Tensor x = lz::randn({300, 300}, {.device = kGpu1});
    lz::sync();
    lz::set_num_threads(1);
    const auto alone = floats(lz::matmul(x, x).sum(0));
    lz::set_num_threads(2);
    EXPECT_EQ(floats(lz::matmul(x, x).sum(0)), alone);
    lz::set_num_threads(before);
}

/// As a global of the user's: made before main, or never; gone after it.
Tensor &global_tensor() {
    static Tensor tensor;
    return tensor;
}
TEST(Child, DISABLED_LeavesMainWithWorkPending) {
    static const lz::Stream stream(kGpu1);
    static const lz::Event event({.timing = true});
    global_tensor() = lz::randn({500, 500}, {.device = kGpu0});
    Tensor x = global_tensor();
    for (int i = 0; i < 10; ++i)
        x = lz::matmul(x, x) * 0.01;
    lz::eval({x}); // in flight
    static const Tensor pending = x.cuda(1) + 1;
    event.record(stream);
    std::thread([] { static const Tensor other = lz::ones({10}, {.device = kGpu2}) * 2; }).join();
}
/// What main has computed is computed again when main has been left, and what it has not is compiled.
float compute_on(const Device &device) {
    return (lz::ones({123}, {.device = device}) * 2 + 1).sum().item<float>();
}
/// Several kernels, one of them a product with scratch for each thread.
float compute_anew_on(const Device &device) {
    const Tensor x = lz::full({300, 200}, 0.5, {.device = device});
    const Tensor product = lz::matmul(x, lz::exp(x.t() * 0)) / 50;
    return product.sum(0).select(0, 7).item<float>();
}
/// A kernel that is new when main has been left: NVRTC's statics are gone then, which is told.
bool computes_anew_on(const Device &device) {
    try {
        return compute_anew_on(device) == 2 * 300;
    } catch (const lz::CompileError &error) {
        return device.is_cuda() && ::getenv("LAZULI_TEST_CUDA") &&
               std::string(error.what()).find("main has been left") != std::string::npos;
    }
}
struct ComputesAtTheEnd {
    ~ComputesAtTheEnd() {
        for (const Device &device : {Device::cpu(), Device(kGpu1)})
            if (compute_on(device) != 369 || !computes_anew_on(device))
                std::_Exit(7);
    }
};
TEST(Child, DISABLED_ComputesInDestructorsOfStatics) {
    static const ComputesAtTheEnd late;
    for (const Device &device : {Device::cpu(), Device(kGpu1)})
        EXPECT_EQ(compute_on(device), 369);
}
/// Nothing has been computed before: the first of these compiles with LLVM, which is gone for the second.
struct StartsAtTheEnd {
    explicit StartsAtTheEnd(Device device) : device(device) {}
    ~StartsAtTheEnd() {
        if (compute_anew_on(device) != 2 * 300 || compute_on(device) != 369)
            std::_Exit(7);
        try { // its line is told all the same
            (void)lz::embedding(lz::ones({3, 2}), lz::tensor({5})).to_vector<float>();
            std::_Exit(8);
        } catch (const lz::IndexError &error) {
            if (std::string(error.what()).find("embedding: index 5") != 0)
                std::_Exit(9);
        }
    }
    const Device device;
};
TEST(Child, DISABLED_StartsInDestructorsOfStatics) {
    static const StartsAtTheEnd second(Device::cpu()), first(kGpu1);
}
/// Threads that nobody joins compile, launch and wait when main is left, at some moment of it.
TEST(Child, DISABLED_LeavesMainWhileThreadsCompute) {
    for (int t = 0; t < 2; ++t)
        std::thread([t] {
            const Device device = t == 0 ? Device::cpu() : Device(kGpu0);
            try {
                for (int64_t i = 0;; ++i) {
                    const Tensor x = lz::rand({64 + i % 7, 64}, {.device = device});
                    const Tensor y = lz::matmul(x, lz::rand({64, 64}, {.device = device})).softmax(1) + i;
                    const auto [values, places] = lz::sort(y, 1);
                    (void)(values.sum() + places.sum()).item<float>();
                }
            } catch (const lz::CompileError &error) { // NVRTC is gone, and nobody had compiled this kernel
                if (std::string(error.what()).find("main has been left") == std::string::npos)
                    throw;
            }
        }).detach();
    std::this_thread::sleep_for(std::chrono::microseconds(std::atoi(std::getenv("LAZULI_TEST_MOMENT"))));
}
#if LAZULI_SANITIZE_ADDRESS
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif
TEST(Semantics, S68_leaving_main_while_threads_compute_is_safe) {
    const int step = ::getenv("LAZULI_TEST_CUDA") ? 25 : kSlow ? 4 : 1; // each compiles, by NVRTC or LLVM
    for (int i = 0; i < 60; i += step)
        run_child("LAZULI_VERIFY=0 LAZULI_TEST_MOMENT=" + std::to_string(i * i * 100),
                  "LeavesMainWhileThreadsCompute");
}
TEST(Semantics, S68_leaving_main_with_work_pending_and_statics_on_gpus_is_safe) {
    LZ_NEEDS_GPUS(3);
    for (int i = 0; i < (kSlow ? 1 : 3); ++i)
        run_child("LAZULI_VERIFY=0", "LeavesMainWithWorkPending");
    run_child("LAZULI_VERIFY=0", "ComputesInDestructorsOfStatics");
    run_child("LAZULI_VERIFY=0", "StartsInDestructorsOfStatics");
}

} // namespace
