#pragma once
/// What an entry of the kernel cache is on disk. For this folder alone.

#include "ir/kernel/compiled_kernel.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lz::codegen {

/// A kernel with code of its own, or as a part of a unit: code of several kernels, an entry by itself.
struct StoredKernel {
    ir::CompiledKernel kernel; ///< of a part: without code
    std::string unit;          ///< the key of that entry; empty: there is none
};

/// The format, the phases with their launch rules, and the bytes (or the unit that has them).
std::vector<std::byte> serialise(const ir::CompiledKernel &kernel, std::string_view unit = {});
/// The checksum has been compared: the layout is ours.
StoredKernel deserialise(std::span<const std::byte> bytes, const std::string &name);

} // namespace lz::codegen
