#include "codegen/cpu.h"
#include "codegen/host.h"

#if !LAZULI_CPU_JIT

#include "ir/diagnostic.h"

namespace lz::codegen {

namespace {

[[noreturn]] void fail(const std::string &kernel) {
    throw ir::Failure(ir::ErrorKind::Compile,
                      "Kernel " + kernel +
                          " cannot be compiled: this Lazuli was built without LLVM "
                          "(LAZULI_CPU_JIT=OFF); the CPU runs the interpreter instead.");
}

} // namespace

ir::CompiledKernel compile_cpu(const ir::Kernel &kernel, const ir::CpuIsa &, const CompileOptions &, bool) {
    fail(kernel.name);
}

std::unique_ptr<Compiler> make_llvm_compiler(ir::CpuIsa, CompileOptions) {
    fail("of LLVM");
}

runtime::ModuleLoader cpu_loader() {
    return [](const ir::CompiledKernel &kernel) -> std::unique_ptr<runtime::Module> { fail(kernel.name); };
}

ir::CpuIsa host_isa() {
    return {};
}

ir::CpuIsa isa_of(ir::IsaLevel) {
    fail("of a level");
}

std::string compiler_version() {
    return "no jit";
}

bool cpu_jit_available() {
    return false;
}

} // namespace lz::codegen

#endif
