#pragma once
/// Functions of the user's own as operations: recorded like any other, ordered with what they read, run where
/// their operands are (on the CPU and on virtual GPUs), and checked by the same schedules. Nothing is fused
/// into them.
///
///     lz::register_call(
///         "clip_rows",
///         [](std::span<const lz::CallType> in) { return std::vector{in[0]}; },
///         [](std::span<const lz::CallInput> in, std::span<const lz::CallOutput> out) {
///             auto x = in[0].values<float>();
///             auto y = out[0].values<float>();
///             ...
///         });
///     lz::Tensor y = lz::call("clip_rows", {x})[0];

#include "lazuli/core/dtype.h"
#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/tensor.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lz {

/// What is known of a tensor while it is recorded.
struct CallType {
    DType dtype = DType::F32;   ///< of its elements
    std::vector<int64_t> shape; ///< extents
};

namespace detail {
/// Throws DTypeError unless they are equal.
LZ_API void check_call_dtype(DType asked, DType found);
} // namespace detail

/// An operand as the function sees it: dense row-major memory of the host, not to be kept. Strides are in
/// elements.
struct CallInput {
    const void *data;                 ///< where the elements begin
    DType dtype;                      ///< of the elements
    std::span<const int64_t> shape;   ///< extents
    std::span<const int64_t> strides; ///< in elements
    int64_t numel;                    ///< number of elements

    /// All elements; throws DTypeError unless T is the dtype.
    template <Element T>
    std::span<const T> values() const {
        detail::check_call_dtype(dtype_of<T>, dtype);
        return {static_cast<const T *>(data), static_cast<size_t>(numel)};
    }
};

/// A result, all of which the function has to write. Its memory holds anything before that.
struct CallOutput {
    void *data;                       ///< where the elements begin
    DType dtype;                      ///< of the elements
    std::span<const int64_t> shape;   ///< extents
    std::span<const int64_t> strides; ///< in elements
    int64_t numel;                    ///< number of elements

    /// All elements; throws DTypeError unless T is the dtype.
    template <Element T>
    std::span<T> values() const {
        detail::check_call_dtype(dtype_of<T>, dtype);
        return {static_cast<T *>(data), static_cast<size_t>(numel)};
    }
};

/// Types of the results for types of the operands; called by lz::call. What it throws is thrown there, with
/// the user's line: a ShapeError or DTypeError as such, anything else as StateError.
using CallTypes = std::function<std::vector<CallType>(std::span<const CallType> operands)>;

/// Computes the results. A pure function of its operands: it is not called for what nobody needs, and may be
/// called again, and from several threads at once. It must not use
/// Lazuli's tensors. What it throws is the StateError of this operation at the next sync (S26).
using CallFunction =
    std::function<void(std::span<const CallInput> operands, std::span<const CallOutput> results)>;

/// From now on and in the whole process `lz::call(name, ...)` is this function. The name stands in dumps, and
/// compiled programs are found again by it: it should say who made the function and what it does. Throws
/// StateError for an empty name, a function that is none, and a name that is taken.
LZ_API void register_call(std::string name, CallTypes types, CallFunction function,
                          Location loc = Location::current());
/// The names that are registered, sorted.
LZ_API std::vector<std::string> registered_calls();

/// Records the operation; gives its results, at least one (and at most what 65,535 words describe, 3 and its
/// rank for each: 13,107 matrices), on the device of its operands (S05; with no
/// operand, on the default device). Throws StateError for a name that is not registered, and what `types`
/// throws.
LZ_API std::vector<Tensor> call(std::string_view name, std::span<const Tensor> operands,
                                Location loc = Location::current());
LZ_API std::vector<Tensor> call(std::string_view name, std::initializer_list<Tensor> operands,
                                Location loc = Location::current());
/// A null pointer is a name that is not registered.
LZ_API std::vector<Tensor> call(const char *name, std::span<const Tensor> operands,
                                Location loc = Location::current());
LZ_API std::vector<Tensor> call(const char *name, std::initializer_list<Tensor> operands,
                                Location loc = Location::current());

} // namespace lz
