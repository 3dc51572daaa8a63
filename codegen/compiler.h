#pragma once
/// The seam between Kernel IR and code: what a code generator is. Three stand behind it: LLVM's for CPUs
/// (cpu.h), NVRTC's for CUDA devices (cuda/compiler.h), and the interpreter of Kernel IR (interpreter.h).

#include "ir/kernel/compiled_kernel.h"
#include "ir/kernel/kernel.h"
#include "ir/math/expand.h"
#include "runtime/api/kernel_source.h"

#include <span>
#include <string>
#include <string_view>

namespace lz::codegen {

struct CompileOptions {
    bool want_text = false;     ///< fill CompiledKernel::text with what is compiled: LLVM IR, CUDA C++
    bool want_assembly = false; ///< fill CompiledKernel::assembly
    /// Products and sums may contract, and functions be Accuracy::Fast (LAZULI_FAST_MATH); else every op
    /// rounds by itself.
    bool fast_math = false;
    bool fast_compile = false; ///< NVRTC leaves out what takes it long, and makes slower code of equal bits
};

/// Makes code of kernels for one code target. May be used from many threads at once.
class Compiler {
public:
    virtual ~Compiler() = default;
    /// Everything but the kernel that the bytes depend on: the code target, options, versions of the compiler
    /// and of Lazuli. Equal keys and equal kernels are equal bytes, so that these may be cached.
    virtual const std::string &key() const = 0;
    /// What `compile` takes best; it takes PhiloxForm::Arithmetic anyway.
    virtual ir::MathForms math_forms() const { return {}; }
    /// Code of a verified kernel without Math instructions (`expand_math` has run, with `math_forms`).
    /// Throws Failure(Compile) for a kernel or a target that it cannot do.
    virtual ir::CompiledKernel compile(const ir::Kernel &kernel) const = 0;
    /// Whether several kernels are made in less time together.
    virtual bool joins() const { return false; }
    /// Code of several such kernels in one piece: the phases of all, one kernel's after another's, with
    /// symbols that differ. Throws Failure(Compile): always where `joins` is false.
    virtual ir::CompiledKernel compile_together(std::span<const ir::Kernel *const> kernels) const;
    /// Code of kernels that were written by hand, a phase for each entry, whose launches are not described.
    /// Throws Failure(Compile): here for every one, since only a compiler for CUDA devices reads CUDA C++.
    virtual ir::CompiledKernel compile_source(const runtime::KernelSource &source) const;
    /// Endings of the names of files that hold CompiledKernel::text and ::assembly.
    struct FileEndings {
        std::string_view text, assembly;
    };
    virtual FileEndings endings() const { return {"ll", "s"}; }
    /// Whether it needs what is gone when the process ends (process_end.h): the interpreter stands in then.
    virtual bool needs_llvm() const { return false; }
};

} // namespace lz::codegen
