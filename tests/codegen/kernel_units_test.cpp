// The kernel cache: kernels that are compiled together.
#include "cache_support.h"
#include "codegen/cache/kernel_cache.h"
#include "ir/kernel/builder.h"
#include "runtime/api/parallel.h"
#include "runtime/cpu/backend.h"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace lz;

class KernelUnits : public test::CacheDirectory {
protected:
    KernelUnits() { runtime::set_num_threads(3); }
};

/// Stores so many more values than it has to.
ir::Kernel kernel_of(int values) {
    ir::KernelBuilder b(fmt::format("k{}", values));
    const ir::AxisId i = b.axis();
    const uint16_t out = b.buffer(ir::DType::F32, ir::BufferMode::Out);
    b.begin_phase({i}, true);
    ir::KValue x = b.constant(ir::DType::F32, 1);
    for (int v = 0; v < values; ++v)
        x = b.add(x, x);
    b.store({out, ir::kNoArg, {{i, ir::StrideClass::Contiguous, ir::kNoArg}}, {}, ir::kNoValue}, x);
    b.end_phase();
    return b.take();
}

/// The code of a kernel is its number of instructions, of a unit those of all.
class Joining final : public codegen::Compiler {
public:
    const std::string &key() const override { return key_; }
    bool joins() const override { return true; }
    ir::CompiledKernel compile(const ir::Kernel &kernel) const override {
        ++alone;
        if (kernel.instrs.size() == refused)
            throw ir::Failure(ir::ErrorKind::Compile, kernel.name + " is not wanted.");
        ir::CompiledKernel made;
        made.phases.push_back({.symbol = "phase0", .threads = static_cast<uint32_t>(kernel.instrs.size())});
        made.object.push_back(static_cast<std::byte>(kernel.instrs.size()));
        return made;
    }
    ir::CompiledKernel compile_together(std::span<const ir::Kernel *const> kernels) const override {
        ++units;
        ir::CompiledKernel all;
        for (size_t k = 0; k < kernels.size(); ++k) {
            ir::CompiledKernel one = compile(*kernels[k]);
            --alone;
            one.phases[0].symbol = fmt::format("kernel{}_phase0", k);
            all.phases.push_back(one.phases[0]);
            all.object.push_back(one.object[0]);
        }
        return all;
    }
    size_t refused = 0;
    mutable std::atomic<int> alone = 0, units = 0;

private:
    const std::string key_ = "joining";
};

struct Loaded final : runtime::Module {
    explicit Loaded(const ir::CompiledKernel &kernel) {
        for (const ir::CompiledPhase &phase : kernel.phases)
            symbols.insert(phase.symbol);
    }
    void *entry(const std::string &symbol) const override {
        const auto found = symbols.find(symbol);
        EXPECT_NE(found, symbols.end()) << symbol;
        return const_cast<std::string *>(&*found);
    }
    std::set<std::string> symbols;
};

/// A cache with one device.
struct Cache {
    explicit Cache(const std::filesystem::path &directory)
        : cpu([this](const ir::CompiledKernel &kernel) {
              const std::lock_guard lock(mutex);
              if (refusals > 0 && kernel.object.size() > 1) {
                  --refusals;
                  throw ir::Failure(ir::ErrorKind::Compile, "The code is damaged.");
              }
              loads.push_back(kernel.object.size());
              return std::make_unique<Loaded>(kernel);
          }),
          cache(options_of(directory)) {}

    static codegen::KernelCacheOptions options_of(const std::filesystem::path &directory) {
        codegen::KernelCacheOptions options;
        options.directory = directory.string();
        return options;
    }
    std::vector<codegen::CachedKernelPtr> get(std::initializer_list<int> values) {
        std::vector<ir::Kernel> kernels;
        for (const int v : values)
            kernels.push_back(kernel_of(v));
        std::vector<codegen::KernelRequest> requests;
        for (const ir::Kernel &kernel : kernels)
            requests.push_back({&kernel, &compiler, &cpu});
        const auto all = cache.get_all(requests);
        for (size_t i = 0; i < all.size(); ++i) {
            EXPECT_EQ(all[i]->phases.size(), 1U);
            EXPECT_EQ(all[i]->phases[0].threads, kernels[i].instrs.size()) << "another kernel's phase";
            EXPECT_NE(all[i]->module->entry(all[i]->phases[0].symbol), nullptr);
        }
        return all;
    }
    Joining compiler;
    std::mutex mutex;
    std::vector<size_t> loads; ///< kernels in each piece of code that was loaded
    int refusals = 0;          ///< the next units that do not load
    runtime::CpuBackend cpu;
    codegen::KernelCache cache;
};

TEST_F(KernelUnits, WhatIsMissingIsAsManyUnitsAsThereAreThreads) {
    Cache all("");
    all.get({1, 2, 3, 4, 5, 6, 7, 8, 2});
    EXPECT_EQ(all.compiler.units, 3);
    EXPECT_EQ(all.compiler.alone, 0);
    EXPECT_EQ(all.loads.size(), 3U);
    EXPECT_EQ(all.cache.stats().compiled, 8);
    EXPECT_EQ(all.cache.stats().from_memory, 1) << "the one that was asked for twice";
    // Fewer than threads, and one that is there: each by itself.
    all.get({3, 20, 21});
    EXPECT_EQ(all.compiler.units, 3);
    EXPECT_EQ(all.compiler.alone, 2);
}

TEST_F(KernelUnits, AUnitOnDiskIsLoadedOnceForAllOfItsKernels) {
    { // two units of three and one of two
        Cache first(directory_);
        first.get({1, 2, 3, 4, 5, 6, 7, 8});
    }
    Cache again(directory_);
    const auto some = again.get({4, 7});
    again.get({1, 2, 3, 5, 6, 8});
    EXPECT_EQ(again.compiler.units, 0);
    EXPECT_EQ(again.cache.stats().from_disk, 8);
    EXPECT_LE(again.loads.size(), 5U);
    EXPECT_EQ(again.cache.stats().compiled, 0);
}

TEST_F(KernelUnits, AUnitThatIsGoneIsMadeAgain) {
    {
        Cache first(directory_);
        first.get({1, 2, 3, 4, 5, 6, 7, 8});
    }
    uintmax_t largest = 0;
    for (const auto &file : std::filesystem::directory_iterator(directory_))
        largest = std::max(largest, file.file_size());
    std::vector<std::filesystem::path> units; // what holds several phases is larger
    for (const auto &file : std::filesystem::directory_iterator(directory_))
        if (file.file_size() > largest * 3 / 4)
            units.push_back(file.path());
    for (const auto &unit : units)
        std::filesystem::remove(unit);
    Cache again(directory_);
    again.get({1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT_GT(again.cache.stats().compiled, 0);
    EXPECT_EQ(again.cache.stats().compiled + again.cache.stats().from_disk, 8);
}

/// The unit fails, and then the one kernel whose fault that was.
TEST_F(KernelUnits, AUnitOnDiskThatDoesNotLoadIsMadeAgainAndKept) {
    {
        Cache first(directory_);
        first.get({1, 2, 3, 4, 5, 6, 7, 8});
    }
    {
        Cache again(directory_);
        again.refusals = 8; // each kernel asks for its unit
        again.get({1, 2, 3, 4, 5, 6, 7, 8});
        EXPECT_EQ(again.refusals, 0);
        EXPECT_EQ(again.cache.stats().from_disk, 0);
        EXPECT_EQ(again.cache.stats().compiled, 8);
        EXPECT_EQ(again.compiler.units, 3);
    }
    Cache then(directory_);
    then.get({1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT_EQ(then.cache.stats().from_disk, 8);
    EXPECT_EQ(then.compiler.units, 0);
}

TEST_F(KernelUnits, AKernelThatFailsIsToldByItsPlaceAndTheOthersAreThere) {
    Cache all("");
    all.compiler.refused = kernel_of(5).instrs.size();
    const std::vector<ir::Kernel> kernels = {kernel_of(1), kernel_of(2), kernel_of(3), kernel_of(4),
                                             kernel_of(5), kernel_of(6), kernel_of(7)};
    std::vector<codegen::KernelRequest> requests;
    for (const ir::Kernel &kernel : kernels)
        requests.push_back({&kernel, &all.compiler, &all.cpu});
    try {
        all.cache.get_all(requests);
        FAIL() << "it was made";
    } catch (const codegen::KernelFailure &failure) {
        EXPECT_EQ(failure.request(), 4U);
        EXPECT_EQ(failure.message(), "k5 is not wanted.");
    }
    EXPECT_EQ(all.cache.stats().compiled, 6);
    EXPECT_EQ(all.cache.size(), 6U);
}

/// A kernel that nobody holds is forgotten, whoever holds another of its unit.
TEST_F(KernelUnits, KernelsOfAUnitAreForgottenOneByOne) {
    Cache all("");
    const auto held = all.get({1, 2, 3, 4, 5, 6})[0];
    EXPECT_EQ(held->module.use_count(), 1);
}

} // namespace
