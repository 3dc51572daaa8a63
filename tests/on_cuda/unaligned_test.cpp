// Operands whose addresses are no multiples of 16 bytes: the first launch that has one compiles the kernel
// for it, unless it is on disk. Each test is a process of its own, with a cache directory of its own; the
// environment is faults_test.cpp's.
#include "tests/support/caught.h"
#include "tests/support/cuda/driver/fake_cuda.h"
#include "tests/support/cuda/nvrtc.h"
#include "tests/support/run_file.h"

#include <lazuli/io/dlpack.h>
#include <lazuli/lazuli.h>

#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace lz;
using namespace lz::test;

const Device kGpu = Device::cuda(0);

void fail_call(const char *function, unsigned nth, int error) {
    static void *const library = ::dlopen(LAZULI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    reinterpret_cast<decltype(&::lazuli_fake_cuda_fail)>(::dlsym(library, "lazuli_fake_cuda_fail"))(
        function, nth, error);
}

/// The elements of a tensor from the second one on, where they are.
Tensor beside(const Tensor &x) {
    struct Part {
        DLManagedTensor *whole;
        int64_t shape[1];
        DLManagedTensor managed{};
    };
    auto *const part = new Part{to_dlpack(x), {x.numel() - 1}};
    part->managed.dl_tensor = part->whole->dl_tensor;
    part->managed.dl_tensor.shape = part->shape;
    part->managed.dl_tensor.strides = nullptr;
    part->managed.dl_tensor.byte_offset += sizeof(float);
    part->managed.manager_ctx = part;
    part->managed.deleter = [](DLManagedTensor *self) {
        auto *const mine = static_cast<Part *>(self->manager_ctx);
        mine->whole->deleter(mine->whole);
        delete mine;
    };
    return from_dlpack(&part->managed);
}

/// A kernel, and one of the library's: a program of several launches is a graph from its second run on.
std::vector<Tensor> step(const Tensor &x) {
    const Tensor y = relu(x * 2 - 3) + 1;
    return {y, y.cumsum(0)};
}

Tensor numbers(int64_t count) {
    const Tensor x = arange(count).to(f32).to(kGpu);
    x.eval();
    return x;
}

std::string expected(const Tensor &x) {
    return elements_of(step(x.cpu()));
}

/// How many kernels f has made, and how many it has found on disk.
template <class F>
std::pair<int64_t, int64_t> kernels_of(F &&f) {
    reset_compile_stats();
    f();
    const CompileStats stats = compile_stats();
    return {stats.kernels_compiled, stats.kernels_from_disk};
}
using Kernels = std::pair<int64_t, int64_t>;

// --- the children

TEST(OnCudaUnalignedChild, DISABLED_AKernelIsMadeOnceForAllUnalignedLaunches) {
    const bool first = std::getenv("LAZULI_TEST_FIRST") != nullptr;
    const auto made = [&](int64_t kernels) { return first ? Kernels{kernels, 0} : Kernels{0, kernels}; };
    const Tensor x = numbers(1000), y = numbers(1001);
    const auto compiled = compile(step);
    const auto run = [&](const Tensor &on) { EXPECT_EQ(elements_of(compiled(on)), expected(on)); };
    const std::string right = expected(x);
    EXPECT_EQ(kernels_of([&] {
                  for (int call = 0; call < 4; ++call) // a graph from the second on
                      EXPECT_EQ(elements_of(compiled(x)), right);
              }),
              made(2))
        << "an aligned program";
    const Tensor part = beside(y);
    const std::string right_of_part = expected(part);
    EXPECT_EQ(kernels_of([&] { EXPECT_EQ(elements_of(compiled(part)), right_of_part); }), made(1))
        << "the library's reads and writes memory of ours";
    EXPECT_EQ(kernels_of([&] {
                  for (int turn = 0; turn < 7; ++turn) { // more sets of addresses than there are instances
                      run(x);
                      run(part);
                      run(numbers(1000));
                      run(beside(numbers(1001)));
                  }
              }).first,
              0);
}

/// Steps of rows, of tables of segments and of a product's epilogue, aligned and not, in one program.
TEST(OnCudaUnalignedChild, DISABLED_ProgramsOfSeveralKernelsGiveTheSameOnAllAddresses) {
    const auto f = [](const std::vector<Tensor> &in) {
        const Tensor rows = in[0].reshape({12, 20});
        return std::vector<Tensor>{softmax(rows, -1), rows.sum(0),       (in[1] * 0.5).sum(),
                                   in[1] + in[2],     in[2] * in[2] - 1, matmul(rows, rows.t()) + 1};
    };
    const auto compiled = compile(f);
    const Tensor a = numbers(241) * 0.01, b = numbers(101), c = numbers(101);
    a.eval();
    for (int turn = 0; turn < 6; ++turn)
        for (int mask = 0; mask < 8; mask += 7) {
            std::vector<Tensor> in;
            for (const Tensor &x : {a, b, c})
                in.push_back(mask ? beside(x) : beside(x).clone());
            for (const Tensor &x : in)
                x.eval();
            std::vector<Tensor> host;
            for (const Tensor &x : in)
                host.push_back(x.cpu());
            const std::vector<Tensor> given = compiled(in), right = f(host);
            for (size_t r = 0; r + 1 < given.size(); ++r)
                EXPECT_EQ(elements_of({given[r]}), elements_of({right[r]})) << "result " << r;
            EXPECT_TRUE(allclose(given.back().cpu(), right.back(), 1e-4));
        }
}

TEST(OnCudaUnalignedChild, DISABLED_AKernelThatCannotBeMadeIsATypedErrorWithItsLine) {
    constexpr int kInvalidPtx = 218, kIllegalState = 401;
    const Tensor x = numbers(1001), part = beside(x);
    const std::string right = expected(part);
    const auto compiled = compile(step);
    for (int call = 0; call < 6; ++call)
        EXPECT_EQ(elements_of(compiled(numbers(1000))), expected(numbers(1000)));
    for (const int error : {kInvalidPtx, kIllegalState}) {
        fail_call("cuLibraryLoadData", 1, error);
        if (std::getenv("LAZULI_TEST_GRAPHS")) { // a graph is not made, and step by step it works
            EXPECT_EQ(elements_of(compiled(part)), right);
            break;
        }
        const Caught failed = caught<CompileError>([&] { elements_of(compiled(part)); });
        EXPECT_TRUE(failed.has("addresses that are no multiples of 16 bytes") &&
                    failed.has("unaligned_test.cpp"))
            << failed.what;
    }
    EXPECT_EQ(elements_of(compiled(numbers(1000))), expected(numbers(1000))) << "others go on";
    for (int call = 0; call < 3; ++call)
        EXPECT_EQ(elements_of(compiled(part)), right);
    EXPECT_EQ(elements_of(step(part)), right);
}

TEST(OnCudaUnalignedChild, DISABLED_AProgramFileHasTheKernelsForAllAddresses) {
    const std::string file = std::string(std::getenv("LAZULI_CACHE_DIR")) + "/f.lzp";
    const Tensor x = numbers(1000);
    const auto compiled = compile(step);
    for (int call = 0; call < 3; ++call)
        compiled(x);
    save_program(file, compiled);
    const Program program = load_program(file);
    const Tensor part = beside(numbers(1001));
    const std::string right = expected(x), right_of_part = expected(part);
    EXPECT_EQ(kernels_of([&] {
                  for (int call = 0; call < 4; ++call) {
                      EXPECT_EQ(elements_of(program({x})), right);
                      EXPECT_EQ(elements_of(program({part})), right_of_part);
                  }
              }),
              (Kernels{0, 0}));
}

TEST(OnCudaUnalignedChild, DISABLED_AnotherStartOfASliceCompilesNothing) {
    const Tensor x = numbers(1100);
    const auto run = [&](int64_t start) {
        const Tensor part = x.slice(0, start, start + 1000);
        EXPECT_EQ(elements_of(step(part)), expected(part));
    };
    run(4);
    EXPECT_EQ(kernels_of([&] {
                  for (const int64_t start : {5, 6, 8, 3})
                      run(start);
              }).first,
              0);
}

// --- the tests

int count_of(std::string_view part, std::string_view text) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
        ++count;
    return count;
}

class OnCudaUnaligned : public testing::Test {
protected:
    void SetUp() override {
        if (!why_no_nvrtc().empty())
            GTEST_SKIP() << why_no_nvrtc();
    }
    /// Gives what the child printed.
    std::string run(const std::string &test, const std::string &environment = "") const {
        const std::string out = folder_ / "out";
        const std::string command = "env LAZULI_CACHE_DIR=" + (folder_ / "cache") + " " + environment + " " +
                                    std::filesystem::read_symlink("/proc/self/exe").string() +
                                    " --gtest_also_run_disabled_tests --gtest_filter=OnCudaUnalignedChild." +
                                    "DISABLED_" + test + " > " + out + " 2>&1";
        EXPECT_EQ(std::system(command.c_str()), 0) << read_bytes(out);
        return read_bytes(out);
    }
    void forget() const { std::filesystem::remove_all(folder_ / "cache"); }

private:
    const TestFolder folder_;
};

TEST_F(OnCudaUnaligned, AKernelIsMadeOnceForAllUnalignedLaunchesAndTheNextProcessFindsIt) {
    for (const char *graphs : {"", "LAZULI_CUDA_GRAPHS=0"}) {
        const std::string first = run("AKernelIsMadeOnceForAllUnalignedLaunches",
                                      std::string("LAZULI_TEST_FIRST=1 LAZULI_LOG=compile ") + graphs);
        EXPECT_EQ(count_of("its code for addresses that are no multiples of 16 bytes, compiled", first), 1)
            << first;
        const std::string next =
            run("AKernelIsMadeOnceForAllUnalignedLaunches", std::string("LAZULI_LOG=compile ") + graphs);
        EXPECT_EQ(count_of("its code for addresses that are no multiples of 16 bytes, from disk", next), 1)
            << next;
        EXPECT_EQ(count_of(" bytes, compiled", next), 0) << next;
        forget();
    }
}

TEST_F(OnCudaUnaligned, ProgramsOfSeveralKernelsGiveTheSameOnAllAddresses) {
    run("ProgramsOfSeveralKernelsGiveTheSameOnAllAddresses");
    run("ProgramsOfSeveralKernelsGiveTheSameOnAllAddresses", "LAZULI_CUDA_GRAPHS=0");
}

TEST_F(OnCudaUnaligned, AKernelThatCannotBeMadeIsATypedErrorWithItsLine) {
    for (const char *graphs : {"LAZULI_TEST_GRAPHS=1", "LAZULI_CUDA_GRAPHS=0"}) // without files on disk
        run("AKernelThatCannotBeMadeIsATypedErrorWithItsLine", std::string("LAZULI_CACHE_DIR= ") + graphs);
}

TEST_F(OnCudaUnaligned, AProgramFileHasTheKernelsForAllAddresses) {
    run("AProgramFileHasTheKernelsForAllAddresses");
}

TEST_F(OnCudaUnaligned, AnotherStartOfASliceCompilesNothing) {
    run("AnotherStartOfASliceCompilesNothing");
}

} // namespace
