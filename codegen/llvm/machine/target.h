#pragma once
/// The module of a Builder to object code, for an ISA given by feature bits.

#include "codegen/llvm/builder.h"
#include "ir/target.h"

#include <cstddef>
#include <string>
#include <vector>

namespace lz::codegen {

/// Consumes the builder's module. In sanitizer builds the module is instrumented first. Throws
/// Failure(Internal) with LLVM's diagnosis and the module when the module is malformed (checked in debug and
/// sanitizer builds), and Failure(Compile) when LLVM cannot generate code for the ISA.
std::vector<std::byte> make_object(Builder &builder, const ir::CpuIsa &isa);

std::string module_text(Builder &builder);
/// Assembly of the module; leaves it as it is.
std::string module_assembly(Builder &builder, const ir::CpuIsa &isa);

/// The ISA of this machine, as LLVM sees it.
ir::CpuIsa isa_by_llvm();

} // namespace lz::codegen
