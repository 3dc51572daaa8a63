#pragma once
/// lz-opt --to=kernel|llvm|asm|cuda|ptx|stats: what each kernel of a Program becomes.

#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/target.h"

#include <string_view>

namespace lz::tools {

struct KernelForm {
    std::string_view form; ///< of --to
    int sm = 0;            ///< of CUDA devices: 90 for sm_90
    /// cuda, ptx: of the kernels for launches whose addresses are not aligned; stats has both.
    bool unaligned = false;
    bool locations = true; ///< of Kernel IR
    /// What the Program was made of, where lines of the user's are wanted.
    const ir::Graph *lines_of = nullptr;
};

/// Prints all kernels to standard output. Above each stand its operations and their lines, as in LAZULI_DUMP.
/// Throws Failure(Compile) where what makes the form is missing.
void print_kernels(const ir::Program &program, const ir::Target &target, const KernelForm &form);

} // namespace lz::tools
