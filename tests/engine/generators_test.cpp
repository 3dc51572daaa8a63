// Kernels of one Program may be made by several code generators.
#include "codegen/cache/kernel_cache.h"
#include "codegen/cpu.h"
#include "codegen/host.h"
#include "codegen/interpreter.h"
#include "frontend/engine/engine.h"
#include "ir/interpreter/interpreter.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "runtime/allocator/caching_allocator.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/object.h"
#include "runtime/executor/executor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace {

using namespace lz;

/// Integers, so that sums are exact and the interpreter of graphs is an oracle to the bit.
constexpr const char *kSumThenScale = R"(lazuli 1
graph @main(%x: i32[300,300] @cpu = random(1)) {
  %0 = sum %x {axes=[0,1]} : i32[] @cpu
  %1 = broadcast %0 : i32[300,300] @cpu
  %2 = mul %x, %1 : i32[300,300] @cpu
  return %2
})";

TEST(Generators, OneProgramHasKernelsOfTheInterpreterAndOfLlvm) {
    if (!codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no CPU code generation, so no second code generator";
    const ir::Graph graph = ir::parse_graph(kSumThenScale);
    const ir::Program program = passes::compile(graph, engine::Engine::get().target()).program;
    const ir::HostTensor input = ir::materialize_param(graph, graph.params[0]);
    const ir::HostTensor expected = ir::interpret(graph, std::span(&input, 1))[0];

    const auto llvm = codegen::make_llvm_compiler(codegen::host_isa());
    const auto interpreter = codegen::make_interpreter();
    for (const size_t interpreted : {0, 1}) {
        runtime::CpuBackend cpu(codegen::host_loader(runtime::load_object));
        runtime::CachingAllocator memory(cpu);
        codegen::KernelCache cache({});
        std::vector<runtime::ProgramKernel> kernels = runtime::kernels_of(program);
        ASSERT_GE(kernels.size(), 2U) << "a sum and what is done with it";
        for (size_t k = 0; k < kernels.size(); ++k) {
            const codegen::Compiler &compiler = k % 2 == interpreted ? *interpreter : *llvm;
            kernels[k].code = *cache.get({&program.kernels[kernels[k].kernel], &compiler, &cpu});
        }
        const runtime::LoadedProgram loaded(program, std::move(kernels), {{&cpu, &memory}});
        void *const in = memory.allocate(input.bytes.size(), ir::kDefaultStream);
        void *const out = memory.allocate(expected.bytes.size(), ir::kDefaultStream);
        std::memcpy(in, input.bytes.data(), input.bytes.size());
        EXPECT_TRUE(runtime::run(loaded, {std::span(&in, 1), std::span(&out, 1), {}}).report.ok());
        EXPECT_EQ(std::memcmp(out, expected.bytes.data(), expected.bytes.size()), 0) << interpreted;
        memory.free(in);
        memory.free(out);
    }
}

} // namespace
