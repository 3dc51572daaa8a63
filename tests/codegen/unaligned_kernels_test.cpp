// Code for launches whose addresses are not aligned: it comes through the same caches, when it is asked for.

#include "cache_support.h"

#include "ir/diagnostic.h"
#include "runtime/api/unaligned_kernel.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace lz::test {
namespace {

struct Loaded final : runtime::Module {
    explicit Loaded(std::string name) : symbol(std::move(name)) {}
    void *entry(const std::string &wanted) const override {
        EXPECT_EQ(wanted, symbol);
        return const_cast<std::string *>(&symbol);
    }
    std::string symbol;
};

/// As that for CUDA devices.
class Aligning final : public codegen::Compiler {
public:
    const std::string &key() const override { return key_; }
    ir::CompiledKernel compile(const ir::Kernel &kernel) const override {
        ++count;
        const bool aligned = kernel.phases[0].cuda().aligned;
        if (!aligned && refusals > 0) {
            --refusals;
            throw ir::Failure(ir::ErrorKind::Compile, "No.");
        }
        ir::CompiledKernel made;
        made.name = kernel.name;
        made.format = ir::CodeFormat::Cubin;
        made.object = {std::byte{1}};
        made.phases.push_back({.symbol = aligned ? "phase0" : "phase0_unaligned"});
        if (aligned)
            made.phases[0].alignments = {{ir::LaunchAlignment::Buffer, 1, 0}};
        return made;
    }
    static inline std::atomic<int> count = 0, refusals = 0;

private:
    const std::string key_ = "aligning";
};

class UnalignedKernels : public CacheDirectory {
protected:
    UnalignedKernels() { Aligning::count = Aligning::refusals = 0; }
    codegen::KernelCacheOptions options() const {
        codegen::KernelCacheOptions options;
        options.directory = directory_.string();
        return options;
    }
    static std::unique_ptr<OneCache> open(codegen::KernelCacheOptions options) {
        return std::make_unique<OneCache>(std::move(options), std::make_unique<Aligning>(),
                                          [](const ir::CompiledKernel &kernel) {
                                              return std::make_unique<Loaded>(kernel.phases[0].symbol);
                                          });
    }
    static std::string entry_of(const runtime::LoadedKernel &kernel) {
        return *static_cast<const std::string *>(kernel.unaligned->entry(0));
    }
};

TEST_F(UnalignedKernels, AreCompiledWhenTheyAreAskedForAndOnce) {
    const auto one = open(options());
    const auto loaded = one->get(square());
    ASSERT_TRUE(loaded->unaligned);
    EXPECT_EQ(one->cache.stats().compiled, 1) << "nobody asked";
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] { EXPECT_EQ(entry_of(*loaded), "phase0_unaligned"); });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(one->cache.stats().compiled, 2);
    EXPECT_EQ(one->cache.stats().from_memory, 0);
    EXPECT_EQ(one->get(square()), loaded);
    EXPECT_EQ(Aligning::count, 2);
}

TEST_F(UnalignedKernels, ComeFromDiskInTheNextProcess) {
    entry_of(*open(options())->get(square()));
    const auto again = open(options());
    const auto loaded = again->get(square());
    EXPECT_EQ(again->cache.stats().from_disk, 1);
    EXPECT_EQ(entry_of(*loaded), "phase0_unaligned");
    EXPECT_EQ(again->cache.stats().from_disk, 2);
    EXPECT_EQ(again->cache.stats().compiled, 0);
    EXPECT_EQ(Aligning::count, 2) << "all by the first";
}

TEST_F(UnalignedKernels, ThatFailAreAskedForAgain) {
    const auto one = open(options());
    const auto loaded = one->get(square());
    Aligning::refusals = 2;
    for (int turn = 0; turn < 2; ++turn)
        try {
            entry_of(*loaded);
            FAIL() << "it was made";
        } catch (const ir::Failure &failure) {
            EXPECT_EQ(failure.kind(), ir::ErrorKind::Compile);
            EXPECT_NE(failure.message().find("addresses that are no multiples of 16 bytes"),
                      std::string::npos);
        }
    EXPECT_EQ(entry_of(*loaded), "phase0_unaligned");
}

TEST_F(UnalignedKernels, AreMadeWithoutTheCacheWhereItIsGone) {
    const Aligning compiler;
    runtime::CpuBackend cpu(
        [](const ir::CompiledKernel &kernel) { return std::make_unique<Loaded>(kernel.phases[0].symbol); });
    const ir::Kernel kernel = square();
    const auto loaded = codegen::KernelCache(options()).get({&kernel, &compiler, &cpu});
    EXPECT_EQ(entry_of(*loaded), "phase0_unaligned");
}

} // namespace
} // namespace lz::test
