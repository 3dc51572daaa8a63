#pragma once
/// What tests of the caches share.

#include "codegen/cache/kernel_cache.h"
#include "codegen/cpu.h"
#include "codegen/host.h"
#include "ir/kernel/builder.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/object.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>

namespace lz::test {

/// A directory of the test's own, gone with it. It is not made yet.
class CacheDirectory : public testing::Test {
protected:
    CacheDirectory()
        : directory_(std::filesystem::temp_directory_path() /
                     ("lazuli-cache-" + std::to_string(::getpid()) + "-" +
                      testing::UnitTest::GetInstance()->current_test_info()->name())) {
        std::filesystem::remove_all(directory_);
    }
    ~CacheDirectory() override { std::filesystem::remove_all(directory_); }

    std::filesystem::path directory_;
};

/// out = in to the power of `products` + 1.
inline ir::Kernel square(int products = 1) {
    ir::KernelBuilder b("square");
    const ir::AxisId i = b.axis();
    const uint16_t out = b.buffer(ir::DType::F32, ir::BufferMode::Out);
    const uint16_t in = b.buffer(ir::DType::F32, ir::BufferMode::In);
    ir::Phase &phase = b.begin_phase({i}, true);
    phase.on_cpu().block = b.arg(ir::ArgRole::Block);
    const auto access = [&](uint16_t buffer) {
        ir::Access a;
        a.buffer = buffer;
        a.strides = {{i, ir::StrideClass::Contiguous, ir::kNoArg}};
        return a;
    };
    const ir::KValue x = b.load(access(in));
    ir::KValue power = x;
    for (int i = 0; i < products; ++i)
        power = b.mul(power, x);
    b.store(access(out), power);
    b.end_phase();
    return b.take();
}

/// A cache with one compiler and one device to load for.
struct OneCache {
    explicit OneCache(
        codegen::KernelCacheOptions options,
        std::unique_ptr<codegen::Compiler> with = codegen::make_llvm_compiler(codegen::host_isa()),
        runtime::ModuleLoader loader = codegen::host_loader(runtime::load_object))
        : compiler(std::move(with)), cpu(std::move(loader)), cache(std::move(options)) {}
    codegen::CachedKernelPtr get(const ir::Kernel &kernel) {
        return cache.get({&kernel, compiler.get(), &cpu});
    }
    std::unique_ptr<codegen::Compiler> compiler;
    runtime::CpuBackend cpu;
    codegen::KernelCache cache;
};

/// The squares of 0 to 19, by code of `square`.
inline void expect_squares(const codegen::CachedKernel &loaded) {
    const auto entry = reinterpret_cast<ir::PhaseEntry>(loaded.module->entry(loaded.phases[0].symbol));
    alignas(64) float in[20], out[20];
    for (int i = 0; i < 20; ++i)
        in[i] = static_cast<float>(i);
    void *const buffers[] = {out, in};
    const int64_t args[] = {20, 20};
    ir::Fault fault;
    const ir::KernelFrame frame{buffers, args, nullptr, &fault, loaded.module->code()};
    entry(&frame, 0, 1, nullptr);
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(out[i], static_cast<float>(i * i));
}

} // namespace lz::test
