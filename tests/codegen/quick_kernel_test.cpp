// The quick tier: kernels that are interpreted until another thread has compiled them.
#include "cache_support.h"
#include "codegen/quick.h"
#include "ir/diagnostic.h"
#include "ir/interpreter/kernel.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <new>
#include <thread>
#include <vector>

namespace {

using namespace lz;
using codegen::QuickKernel;
using codegen::QuickKernelPtr;
using test::expect_squares;
using test::OneCache;
using test::square;

/// Gives the host's machine code, or none, and counts.
class Counting : public codegen::Compiler {
public:
    explicit Counting(bool fails = false) : fails_(fails) {}
    const std::string &key() const override { return llvm_->key(); }
    bool needs_llvm() const override { return true; }
    ir::MathForms math_forms() const override { return llvm_->math_forms(); }
    ir::CompiledKernel compile(const ir::Kernel &kernel) const override {
        ++compiles;
        if (fails_)
            throw ir::Failure(ir::ErrorKind::Compile, "There is no code today.");
        return llvm_->compile(kernel);
    }
    mutable std::atomic<int> compiles{0};

private:
    const std::unique_ptr<codegen::Compiler> llvm_ = codegen::make_llvm_compiler(codegen::host_isa());
    const bool fails_;
};

class QuickKernelTest : public test::CacheDirectory {
protected:
    void SetUp() override {
        if (!codegen::cpu_jit_available())
            GTEST_SKIP() << "this build has no CPU code generation, so that everything is interpreted";
        options_.directory = directory_.string();
        options_.beside = [this](std::function<void()> work) { waiting_.push_back(std::move(work)); };
        options_.log = [this](const std::string &sentence) { said_.push_back(sentence); };
    }
    /// As the thread beside does.
    void work() {
        for (; !waiting_.empty(); waiting_.pop_front())
            waiting_.front()();
    }

    codegen::KernelCacheOptions options_;
    std::deque<std::function<void()>> waiting_;
    std::vector<std::string> said_;
    const ir::Kernel kernel_ = square();
};

TEST_F(QuickKernelTest, RunsBeforeItIsCompiledAndThenByItsCode) {
    OneCache one(options_, std::make_unique<Counting>());
    const auto &compiler = static_cast<const Counting &>(*one.compiler);
    const codegen::CachedKernelPtr loaded = one.cache.get({&kernel_, one.compiler.get(), &one.cpu, true});
    const QuickKernelPtr quick = codegen::quick_kernel(loaded->module);
    ASSERT_TRUE(quick);
    expect_squares(*loaded);
    EXPECT_EQ(compiler.compiles, 0);
    EXPECT_FALSE(quick->is_settled());
    const int64_t interpreted = quick->interpreted();
    EXPECT_GT(interpreted, 0);
    EXPECT_EQ(one.cache.stats().compiled, 1) << "it will be";
    EXPECT_EQ(one.cache.stats().quick, 1);
    EXPECT_EQ(one.cache.get({&kernel_, one.compiler.get(), &one.cpu, true}), loaded);
    ASSERT_EQ(waiting_.size(), 1U) << "once";
    work();
    EXPECT_EQ(compiler.compiles, 1);
    EXPECT_TRUE(quick->is_compiled());
    expect_squares(*loaded);
    EXPECT_EQ(quick->interpreted(), interpreted) << "no more";
    quick->compile();
    EXPECT_EQ(one.cache.get({&kernel_, one.compiler.get(), &one.cpu}), loaded);
    EXPECT_EQ(compiler.compiles, 1);
    EXPECT_TRUE(said_.empty());
}

TEST_F(QuickKernelTest, IsOnDiskWhenItIsCompiled) {
    {
        OneCache one(options_, std::make_unique<Counting>());
        const auto loaded = one.cache.get({&kernel_, one.compiler.get(), &one.cpu, true});
        OneCache other(options_, std::make_unique<Counting>());
        EXPECT_TRUE(codegen::quick_kernel(
            other.cache.get({&kernel_, other.compiler.get(), &other.cpu, true})->module))
            << "nothing is there yet";
        work();
    }
    OneCache again(options_, std::make_unique<Counting>());
    const auto loaded = again.cache.get({&kernel_, again.compiler.get(), &again.cpu, true});
    EXPECT_FALSE(codegen::quick_kernel(loaded->module));
    EXPECT_EQ(again.cache.stats().from_disk, 1);
    EXPECT_TRUE(waiting_.empty());
    expect_squares(*loaded);
}

TEST_F(QuickKernelTest, IsCompiledAtOnceForWhomIsNotSmall) {
    OneCache one(options_, std::make_unique<Counting>());
    const auto &compiler = static_cast<const Counting &>(*one.compiler);
    const auto small = one.cache.get({&kernel_, one.compiler.get(), &one.cpu, true});
    const auto large = one.cache.get({&kernel_, one.compiler.get(), &one.cpu});
    EXPECT_EQ(small, large);
    EXPECT_EQ(compiler.compiles, 1);
    EXPECT_TRUE(codegen::quick_kernel(large->module)->is_compiled());
    // A part of a launch, which nobody may interpret.
    const auto entry = reinterpret_cast<ir::PhaseEntry>(large->module->entry(large->phases[0].symbol));
    std::array<float, 20> in{1, 2, 3}, out{};
    void *const buffers[] = {out.data(), in.data()};
    const int64_t args[] = {20, 1};
    const ir::KernelFrame frame{buffers, args, nullptr, nullptr, large->module->code()};
    entry(&frame, 1, 3, nullptr);
    EXPECT_EQ(out, (std::array<float, 20>{0, 4, 9}));
    work();
    EXPECT_EQ(compiler.compiles, 1);
}

TEST_F(QuickKernelTest, ALaunchInPartsIsRefusedAsLongAsThereIsNoCode) {
    OneCache one(options_, std::make_unique<Counting>());
    const auto loaded = one.cache.get({&kernel_, one.compiler.get(), &one.cpu, true});
    const auto entry = reinterpret_cast<ir::PhaseEntry>(loaded->module->entry(loaded->phases[0].symbol));
    std::array<float, 20> in{}, out{};
    void *const buffers[] = {out.data(), in.data()};
    const int64_t args[] = {20, 1};
    const ir::KernelFrame frame{buffers, args, nullptr, nullptr, loaded->module->code()};
    EXPECT_THROW(entry(&frame, 0, 3, nullptr), ir::Failure);
    EXPECT_THROW(entry(&frame, 3, 20, nullptr), ir::Failure);
}

TEST_F(QuickKernelTest, WithoutCodeGoesOnAndSaysSoOnce) {
    OneCache one(options_, std::make_unique<Counting>(true));
    const auto &compiler = static_cast<const Counting &>(*one.compiler);
    const auto loaded = one.cache.get({&kernel_, one.compiler.get(), &one.cpu, true});
    work();
    const QuickKernelPtr quick = codegen::quick_kernel(loaded->module);
    EXPECT_TRUE(quick->is_settled());
    EXPECT_FALSE(quick->is_compiled());
    expect_squares(*loaded);
    EXPECT_EQ(said_, std::vector<std::string>{
                         "kernel square could not be compiled and is interpreted: There is no code today."});
    expect_squares(*one.cache.get({&kernel_, one.compiler.get(), &one.cpu, true}));
    EXPECT_EQ(compiler.compiles, 1);
    try {
        one.cache.get({&kernel_, one.compiler.get(), &one.cpu});
        FAIL() << "there is no code";
    } catch (const ir::Failure &failure) {
        EXPECT_EQ(failure.kind(), ir::ErrorKind::Compile);
        EXPECT_EQ(failure.message(), "There is no code today.");
    }
    EXPECT_EQ(compiler.compiles, 2) << "it was tried again";
}

/// The host's own exceptions, too.
TEST_F(QuickKernelTest, WithoutMemoryForCodeGoesOnAndSaysSo) {
    struct WithoutMemory : Counting {
        ir::CompiledKernel compile(const ir::Kernel &) const override { throw std::bad_alloc(); }
    };
    OneCache one(options_, std::make_unique<WithoutMemory>());
    const auto loaded = one.cache.get({&kernel_, one.compiler.get(), &one.cpu, true});
    work();
    expect_squares(*loaded);
    EXPECT_EQ(said_, std::vector{fmt::format("kernel square could not be compiled and is interpreted: {}",
                                             std::bad_alloc().what())});
    EXPECT_THROW(one.cache.get({&kernel_, one.compiler.get(), &one.cpu}), std::bad_alloc);
}

TEST_F(QuickKernelTest, ThreadsLaunchItWhileAnotherCompilesIt) {
    for (int round = 0; round < 5; ++round) {
        options_.directory.clear();
        OneCache one(options_, std::make_unique<Counting>());
        std::atomic<int> running{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([&] {
                const auto loaded = one.cache.get({&kernel_, one.compiler.get(), &one.cpu, true});
                ++running;
                while (!codegen::quick_kernel(loaded->module)->is_compiled())
                    expect_squares(*loaded);
                expect_squares(*loaded);
            });
        while (running < 3)
            std::this_thread::yield();
        std::thread other([&] { // who cannot wait for the thread beside
            one.cache.get({&kernel_, one.compiler.get(), &one.cpu});
        });
        work();
        other.join();
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(static_cast<const Counting &>(*one.compiler).compiles, 1);
    }
}

TEST_F(QuickKernelTest, OutlivesItsCacheAndIsNotCompiledForNobody) {
    const Counting compiler;
    runtime::CpuBackend cpu(codegen::host_loader(runtime::load_object));
    codegen::CachedKernelPtr loaded;
    {
        codegen::KernelCache cache(options_);
        loaded = cache.get({&kernel_, &compiler, &cpu, true});
    }
    work();
    EXPECT_EQ(compiler.compiles, 1);
    expect_squares(*loaded);
    {
        codegen::KernelCache cache(options_);
        cache.get({&kernel_, &compiler, &cpu, true});
    }
    work();
    EXPECT_EQ(compiler.compiles, 1) << "who asked for it is gone";
}

TEST_F(QuickKernelTest, WithoutAThreadBesideThereIsNone) {
    options_.beside = {};
    OneCache one(options_, std::make_unique<Counting>());
    const auto loaded = one.cache.get({&kernel_, one.compiler.get(), &one.cpu, true});
    EXPECT_FALSE(codegen::quick_kernel(loaded->module));
    EXPECT_EQ(static_cast<const Counting &>(*one.compiler).compiles, 1);
}

/// Products have the order of summation of the ISA, and the interpreter another one.
TEST(QuickKernels, AreNoProducts) {
    ir::Kernel kernel = square();
    EXPECT_TRUE(QuickKernel::can_be(kernel));
    kernel.phases[0].contraction.emplace();
    EXPECT_FALSE(QuickKernel::can_be(kernel));
}

TEST(QuickKernels, AreSmallByWhatTheyCompute) {
    const ir::Kernel kernel = square();
    const auto estimate = [&](int64_t elements) {
        return codegen::interpreted_nanoseconds(kernel, std::array<int64_t, 2>{elements, 1 << 20});
    };
    EXPECT_LT(estimate(0), estimate(1));
    EXPECT_LT(estimate(1), codegen::kMostNanoseconds / 10) << "else nothing is quick";
    EXPECT_LT(estimate(1000), codegen::kMostNanoseconds);
    EXPECT_GT(estimate(1 << 20), codegen::kMostNanoseconds);
    EXPECT_NEAR(estimate(1 << 21) / estimate(1 << 20), 2, 0.1);
}

} // namespace
