// Every call of every GPU's backend fails in turn, over a set of programs: the user sees a typed error with a
// line of the program, or the right answer; nothing hangs, nothing leaks, and the engine goes on.
#include "frontend/engine/devices.h"
#include "frontend/engine/engine.h"
#include "runtime/fault_injection.h"
#include "virtual_gpus.h"

#include <lazuli/lazuli.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace lz;

/// A backend that fails on demand and keeps the one behind it; on demand its kernels want more scratch than
/// there is.
struct Behind {
    std::unique_ptr<runtime::Backend> backend;
};
class Faulty final : private Behind, public runtime::FaultInjectingBackend {
public:
    explicit Faulty(std::unique_ptr<runtime::Backend> backend)
        : Behind{std::move(backend)}, FaultInjectingBackend(*Behind::backend) {}

    void launch(const Launch &launch, runtime::StreamId stream, runtime::OnDone done = {}) override {
        Launch wanted = launch;
        if (starve && launch.worker_bytes > 0) {
            wanted.worker_bytes = size_t{1} << 60;
            ++starved;
        }
        FaultInjectingBackend::launch(wanted, stream, std::move(done));
    }
    std::atomic<bool> starve = false;
    std::atomic<int> starved = 0;
};

std::vector<Faulty *> &faulty_gpus() {
    static std::vector<Faulty *> gpus;
    return gpus;
}
const bool wrapped = [] {
    engine::Devices::wrap() = [](std::unique_ptr<runtime::Backend> backend) {
        auto faulty = std::make_unique<Faulty>(std::move(backend));
        faulty_gpus().push_back(faulty.get());
        return faulty;
    };
    return true;
}();

using Numbers = std::vector<float>;
struct Program {
    const char *name;
    Numbers (*run)();
};

Tensor numbers(int64_t n) {
    return arange(n).to(f32) * 0.25;
}

const Program kPrograms[] = {
    {"there and back", [] { return (numbers(64).to("cuda:0") * 2 + 1).to_vector<float>(); }},
    {"two devices",
     [] {
         const Tensor x = numbers(4096);
         const Tensor a = exp(x.to("cuda:0") * 1e-3), b = x.to("cuda:1") + 2;
         return (a.to("cuda:1") + b).sum().cpu().to_vector<float>();
     }},
    {"a product and a sort",
     [] {
         const Tensor x = numbers(256).reshape({16, 16}).to("cuda:0");
         return sort(matmul(x, x).flatten(), 0).values.to_vector<float>();
     }},
    {"values that stay on the device between programs",
     [] {
         Tensor x = numbers(1000).to("cuda:1");
         for (int i = 0; i < 3; ++i) {
             x = x * 0.5 + 1;
             x.eval();
         }
         return x.to_vector<float>();
     }},
    {"streams, events and updates in place",
     [] {
         const lz::Stream stream(Device::cuda(0));
         const lz::Event event;
         Tensor x = numbers(300).to("cuda:0"), y;
         {
             const lz::StreamGuard guard(stream);
             y = x * 3;
             event.record(stream);
         }
         event.wait(lz::default_stream(Device::cuda(0)));
         x += y;
         x.at({0}) = 7;
         stream.wait_stream(lz::default_stream(Device::cuda(1)));
         return (x + y).to_vector<float>();
     }},
    {"pinned memory and a staged copy",
     [] {
         const Tensor host = numbers(5000).pin_memory();
         const Tensor x = host.to("cuda:0", {.non_blocking = true}) + 1;
         return x.to("cuda:1").to(Device::cpu(), {.non_blocking = true}).to_vector<float>();
     }},
    {"a gather whose indices are checked",
     [] {
         const Tensor x = numbers(100).to("cuda:0"), index = tensor({3, 1, 4, 1, 5}).to("cuda:0");
         return (x.index_select(0, index) + 1).to_vector<float>();
     }},
    {"peers that mix",
     [] {
         struct Peers {
             Peers() { cuda::enable_peer_access("cuda:0", "cuda:1"); }
             ~Peers() { // a call that fails leaves them as they were
                 for (int tries = 0; tries < 2; ++tries)
                     try {
                         cuda::disable_peer_access("cuda:0", "cuda:1");
                         return;
                     } catch (const Error &) { // a device that is lost: the next run does it
                     }
             }
         } peers;
         const Tensor x = numbers(200).to("cuda:0"), y = numbers(200).to("cuda:1");
         return (x + y).to_vector<float>();
     }},
    {"timed events and a callback",
     [] {
         const lz::Stream stream(Device::cuda(1), -1);
         const lz::Event begin({.timing = true}), end({.timing = true});
         const auto called = std::make_shared<std::atomic<float>>(0.0f);
         const lz::StreamGuard guard(stream);
         begin.record();
         const Tensor x = numbers(40).to("cuda:1") * 2;
         stream.add_callback([called] { *called += 1; });
         end.record();
         const bool in_order = begin.elapsed_time(end) >= 0;
         Numbers out = x.to_vector<float>();
         stream.synchronize();
         out.push_back(*called);
         out.push_back(in_order ? 1 : 0);
         return out;
     }},
};

int64_t allocated() {
    engine::Engine &engine = engine::Engine::get();
    int64_t bytes = 0;
    for (const runtime::DeviceSlot &slot : engine.devices().slots())
        bytes += slot.allocator->stats().allocated_bytes[runtime::StatPool::All].current;
    return bytes + engine.pinned_allocator()->stats().allocated_bytes[runtime::StatPool::All].current;
}

/// Runs the program; an error must be typed, of a kind that a device gives, and name a line of this file.
void run_with_fault(const Program &program, const Numbers &right, const std::string &what) {
    try {
        EXPECT_EQ(program.run(), right) << what;
    } catch (const Error &error) {
        EXPECT_TRUE(dynamic_cast<const DeviceError *>(&error) || dynamic_cast<const CudaError *>(&error) ||
                    dynamic_cast<const OutOfMemoryError *>(&error) ||
                    dynamic_cast<const CompileError *>(&error))
            << what << ": " << error.what();
        EXPECT_TRUE(error.file() && std::strstr(error.file(), "faults_test.cpp"))
            << what << ": " << error.what();
    }
    for (int again = 0; again < 2; ++again)
        try { // what a fault left for the next sync
            lz::sync();
        } catch (const Error &) {
        }
}

/// Each program once for each call that it makes to one of two GPUs. `disturb` runs it with something wrong
/// at call `n`; afterwards nothing is lost, and the engine goes on.
void at_every_call(
    const char *wrong,
    const std::function<void(Faulty &faulty, int64_t n, const std::function<void()> &run)> &disturb) {
    ASSERT_TRUE(cuda::is_available());
    ASSERT_EQ(faulty_gpus().size(), 4u);
    for (const Program &program : kPrograms) {
        const Numbers right = program.run();
        EXPECT_EQ(program.run(), right);
        for (size_t gpu = 0; gpu < 2; ++gpu) {
            Faulty &faulty = *faulty_gpus()[gpu];
            faulty.fail_at(0);
            program.run();
            const int64_t calls = faulty.calls();
            const int64_t before = allocated();
            for (int64_t n = 1; n <= calls + 2; ++n) {
                const std::string what =
                    fmt::format("{}, cuda:{} {} at call {}", program.name, gpu, wrong, n);
                // With a cold cache too, so that memory is asked for.
                if (n % 2 == 0)
                    cuda::is_available(), empty_cache(Device::cuda(static_cast<int>(gpu)));
                disturb(faulty, n, [&] { run_with_fault(program, right, what); });
                EXPECT_EQ(allocated(), before) << what << ": memory was lost";
                EXPECT_EQ(program.run(), right) << what << ": the engine does not go on";
            }
        }
    }
}

TEST(Faults, EveryCallOfABackendFailsInTurnAndNothingIsLost) {
    LZ_NEEDS_GPUS();
    at_every_call("failing", [](Faulty &faulty, int64_t n, const std::function<void()> &run) {
        faulty.fail_at(n, n % 3 == 0 ? 1 : 2); // a call that is refused is made once more
        run();
        faulty.fail_at(0);
    });
}

TEST(Faults, ADeviceIsLostAtEveryCallInTurnAndNothingElseIs) {
    LZ_NEEDS_GPUS();
    at_every_call("lost", [](Faulty &faulty, int64_t n, const std::function<void()> &run) {
        faulty.lose_at(n);
        run();
        faulty.lose_at(0);
        run(); // tells what was left
    });
}

TEST(Faults, AKernelWithoutChecksWhoseScratchCannotBeHadFailsAtTheNextSyncWithItsLine) {
    LZ_NEEDS_GPUS();
    ASSERT_TRUE(cuda::is_available());
    Faulty &faulty = *faulty_gpus()[0];
    const Tensor x = numbers(256).reshape({16, 16}).to("cuda:0");
    const Numbers right = matmul(x, x).to_vector<float>();
    const int64_t before = allocated();
    for (const bool on_user_stream : {false, true}) {
        Tensor product, dependent, independent;
        uint32_t line = 0;
        const auto fails = [&](auto &&f) {
            try {
                f();
                ADD_FAILURE() << "a value that could not be computed was read";
            } catch (const OutOfMemoryError &error) {
                EXPECT_EQ(error.line(), line) << error.what();
                EXPECT_NE(std::string(error.what()).find("scratch"), std::string::npos) << error.what();
            }
        };
        {
            const lz::Stream stream(Device::cuda(0));
            const lz::StreamGuard guard(on_user_stream ? stream : lz::default_stream(Device::cuda(0)));
            faulty.starve = true;
            faulty.starved = 0;
            product = matmul(x, x), line = __LINE__;
            dependent = product.cuda(1) + 1;
            independent = x + 3;
            fails([&] {
                lz::eval({product, dependent, independent}); // runs later, or is over and told at once
                lz::sync();
            });
        }
        faulty.starve = false;
        EXPECT_EQ(faulty.starved, 1) << "the product has no scratch, and this test shows nothing";
        fails([&] { product.to_vector<float>(); });
        fails([&] { (dependent * 2).to_vector<float>(); });
        EXPECT_EQ(independent.to_vector<float>(), (x + 3).to_vector<float>());
        EXPECT_NO_THROW(lz::sync());
        EXPECT_EQ(matmul(x, x).to_vector<float>(), right) << "the engine does not go on";
    }
    EXPECT_EQ(allocated(), before);
}

TEST(Faults, ALostDeviceSaysSoAndTheOthersGoOn) {
    LZ_NEEDS_GPUS();
    ASSERT_TRUE(cuda::is_available());
    ASSERT_EQ(faulty_gpus().size(), 4u);
    const auto on = [](int gpu) { return (numbers(512).to(Device::cuda(gpu)) * 3).to_vector<float>(); };
    const Numbers right = on(2);
    const Tensor kept = numbers(16).to("cuda:3");
    kept.eval();
    lz::sync();
    faulty_gpus()[3]->lose_at(1);
    for (int again = 0; again < 3; ++again) {
        try {
            on(3);
            ADD_FAILURE() << "a lost device computed something";
        } catch (const CudaError &error) {
            EXPECT_NE(std::string(error.what()).find("lost"), std::string::npos) << error.what();
        }
        EXPECT_EQ(on(2), right);
        EXPECT_EQ(numbers(512).to_vector<float>().size(), 512u);
    }
    EXPECT_THROW((kept + 1).to_vector<float>(), CudaError);
    EXPECT_THROW(kept.to_vector<float>(), CudaError);
    faulty_gpus()[3]->lose_at(0);
    try { // what was left for the next sync
        lz::sync();
    } catch (const Error &) {
    }
    EXPECT_EQ(on(3), right);
}

} // namespace
