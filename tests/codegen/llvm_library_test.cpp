// What is known of LLVM without opening it, and how it is opened.
#include "codegen/cpu.h"
#include "codegen/host.h"
#include "codegen/llvm_library.h"
#include "codegen/x86_features.h"
#include "ir/diagnostic.h"
#include "tests/support/kernel_run.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace lz::test {
namespace {

using namespace ir;

Launch doubled() {
    return elementwise({DType::F32}, 100, 64,
                       [](KernelBuilder &b, auto &x) { return b.mul(x[0], b.constant(DType::F32, 2)); });
}

#if defined(__x86_64__) && LAZULI_CPU_JIT
TEST(HostIsa, IsWhatLlvmSees) {
    const CpuIsa ours = codegen::host_isa(), llvms = codegen::llvm_library().host_isa();
    EXPECT_EQ(ours.vector_bytes, llvms.vector_bytes);
    EXPECT_EQ(ours.vector_registers, llvms.vector_registers);
    EXPECT_EQ(ours.fma, llvms.fma);
    EXPECT_EQ(ours.avx512, llvms.avx512);
    EXPECT_EQ(ours.avx512_bf16, llvms.avx512_bf16);
    EXPECT_EQ(ours.amx_bf16, llvms.amx_bf16);
    EXPECT_EQ(ours.avx512_vnni, llvms.avx512_vnni);
    EXPECT_EQ(ours.amx_int8, llvms.amx_int8);
    const auto says = [](const CpuIsa &isa, const std::string &sign, std::string_view name) {
        return ("," + isa.features + ",").find("," + sign + std::string(name) + ",") != std::string::npos;
    };
    for (const std::string_view name : codegen::known_x86_features()) {
        EXPECT_TRUE(says(llvms, "+", name) || says(llvms, "-", name)) << "LLVM does not know " << name;
        EXPECT_EQ(says(ours, "+", name), says(llvms, "+", name)) << name;
    }
    EXPECT_TRUE(says(ours, "+", "sse2")) << ours.features;
}
#endif

TEST(LlvmLibraryDeathTest, OneThatIsNotThereIsATypedErrorThatSaysWhatToDo) {
    if (!codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no LLVM";
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // a process that has not opened it
    for (const char *const wrong : {"/nowhere/liblazuli-llvm.so", "/proc/self/exe", "libc.so.6"}) {
        ::setenv("LAZULI_LLVM_LIBRARY", wrong, 1); // the child has it, too
        EXPECT_EXIT(
            {
                try {
                    codegen::compile_cpu(doubled().kernel, codegen::host_isa());
                } catch (const Failure &failure) {
                    std::cerr << failure.message();
                    std::exit(failure.kind() == ErrorKind::Compile ? 0 : 2);
                }
                std::exit(1);
            },
            testing::ExitedWithCode(0), "Code for the CPU cannot be made.*LAZULI_LLVM_LIBRARY")
            << wrong;
    }
    ::unsetenv("LAZULI_LLVM_LIBRARY");
}

TEST(Loader, OfLlvmAndOfTheRuntimeLoadTheSameCode) {
    if (!codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no LLVM";
    const Launch l = doubled();
    const CompiledKernel compiled = codegen::compile_cpu(l.kernel, codegen::host_isa());
    const auto module = codegen::cpu_loader()(compiled);
    Outcome o = prepare(l, 1, false);
    with_frame(l, o, [&](const KernelFrame &f, void *worker) {
        reinterpret_cast<PhaseEntry>(module->entry("phase0"))(&f, 0, 2, worker);
    });
    EXPECT_EQ(difference(l, run_interpreted(l, 1, false), o), "");
}

} // namespace
} // namespace lz::test
