#pragma once
/// Operations that are library calls and not generated kernels. A step of kind Library names one by its
/// symbol.

#include "ir/kernel/compiled_kernel.h"
#include "ir/program/library.h"
#include "ir/stream.h"
#include "ir/types/dtype.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace lz::runtime {

struct LibraryArgs {
    std::span<void *const> buffers;
    std::span<const int64_t> ints;
    ir::Fault *fault;
    /// As many bytes as the function's rule asked for when the Program was compiled, of the device's memory,
    /// 64-byte aligned; what is in it is not known. Functions allocate nothing.
    std::span<std::byte> scratch = {};
    /// In whose order the call stands. A function of the host is done when it returns; one that has a driver
    /// puts its work on `driver_stream`.
    ir::StreamRef stream = {};
    void *driver_stream = nullptr; ///< as the device's driver knows it; null on the host
};

/// A function, or nothing.
class LibraryFn {
public:
    using Plain = void (*)(const LibraryArgs &);
    using Bound = void (*)(const void *self, const LibraryArgs &);
    LibraryFn(std::nullptr_t = nullptr) {} // NOLINT: stands for a pointer
    template <class F>
        requires(std::is_convertible_v<F, Plain> && !std::is_same_v<F, std::nullptr_t>)
    LibraryFn(F plain) : plain_(plain) {}                                    // NOLINT: likewise
    LibraryFn(Bound bound, const void *self) : bound_(bound), self_(self) {} ///< `self` stays

    /// The same function, which wants its buffers in the host's memory. A backend of other memory brings
    /// them there and back (Backend::Call::uses).
    LibraryFn on_host() const {
        LibraryFn fn = *this;
        fn.on_host_ = true;
        return fn;
    }
    bool is_on_host() const { return on_host_; }

    /// The same function, of which is said: equal arguments put equal work on the stream, and nothing else
    /// comes of a call. So a backend may put what one call put there again, instead of calling.
    LibraryFn repeatable() const {
        LibraryFn fn = *this;
        fn.repeatable_ = true;
        return fn;
    }
    bool is_repeatable() const { return repeatable_; }

    explicit operator bool() const { return plain_ || bound_; }
    friend bool operator==(const LibraryFn &, const LibraryFn &) = default;
    void operator()(const LibraryArgs &args) const { plain_ ? plain_(args) : bound_(self_, args); }

private:
    Plain plain_ = nullptr;
    Bound bound_ = nullptr;
    const void *self_ = nullptr;
    bool on_host_ = false, repeatable_ = false;
};

/// A function and what passes know of it.
struct LibraryFunction : ir::LibraryRule {
    LibraryFn::Plain run;
};

/// The functions of the CPU, which are those of virtual GPUs too.
///
/// Symbols, with their buffers and ints:
///
///  - `concat`: parts.., out. Ints: bytes of an element, whether stores may bypass the caches, extents of
///    slabs (how many, each), rows, extents of unrolled axes (how many, each); then for each part its
///    buffer, the element that it begins with, its strides along slabs, from row to row and along unrolled
///    axes, and its run in a row: how many axes, extent and stride of each. A row of out has the parts' runs
///    one after another, once for each point of the unrolled axes. Strides are in elements.
///  - `cumsum`, `cumprod`: in, out. Ints: dtype, outer, extent, inner. Of floats in the order of
///    ir::kScanChunk.
///  - `cummax`, `cummin`: in, values, places (i64). Ints: dtype, outer, extent, inner, wanted.
///  - `sort`, `topk`: in, values, indices (i64). Ints: dtype, outer, extent, inner, descending, how many of
///    each row (of `sort` the extent), wanted.
///  - `scatter`: x, index, source, out, which may be x. Ints: dtype, dtype of the index, axis, reduce, source
///    node, the strides of the index (outer, along, inner; 0 where it is repeated), rank, extents of x..,
///    extents of the index as repeated..
///  - `call:<name>`: operands.., results.. Ints: how many operands, how many results; of each of them its
///    dtype, rank, extents.. It is what is registered under that name (ir/host/calls.h).
///
/// `wanted` has a bit for each result that anybody reads, and all bits where it is left out: a function may
/// leave another result as it is. Arrays are dense; (outer, extent, inner) is the shape folded around the
/// axis. Results are deterministic: they do not depend on the number of threads or the size of the scratch.
const ir::LibraryRules &cpu_library();
/// The CPU's implementation of a symbol, or nothing.
LibraryFn find_cpu_function(std::string_view symbol);

} // namespace lz::runtime
