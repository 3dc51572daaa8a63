#pragma once
/// What passes know of the functions that a device kind has for operations that are library calls: their
/// names, and the scratch that they need. The functions are the runtime's (runtime/api/library.h).

#include <cstdint>
#include <span>
#include <string_view>

namespace lz::ir {

struct DeviceInfo; // ir/target.h

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
