// Every allocation of the host that a program makes fails in turn: the program throws a typed error or
// succeeds, nothing hangs, and the next sync gives right numbers (S26).
#include "fail_allocations.h"

#include <lazuli/lazuli.h>

#include "frontend/engine/devices.h"
#include "frontend/engine/engine.h"
#include "runtime/fault_injection.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace lz::test {
namespace {

/// Before the engine starts. What hangs is killed.
const bool prepared = [] {
    ::setenv("LAZULI_VIRTUAL_GPUS", "2", 0);
    ::setenv("LAZULI_CACHE_DIR", "off", 0);
    ::setenv("LAZULI_QUICK", "0", 0); // what fails is counted, so it has to be on this thread
    ::alarm(560);
    return true;
}();

using Numbers = std::vector<float>;

/// What has been computed before the program starts.
struct Inputs {
    Tensor x, y, index;
};

Inputs inputs(const Device &device, int64_t n) {
    Inputs in{arange(n, {.dtype = f32}).to(device), full({n}, 0.5f, {.device = device}),
              (arange(n) % 3).to(device)};
    lz::eval({in.x, in.y, in.index});
    lz::sync();
    return in;
}

struct Program {
    const char *name;
    std::function<Numbers(const Inputs &, const Device &)> run;
};

const std::vector<Program> kPrograms = {
    {"elementwise and a sum",
     [](const Inputs &in, const Device &) {
         return ((in.x * 2 + in.y).relu() - 1).sum().to_vector<float>();
     }},
    {"in place, with a part",
     [](const Inputs &in, const Device &) {
         Tensor z = in.x.clone();
         z += 1;
         z.at({Slice(1, 3)}) *= 2;
         z.at({0}) = 7;
         return z.to_vector<float>();
     }},
    {"sort, one result after the other",
     [](const Inputs &in, const Device &) {
         auto [values, places] = sort(in.y - in.x);
         values.eval();
         return (values + places).to_vector<float>();
     }},
    {"a product and softmax",
     [](const Inputs &in, const Device &) {
         return outer(in.x, in.y).matmul(in.y.view({-1, 1})).softmax(0).flatten().to_vector<float>();
     }},
    {"checked indices",
     [](const Inputs &in, const Device &) { return in.x.index_select(0, in.index).to_vector<float>(); }},
    {"copies between devices",
     [](const Inputs &in, const Device &) {
         const Device other = cuda::is_available() ? Device::cuda(1) : Device::cpu();
         return (in.x.to(other) + in.y.to(other)).cpu().to_vector<float>();
     }},
    {"several values at once",
     [](const Inputs &in, const Device &) {
         const Tensor a = in.x + 1, b = in.y * 2, c = a.sum(), view = in.x.view({1, -1});
         lz::eval({a, b, c, view});
         return (a + b + c + view.flatten()).to_vector<float>();
     }},
};

class EveryAllocation : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        ASSERT_TRUE(prepared);
        if (!allocations_can_fail())
            GTEST_SKIP() << "operator new is the sanitizer's in this build.";
        if (GetParam() != "cpu" && !cuda::is_available())
            GTEST_SKIP() << "Virtual GPUs need the CPU's JIT, and this build has none.";
    }
    Device device() const { return {GetParam()}; }

    /// Fails each allocation of the program in turn. `inputs_of(k)`: what it works on then.
    void fail_each(const Program &program, const std::function<Inputs(int64_t)> &inputs_of,
                   int64_t step = 1) {
        int64_t thrown = 0, survived = 0, spared = 0, k = 0;
        for (;; k += step) {
            SCOPED_TRACE(std::string(program.name) + ": allocation " + std::to_string(k));
            const Inputs in = inputs_of(k);
            Numbers got;
            bool finished = false;
            fail_allocation_after(k);
            try {
                got = program.run(in, device());
                finished = true;
            } catch (const OutOfMemoryError &) {
            } catch (const std::bad_alloc &) {
            } catch (const std::exception &error) {
                stop_failing();
                FAIL() << "another error: " << error.what();
            }
            const Outcome outcome = stop_failing();
            try { // what is left over, and what nobody has been told yet
                lz::sync();
            } catch (const OutOfMemoryError &) {
            }
            const Numbers right = program.run(in, device());
            ASSERT_FALSE(right.empty());
            if (finished) {
                ASSERT_EQ(got, right);
            }
            if (k % 64 == 0) {
                ASSERT_EQ(right, program.run({in.x.cpu(), in.y.cpu(), in.index.cpu()}, Device::cpu()));
            }
            if (outcome == Outcome::NotReached) {
                EXPECT_TRUE(finished);
                break;
            }
            ++(outcome == Outcome::Spared ? spared : finished ? survived : thrown);
        }
        EXPECT_GT(thrown, 0);
        std::printf("%s, %s: %lld allocations: %lld thrown, %lld survived, %lld of LLVM or the loader\n",
                    GetParam().c_str(), program.name, static_cast<long long>(k),
                    static_cast<long long>(thrown), static_cast<long long>(survived),
                    static_cast<long long>(spared));
    }
};

/// Programs and kernels are there: recording, linearising, binding and launching.
TEST_P(EveryAllocation, of_a_program_that_is_found_again) {
    for (const Program &program : kPrograms) {
        const Inputs in = inputs(device(), 24);
        (void)program.run(in, device());
        fail_each(program, [&](int64_t) { return in; });
        if (HasFatalFailure())
            return;
    }
}

/// Other sizes each time: the passes run, and find the kernels.
TEST_P(EveryAllocation, of_a_program_whose_kernels_are_found) {
    for (const Program &program : kPrograms) {
        (void)program.run(inputs(device(), 24), device());
        fail_each(program, [&](int64_t k) { return inputs(device(), 24 + k); });
        if (HasFatalFailure())
            return;
    }
}

/// Nothing is there: kernels are compiled, too. LLVM's own allocations are left out (fail_allocations.h).
/// Each time LLVM runs: with LAZULI_TEST_LONG=1 it is every allocation (four minutes), else every 41st.
TEST_P(EveryAllocation, of_a_program_that_is_compiled) {
    const Inputs in = inputs(device(), 24);
    const auto anew = [&](int64_t) {
        engine::Engine::get().clear_caches();
        return in;
    };
    fail_each(kPrograms[0], anew, ::getenv("LAZULI_TEST_LONG") ? 1 : 41);
}

/// Refuses calls when told to.
runtime::FaultInjectingBackend *cpu = nullptr;
[[maybe_unused]] const bool wrapped = [] {
    engine::Devices::wrap_cpu() = [](runtime::Backend &backend) {
        auto faulty = std::make_unique<runtime::FaultInjectingBackend>(backend);
        cpu = faulty.get();
        return faulty;
    };
    return true;
}();

constexpr int64_t kForEver = int64_t{1} << 40;

void forget_errors() {
    try {
        lz::sync();
    } catch (const Error &) {
    }
}

/// Three tensors, changed in place by several launches.
struct Changed {
    Tensor first, second, sums;

    /// The CPU refuses this call of them for good. Whether they stopped there.
    bool stop_halfway(int64_t call) {
        first = zeros({300});
        second = zeros({300}, {.dtype = f64});
        sums = zeros({300});
        lz::sync();
        cpu->fail_at(call, kForEver);
        try {
            sums.add_(1);
            first.add_(2).mul_(first + 1);
            second.add_(2).mul_(second + 1);
            sums.copy_(cumsum(sums, 0));
            lz::sync();
        } catch (const Error &error) {
            return std::string(error.what()).find("goes on") != std::string::npos;
        }
        return false;
    }
    /// The last number of each; nothing for one that has none.
    std::vector<std::optional<double>> last_numbers() const {
        std::vector<std::optional<double>> numbers;
        for (const Tensor &t : {first, second, sums})
            try {
                numbers.emplace_back(t.to(f64).to_vector<double>().back());
            } catch (const Error &) {
                numbers.emplace_back();
            }
        return numbers;
    }
};

/// A run that stopped goes on, is refused again, or is lost: no call of it is made twice, and no tensor is
/// seen as before it beside another as after it.
TEST(EveryAllocationOfARunThatStopped, LeavesItAsItIsOrEndsIt) {
    if (!allocations_can_fail())
        GTEST_SKIP() << "operator new is the sanitizer's in this build.";
    lz::sync();
    Changed changed;
    const std::vector<std::optional<double>> after = {6, 6, 300}, none(3);
    int64_t stops = 0, done = 0, lost = 0;
    for (int64_t call = 1; call < 40; ++call)
        for (int64_t again = 0; again < 4; ++again) { // how many calls go on before one is refused again
            bool reached = true;
            for (int64_t k = 0; reached; ++k) {
                SCOPED_TRACE(testing::Message()
                             << "call " << call << ", " << again << " more, allocation " << k);
                cpu->fail_at(0);
                forget_errors();
                if (!changed.stop_halfway(call))
                    break;
                ++stops;
                cpu->fail_at(again, kForEver);
                fail_allocation_after(k);
                try {
                    lz::sync();
                } catch (const Error &) {
                } catch (const std::bad_alloc &) {
                }
                reached = stop_failing() != Outcome::NotReached;
                cpu->fail_at(0);
                forget_errors();
                const auto numbers = changed.last_numbers();
                ASSERT_TRUE(numbers == after || numbers == none)
                    << numbers[0].value_or(-1) << ", " << numbers[1].value_or(-1) << ", "
                    << numbers[2].value_or(-1);
                ++(numbers == after ? done : lost);
            }
        }
    cpu->fail_at(0);
    forget_errors();
    EXPECT_GT(stops, 10);
    EXPECT_GT(done, stops / 2);
    std::printf("%lld times stopped: %lld done, %lld lost\n", static_cast<long long>(stops),
                static_cast<long long>(done), static_cast<long long>(lost));
}

INSTANTIATE_TEST_SUITE_P(On, EveryAllocation, testing::Values("cpu", "cuda:0"),
                         [](const auto &info) { return info.param == "cpu" ? "Cpu" : "VirtualGpu"; });

} // namespace
} // namespace lz::test
