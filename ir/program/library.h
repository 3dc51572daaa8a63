#pragma once
/// What passes know of the functions that a device kind has for operations that are library calls: their
/// names, and the scratch that they need. The functions are the runtime's (runtime/api/library.h).

#include <cstdint>
#include <span>
#include <string_view>

namespace lz::ir {

struct DeviceInfo; // ir/target.h

/// Running sums and products of floats have one order on every device: a line is chunks of so many elements.
/// Within one, elements are folded first to last; results of whole chunks are scanned by the same rule; and
/// what that makes of those before is folded with each of a chunk's running values.
inline constexpr int64_t kScanChunk = 1024;

struct LibraryRule {
    std::string_view symbol;
    /// Bytes of scratch for a call with these integers on this device; 0 or more. Integers that only the run
    /// knows are 0 here. Null: it needs none.
    int64_t (*scratch_bytes)(std::span<const int64_t> ints, const DeviceInfo &device);
};

/// The library of one device kind.
struct LibraryRules {
    std::string_view kind; ///< for messages and keys: `cpu`
    /// Null for a function that is not there.
    const LibraryRule *(*find)(std::string_view symbol);
};

} // namespace lz::ir
