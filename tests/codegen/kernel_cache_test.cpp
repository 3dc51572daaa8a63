// The kernel cache: one compile a kernel, in memory and from disk.
#include "cache_support.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/cpu.h"
#include "codegen/emitter_id.h"
#include "codegen/host.h"
#include "codegen/interpreter.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/object.h"
#include "runtime/virtual/backend.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

class KernelCacheTest : public lz::test::CacheDirectory {};

using lz::test::expect_squares;
using lz::test::OneCache;
using lz::test::square;

/// Else a kernel that an older emitter left on disk would be run for ever.
TEST_F(KernelCacheTest, KeysHoldWhichEmitterItWas) {
    const std::string id(lz::codegen::emitter_id());
    EXPECT_EQ(id.size(), 16U);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
    EXPECT_NE(lz::codegen::make_interpreter()->key().find(id), std::string::npos);
    if (lz::codegen::cpu_jit_available()) {
        EXPECT_NE(lz::codegen::compiler_version().find(id), std::string::npos);
    }
}

/// That code is not loaded because the process was forked, or the device is lost, says nothing of its file.
TEST_F(KernelCacheTest, WhatIsWrongWithTheDeviceIsNotHeldAgainstAFile) {
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation";
    using lz::ir::ErrorKind;
    lz::codegen::KernelCacheOptions options;
    options.directory = directory_.string();
    std::vector<std::string> said;
    options.log = [&](const std::string &what) { said.push_back(what); };
    const lz::ir::Kernel kernel = square();
    OneCache(options).get(kernel);
    for (const ErrorKind kind :
         {ErrorKind::State, ErrorKind::Cuda, ErrorKind::OutOfMemory, ErrorKind::Compile}) {
        said.clear();
        int loads = 0;
        OneCache again(options, lz::codegen::make_llvm_compiler(lz::codegen::host_isa()),
                       [&](const lz::ir::CompiledKernel &code) {
                           if (++loads == 1)
                               throw lz::ir::Failure(kind, "it does not load");
                           return lz::codegen::host_loader(lz::runtime::load_object)(code);
                       });
        if (kind == ErrorKind::Compile) { // as of a file that is damaged: made again, and said
            expect_squares(*again.get(kernel));
            EXPECT_EQ(said.size(), 1u);
            EXPECT_EQ(again.cache.stats().compiled, 1);
            continue;
        }
        try {
            again.get(kernel);
            ADD_FAILURE() << "nothing was thrown";
        } catch (const lz::ir::Failure &failure) {
            EXPECT_EQ(failure.kind(), kind);
        }
        EXPECT_TRUE(said.empty());
        EXPECT_EQ(again.cache.stats().compiled, 0);
        expect_squares(*again.get(kernel)); // from the file
        EXPECT_EQ(again.cache.stats().from_disk, 1);
    }
}

TEST_F(KernelCacheTest, AKernelIsCompiledOnceAndThenComesFromMemoryAndFromDisk) {
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation";
    lz::codegen::KernelCacheOptions options;
    options.directory = directory_.string();
    const lz::ir::Kernel kernel = square();
    {
        OneCache one(options);
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] { EXPECT_TRUE(one.get(kernel)); });
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(one.cache.stats().compiled, 1);
        EXPECT_EQ(one.cache.stats().from_memory, 3);
    }
    OneCache one(options);
    const lz::codegen::CachedKernelPtr loaded = one.get(kernel);
    EXPECT_EQ(one.cache.stats().compiled, 0);
    EXPECT_EQ(one.cache.stats().from_disk, 1);
    expect_squares(*loaded);

    // Another version of compiler or ISA is another key: nothing of the first is used.
    lz::ir::CpuIsa other = lz::codegen::host_isa();
    other.vector_bytes = 16;
    other.features += ",-avx512vp2intersect";
    OneCache skewed(options, lz::codegen::make_llvm_compiler(other));
    skewed.get(kernel);
    EXPECT_EQ(skewed.cache.stats().compiled, 1);
}

TEST_F(KernelCacheTest, TwoCodeGeneratorsHaveEntriesOfTheirOwnInOneCache) {
    lz::codegen::KernelCacheOptions options;
    options.directory = directory_.string();
    const lz::ir::Kernel kernel = square();
    const std::unique_ptr<lz::codegen::Compiler> interpreter = lz::codegen::make_interpreter();
    {
        OneCache one(options, lz::codegen::make_interpreter());
        expect_squares(*one.get(kernel));
        EXPECT_EQ(one.cache.stats().compiled, 1);
    }
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation, so no second code generator";
    OneCache one(options);
    const lz::codegen::CachedKernelPtr compiled = one.get(kernel);
    const lz::codegen::CachedKernelPtr interpreted = one.cache.get({&kernel, interpreter.get(), &one.cpu});
    EXPECT_NE(compiled->module, interpreted->module);
    EXPECT_EQ(one.cache.stats().compiled, 1);
    EXPECT_EQ(one.cache.stats().from_disk, 1) << "as any other entry";
    expect_squares(*compiled);
    expect_squares(*interpreted);
    EXPECT_EQ(one.cache.get({&kernel, interpreter.get(), &one.cpu}), interpreted);
}

/// Makes no code, and has rules for its launch.
class RuledCompiler final : public lz::codegen::Compiler {
public:
    const std::string &key() const override { return key_; }
    lz::ir::CompiledKernel compile(const lz::ir::Kernel &kernel) const override {
        lz::ir::CompiledKernel compiled;
        compiled.name = kernel.name;
        compiled.format = lz::ir::CodeFormat::Cubin;
        compiled.object.assign(5, std::byte{7});
        compiled.phases = {rules(), lz::ir::CompiledPhase{.symbol = "\n"}};
        return compiled;
    }
    static lz::ir::CompiledPhase rules() {
        using lz::ir::LaunchParameter, lz::ir::LaunchAlignment;
        return {.symbol = "phase0",
                .alignments = {{LaunchAlignment::Arg, 2, 300}, {LaunchAlignment::Buffer, 1, 1}},
                .parameters = {{LaunchParameter::Items, 4, 2, 70000}},
                .record_bytes = 40,
                .table_bytes = 4000,
                .threads = 1024,
                .shared_bytes = 200000,
                .most_blocks = 264};
    }

private:
    const std::string key_ = "rules";
};

TEST_F(KernelCacheTest, RulesOfALaunchComeFromDiskAsTheyWereStored) {
    lz::codegen::KernelCacheOptions options;
    options.directory = directory_.string();
    for (const int from_disk : {0, 1}) {
        lz::ir::CompiledKernel seen;
        OneCache one(options, std::make_unique<RuledCompiler>(), [&](const lz::ir::CompiledKernel &kernel) {
            seen = kernel;
            return lz::codegen::load_interpreted(lz::codegen::make_interpreter()->compile(square()));
        });
        const lz::codegen::CachedKernelPtr loaded = one.get(square());
        EXPECT_EQ(one.cache.stats().from_disk, from_disk);
        ASSERT_EQ(loaded->phases.size(), 2U);
        EXPECT_EQ(loaded->phases[0], RuledCompiler::rules());
        EXPECT_EQ(loaded->phases[1], lz::ir::CompiledPhase{.symbol = "\n"});
        EXPECT_EQ(seen.format, lz::ir::CodeFormat::Cubin);
        EXPECT_EQ(seen.object, std::vector<std::byte>(5, std::byte{7}));
    }
}

TEST_F(KernelCacheTest, WhatIsLoadedForOneKindOfDeviceIsNotGivenToAnother) {
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation";
    lz::runtime::VirtualOptions two;
    two.count = 2;
    const auto gpus = lz::runtime::make_virtual_gpus(two, lz::codegen::host_loader(lz::runtime::load_object));
    lz::codegen::KernelCacheOptions options;
    options.directory = directory_.string();
    OneCache one(options);
    const lz::ir::Kernel kernel = square();
    const lz::codegen::CachedKernelPtr cpu = one.get(kernel);
    const lz::codegen::CachedKernelPtr gpu = one.cache.get({&kernel, one.compiler.get(), gpus[0].get()});
    EXPECT_NE(cpu->module, gpu->module);
    EXPECT_EQ(one.cache.get({&kernel, one.compiler.get(), gpus[1].get()}), gpu);
    EXPECT_EQ(one.cache.stats().compiled, 1) << "the code is the same";
}

TEST_F(KernelCacheTest, KernelsInMemoryAreBoundedAndThoseInUseStay) {
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation";
    static std::atomic<int> loaded;
    loaded = 0;
    struct Counted final : lz::runtime::Module {
        explicit Counted(std::unique_ptr<Module> real) : module(std::move(real)) { ++loaded; }
        ~Counted() override { --loaded; }
        void *entry(const std::string &symbol) const override { return module->entry(symbol); }
        std::unique_ptr<Module> module;
    };
    lz::codegen::KernelCacheOptions options;
    options.max_in_memory = 8;
    OneCache cache(options, lz::codegen::make_llvm_compiler(lz::codegen::host_isa()),
                   [](const lz::ir::CompiledKernel &kernel) -> std::unique_ptr<lz::runtime::Module> {
                       return std::make_unique<Counted>(lz::codegen::cpu_loader()(kernel));
                   });
    // What a Program holds: of one the module alone.
    const lz::codegen::CachedKernelPtr held = cache.get(square(1));
    const std::shared_ptr<const lz::runtime::Module> module = cache.get(square(2))->module;
    for (int i = 3; i < 30; ++i) {
        cache.get(square(i));
        cache.get(square(5)); // used at every step
        EXPECT_LE(cache.cache.size(), 9u);
    }
    EXPECT_EQ(loaded, static_cast<int>(cache.cache.size())) << "the code of what is forgotten is unloaded";
    const auto compiled = [&](int products) {
        cache.cache.reset_stats();
        cache.get(square(products));
        return cache.cache.stats().compiled;
    };
    EXPECT_EQ(cache.get(square(1)), held);
    EXPECT_EQ(cache.get(square(2))->module, module);
    EXPECT_EQ(compiled(29), 0);
    EXPECT_EQ(compiled(5), 0) << "used last";
    EXPECT_EQ(compiled(3), 1) << "unused for longest";
    // More in use than the limit: none is forgotten, and none is looked for in vain each time.
    std::vector<lz::codegen::CachedKernelPtr> all;
    for (int i = 30; i < 60; ++i)
        all.push_back(cache.get(square(i)));
    for (int i = 30; i < 60; ++i)
        EXPECT_EQ(compiled(i), 0) << i;
    all.clear();
    for (int i = 60; i < 100; ++i)
        cache.get(square(i));
    EXPECT_LE(cache.cache.size(), 50u);
}

TEST_F(KernelCacheTest, AKernelThatCannotBeLoadedIsToldByItsPlaceAndByTheNameThatWasGiven) {
    if (!lz::codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation";
    std::vector<lz::ir::Kernel> kernels = {square(), square()};
    kernels[1].buffers[0].dtype = kernels[1].buffers[1].dtype = lz::ir::DType::F64;
    for (lz::ir::Instr &instr : kernels[1].instrs)
        instr.dtype = lz::ir::DType::F64;
    lz::codegen::KernelCacheOptions options;
    OneCache one(options, lz::codegen::make_llvm_compiler(lz::codegen::host_isa()),
                 [](const lz::ir::CompiledKernel &kernel) -> std::unique_ptr<lz::runtime::Module> {
                     if (kernel.name == "the first")
                         return lz::codegen::cpu_loader()(kernel);
                     throw lz::ir::Failure(lz::ir::ErrorKind::Compile, kernel.name + " is not wanted.");
                 });
    const lz::codegen::KernelRequest requests[] = {{&kernels[0], one.compiler.get(), &one.cpu},
                                                   {&kernels[1], one.compiler.get(), &one.cpu}};
    try {
        one.cache.get_all(requests, [](size_t r) { return r == 0 ? "the first" : "the second"; });
        FAIL() << "it was loaded";
    } catch (const lz::codegen::KernelFailure &failure) {
        EXPECT_EQ(failure.request(), 1u);
        EXPECT_EQ(failure.message(), "the second is not wanted.");
    }
    EXPECT_TRUE(one.cache.get_all(std::span(requests).first(1)).at(0)) << "the other one is there";
}

} // namespace
