// Every call of the CUDA driver and of cuBLASLt fails in turn under a program of the public API: the user
// sees a typed error with a line of the program, or the right answer; nothing hangs, and the CPU and all
// other GPUs go on.
//
// A device that is lost stays lost in its process, so a child goes on with another of its sixteen, and
// another child when they are used up. LAZULI_TEST_LONG=1 is every call; else those of which there are many
// are thinned out.
#include "tests/support/cuda/driver/fake_cuda.h"
#include "tests/support/cuda/nvrtc.h"

#include "frontend/engine/engine.h"

#include <lazuli/lazuli.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace lz;

constexpr int kOutOfMemory = 2, kInvalidValue = 1, kIllegalAddress = 700;
constexpr int kAllDone = 42, kDevicesUsedUp = 43;
constexpr unsigned kSecondsWithoutProgress = 60;

/// Before anything uses the engine. On a GPU (tests/gpu/run.sh) this file's tests are left out, and the
/// others have what is there.
const bool prepared = [] {
    if (std::getenv("LAZULI_TEST_CUDA"))
        return true;
    ::setenv("LAZULI_CUDA_DRIVER", LAZULI_FAKE_CUDA, 1);
    ::setenv("LAZULI_CUBLASLT", LAZULI_FAKE_CUBLASLT, 1);
    ::setenv("LAZULI_VIRTUAL_GPUS", "", 1);
    ::setenv("LAZULI_FAKE_CUDA_DEVICES", "16", 0);
    ::setenv("LAZULI_FAKE_CUDA_MEMORY", "128M", 0);
    ::setenv("LAZULI_FAKE_CUDA_THREADS", "2", 0);
    ::setenv("LAZULI_FAKE_CUDA_DEADLOCK_MS", "5000", 0);
    ::setenv("LAZULI_VERIFY", "1", 0);
    return true;
}();

#define FAKE(name) reinterpret_cast<decltype(&::name)>(fake_function(#name))
void *fake_function(const char *name) {
    static void *const library = ::dlopen(LAZULI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    return ::dlsym(library, name);
}

// --- the program

using Numbers = std::vector<float>;

/// Elementwise work, a sum, a product, copies of pageable and pinned memory both ways and to another GPU, two
/// streams, an event, a callback, checked indices, and a step with a product that comes again (a graph from
/// its second run on). `there` may be `here`.
Numbers program(const Device &here, const Device &there) {
    const Tensor host = arange(36).to(f32) * 0.25;
    const Tensor x = host.reshape({6, 6}).to(here), far = (host + 1).to(there);
    Tensor product, counted;
    const auto called = std::make_shared<std::atomic<float>>(0.0f);
    if (here.is_cpu()) {
        product = matmul(relu(x * 2 - 3), x) + 1;
        counted = x.cumsum(0);
        *called = 1;
    } else {
        const lz::Stream s(here), t(here, -1);
        const lz::Event event;
        Tensor a;
        {
            const lz::StreamGuard guard(s);
            a = relu(x * 2 - 3);
            event.record(s);
            s.add_callback([called] { *called = 1; });
        }
        const lz::StreamGuard guard(t);
        event.wait(t);
        product = matmul(a, x) + 1;
        counted = x.cumsum(0);
        t.synchronize();
        s.synchronize();
    }
    Tensor state = product * 0.125;
    for (int step = 0; step < 3; ++step) {
        state = matmul(state, (x > 8).to(f32)) * 0.5 + x; // one term a sum: all orders are the same
        state.eval();
    }
    const Tensor index = tensor({3, 1, 4}).to(here);
    const Tensor picked = state.flatten().index_select(0, index);
    const Tensor sum = (state.to(there).flatten() + far).sum();
    Numbers out = state.flatten().to_vector<float>();
    for (const Tensor &more : {picked, sum.view({1}), counted.flatten()})
        for (const float value : more.to_vector<float>())
            out.push_back(value);
    const Tensor pinned = here.is_cpu() ? state : state.cpu().pin_memory();
    for (const float value : (pinned.to(here, {.non_blocking = true}) - 1).sum(1).to_vector<float>())
        out.push_back(value);
    out.push_back(*called);
    return out;
}

Numbers right() {
    static const Numbers numbers = program(Device::cpu(), Device::cpu());
    return numbers;
}

/// Typed, of a kind that a device gives, with a line of this file.
void expect_telling(const Error &error) {
    EXPECT_TRUE(dynamic_cast<const DeviceError *>(&error) || dynamic_cast<const CudaError *>(&error) ||
                dynamic_cast<const OutOfMemoryError *>(&error) || dynamic_cast<const CompileError *>(&error))
        << error.what();
    EXPECT_TRUE(error.file() && std::strstr(error.file(), "faults_test.cpp")) << error.what();
}

// --- what fails

/// Which call fails.
struct Place {
    size_t function = 0;
    unsigned nth = 1;
    bool cold = false; ///< programs, modules and memory of the devices are asked for anew
};

std::string path_of_place() {
    const char *const path = std::getenv("LAZULI_TEST_PLACE");
    return path ? path : "";
}
Place read_place() {
    Place place;
    std::ifstream(path_of_place()) >> place.function >> place.nth >> place.cold;
    return place;
}
void write_place(const Place &place) {
    std::ofstream(path_of_place()) << place.function << ' ' << place.nth << ' ' << place.cold << '\n';
}

/// All that can fail.
std::vector<std::string> functions() {
    std::vector<std::string> names;
    for (const char *const *name = FAKE(lazuli_fake_cuda_functions)(); *name; ++name)
        names.emplace_back(*name);
    void *const cublaslt = ::dlopen(LAZULI_FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
    using List = const char *const *(*)();
    for (const char *const *name =
             reinterpret_cast<List>(::dlsym(cublaslt, "lazuli_fake_cublaslt_functions"))();
         *name; ++name)
        names.emplace_back(*name);
    return names;
}

unsigned after(unsigned nth) {
    static const bool all = std::getenv("LAZULI_TEST_LONG") != nullptr;
    return all || nth < 4 ? nth + 1 : 2 * nth;
}

// --- the child

/// GPUs that are not lost.
class Living {
public:
    Living() {
        for (int i = 0; i < cuda::device_count(); ++i)
            devices_.push_back(i);
    }
    bool enough() const { return devices_.size() >= 3; } // two of the program's, and one that looks on
    Device first() const { return Device::cuda(devices_[0]); }
    Device second() const { return Device::cuda(devices_[1]); }
    Device last() const { return Device::cuda(devices_.back()); }

    /// How many of these three are lost (memory of any is looked after in between). Those that go on give the
    /// right answer.
    int drop_lost() {
        const std::array<int, 3> asked = {devices_[0], devices_[1], devices_.back()};
        int lost = 0;
        for (const int device : asked)
            try {
                const Device here = Device::cuda(device);
                EXPECT_EQ((arange(5).to(here).to(f32) * 2).sum().item<double>(), 20);
            } catch (const CudaError &error) {
                EXPECT_NE(std::strstr(error.what(), "lost"), nullptr) << error.what();
                expect_telling(error);
                std::erase(devices_, device);
                ++lost;
            }
        return lost;
    }

private:
    std::vector<int> devices_;
};

void sync_what_is_left() {
    for (int again = 0; again < 3; ++again)
        try {
            lz::sync();
        } catch (const Error &) {
        }
}

/// False when there were fewer calls than that.
bool fail_once(const std::string &function, const Place &place, int error, Living &living) {
    SCOPED_TRACE(fmt::format("{}, call {}, {}", function, place.nth, place.cold ? "cold" : "warm"));
    const Device first = living.first(), second = living.second();
    if (place.cold) {
        engine::Engine::get().clear_caches();
        lz::empty_cache(first);
        lz::empty_cache(second);
    }
    const uint64_t before = FAKE(lazuli_fake_cuda_calls)(function.c_str());
    (error == kIllegalAddress ? FAKE(lazuli_fake_cuda_lose) : FAKE(lazuli_fake_cuda_fail))(function.c_str(),
                                                                                           place.nth, error);
    try {
        EXPECT_EQ(program(first, second), right());
    } catch (const Error &thrown) {
        expect_telling(thrown);
    } catch (const std::exception &thrown) {
        ADD_FAILURE() << "an error that has no type: " << thrown.what();
    }
    sync_what_is_left();
    const bool failed = FAKE(lazuli_fake_cuda_calls)(function.c_str()) >= before + place.nth;
    FAKE(lazuli_fake_cuda_fail)(function.c_str(), 0, 0);

    EXPECT_EQ(program(Device::cpu(), Device::cpu()), right());
    const int lost = living.drop_lost();
    EXPECT_LE(lost, 1);
    if (!failed) {
        EXPECT_EQ(lost, 0);
    }
    if (place.cold) { // memory that is there for all of them
        lz::empty_cache(Device::cpu());
        const Tensor pinned = full({1 << 16}, 3.0f, {.pinned = true});
        EXPECT_EQ(pinned.at({Slice(0, 9)}).to(living.last(), {.non_blocking = true}).sum().item<double>(),
                  27);
    }
    if (lost == 0) {
        EXPECT_EQ(program(first, second), right()) << "it does not go on";
    }
    return failed;
}

TEST(CudaFaultsChild, DISABLED_FromAPlaceOn) {
    ASSERT_TRUE(prepared);
    const int error = std::atoi(std::getenv("LAZULI_TEST_ERROR"));
    Place place = read_place();
    Living living;
    Device warm = Device::cpu();
    const std::vector<std::string> names = functions();
    while (place.function < names.size()) {
        write_place(place);
        if (!living.enough())
            ::_exit(kDevicesUsedUp);
        ::alarm(kSecondsWithoutProgress);
        if (living.first() != warm) {
            warm = living.first();
            EXPECT_EQ(program(warm, living.second()), right());
            EXPECT_EQ(program(warm, living.second()), right());
        }
        // With this the driver says that it does not know an address.
        const bool is_an_answer = error == kInvalidValue && names[place.function] == "cuPointerGetAttribute";
        if (is_an_answer)
            place = {place.function + 1, 1, false};
        else if (fail_once(names[place.function], place, error, living))
            place.nth = after(place.nth);
        else if (!place.cold)
            place = {place.function, 1, true};
        else
            place = {place.function + 1, 1, false};
        if (HasFailure())
            ::_exit(1);
    }
    ::_exit(kAllDone);
}

// --- the parent

int run_child(const std::string &test) {
    const pid_t child = ::fork();
    if (child == 0) {
        const std::string filter = "--gtest_filter=" + test;
        ::execl("/proc/self/exe", "test_on_cuda", filter.c_str(), "--gtest_also_run_disabled_tests",
                "--gtest_brief=1", nullptr);
        ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class CudaFaults : public testing::TestWithParam<int> {};

TEST_P(CudaFaults, EveryCallFailsInTurnAndTheRestGoesOn) {
    if (!test::why_no_nvrtc().empty())
        GTEST_SKIP() << test::why_no_nvrtc();
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                                       fmt::format("lazuli_cuda_faults_{}_{}", GetParam(), ::getpid());
    ::setenv("LAZULI_TEST_PLACE", path.c_str(), 1);
    ::setenv("LAZULI_TEST_ERROR", std::to_string(GetParam()).c_str(), 1);
    write_place({});
    const std::vector<std::string> names = functions();
    for (int failures = 0; failures < 5;) {
        const int status = run_child("CudaFaultsChild.DISABLED_FromAPlaceOn");
        if (status == kAllDone)
            break;
        if (status == kDevicesUsedUp) // it has not begun with its place
            continue;
        Place place = read_place();
        ADD_FAILURE() << names.at(place.function) << ", call " << place.nth
                      << (place.cold ? ", cold" : ", warm") << ": the child ended with " << status;
        ++failures;
        place = place.cold ? Place{place.function + 1, 1, false} : Place{place.function, 1, true};
        write_place(place);
    }
    std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(With, CudaFaults, testing::Values(kOutOfMemory, kInvalidValue, kIllegalAddress),
                         [](const auto &info) {
                             return info.param == kOutOfMemory    ? "OutOfMemory"
                                    : info.param == kInvalidValue ? "AnInvalidValue"
                                                                  : "AnIllegalAddress";
                         });

// --- before there is a device

TEST(CudaFaultsChild, DISABLED_CountCalls) {
    (void)cuda::is_available();
    std::ofstream file(path_of_place());
    for (const std::string &name : functions())
        file << name << ' ' << FAKE(lazuli_fake_cuda_calls)(name.c_str()) << '\n';
    file.close();
    ::_exit(kAllDone);
}

/// The GPUs are there, or all that are asked for say why not.
TEST(CudaFaultsChild, DISABLED_AskForGpus) {
    ::alarm(kSecondsWithoutProgress);
    const bool there = cuda::is_available();
    EXPECT_FALSE(cuda::availability().empty());
    if (there) {
        EXPECT_EQ(program("cuda:0", "cuda:1"), right());
    } else {
        try {
            program("cuda:0", "cuda:1");
            ADD_FAILURE() << "a device that is not there computed something";
        } catch (const DeviceError &error) {
            expect_telling(error);
            EXPECT_NE(std::strstr(error.what(), cuda::availability().c_str()), nullptr) << error.what();
        }
    }
    EXPECT_EQ(program(Device::cpu(), Device::cpu()), right());
    ::_exit(HasFailure() ? 1 : kAllDone);
}

TEST(CudaFaults, EveryCallThatLooksForDevicesFailsInTurn) {
    if (!test::why_no_nvrtc().empty())
        GTEST_SKIP() << test::why_no_nvrtc();
    const std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) / fmt::format("lazuli_cuda_calls_{}", ::getpid());
    ::setenv("LAZULI_TEST_PLACE", path.c_str(), 1);
    ::setenv("LAZULI_FAKE_CUDA_DEVICES", "2", 1);
    ASSERT_EQ(run_child("CudaFaultsChild.DISABLED_CountCalls"), kAllDone);
    std::ifstream file(path);
    int tried = 0;
    std::string name;
    for (unsigned calls = 0; file >> name >> calls;)
        for (unsigned nth = 1; nth <= calls;
             nth = std::max(nth + 1, nth < calls ? calls : 0)) { // first and last
            ::setenv("LAZULI_FAKE_CUDA_FAIL", fmt::format("{}:{}:{}", name, nth, kOutOfMemory).c_str(), 1);
            EXPECT_EQ(run_child("CudaFaultsChild.DISABLED_AskForGpus"), kAllDone) << name << ", call " << nth;
            ++tried;
        }
    EXPECT_GT(tried, 10);
    ::unsetenv("LAZULI_FAKE_CUDA_FAIL");
    std::filesystem::remove(path);
}

} // namespace
