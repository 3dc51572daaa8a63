#pragma once
/// Making tensors: from C++ data, and filled.

#include "lazuli/core/options.h"
#include "lazuli/tensor.h"

#include <memory>

namespace lz {

/// Numbers in nested braces: `{{1, 2}, {3, 4}}`. Integers become i64, floating numbers the default dtype,
/// bool stays.
class LZ_API Nested {
public:
    /// A number.
    template <class T>
        requires std::is_arithmetic_v<T>
    Nested(T value) : value_(value), leaf_(true) {} // NOLINT: converts as numbers do
    /// Rows, which are numbers or rows again.
    Nested(std::initializer_list<Nested> rows);

    /// Whether it is a number.
    bool is_number() const { return leaf_; }
    /// The number, if it is one.
    const Scalar &number() const { return value_; }
    /// The rows, if it is none.
    std::span<const Nested> rows() const;

private:
    Scalar value_;
    bool leaf_ = false;
    std::vector<Nested> rows_;
};

/// From nested braces. Throws ShapeError when rows have different lengths.
LZ_API Tensor tensor(const Nested &values, const TensorOptions &options = {},
                     Location loc = Location::current());

namespace detail {
LZ_API Tensor tensor_from_memory(const void *data, int64_t count, DType dtype, const Sizes &sizes,
                                 const TensorOptions &options, const char *function, Location loc);
LZ_API Tensor tensor_adopting(void *data, DType dtype, const Sizes &sizes,
                              void (*deleter)(void *data, void *context), void *context, Location loc);
} // namespace detail

/// Copies the elements; `sizes` is left out for one axis. The dtype is that of T unless the options name one.
template <Element T>
Tensor tensor(std::span<const T> values, const Sizes &sizes, const TensorOptions &options = {},
              Location loc = Location::current()) {
    return detail::tensor_from_memory(values.data(), static_cast<int64_t>(values.size()), dtype_of<T>, sizes,
                                      options, "tensor", loc);
}
/// One axis.
template <Element T>
Tensor tensor(std::span<const T> values, const TensorOptions &options = {},
              Location loc = Location::current()) {
    return tensor<T>(values, Sizes(values.size()), options, loc);
}
/// The same of a vector.
template <Element T>
Tensor tensor(const std::vector<T> &values, const Sizes &sizes, const TensorOptions &options = {},
              Location loc = Location::current()) {
    if constexpr (std::is_same_v<T, bool>) { // packed: has no data()
        std::vector<uint8_t> bytes(values.begin(), values.end());
        return detail::tensor_from_memory(bytes.data(), static_cast<int64_t>(bytes.size()), DType::Bool,
                                          sizes, options, "tensor", loc);
    } else {
        return tensor<T>(std::span<const T>(values), sizes, options, loc);
    }
}
/// One axis.
template <Element T>
Tensor tensor(const std::vector<T> &values, const TensorOptions &options = {},
              Location loc = Location::current()) {
    return tensor<T>(values, Sizes(values.size()), options, loc);
}
/// One axis, of this dtype or on this device.
template <Element T, OptionKind Kind>
Tensor tensor(const std::vector<T> &values, const Kind &kind, Location loc = Location::current()) {
    return tensor<T>(values, Sizes(values.size()), detail::options_from(kind, loc), loc);
}

/// Copies the elements at `data`, row-major. Throws StateError for a null pointer to elements.
template <Element T>
Tensor from_blob(const T *data, const Sizes &sizes, const TensorOptions &options = {},
                 Location loc = Location::current()) {
    return detail::tensor_from_memory(data, -1, dtype_of<T>, sizes, options, "from_blob", loc);
}
/// Copies the elements at `data`, row-major, of the dtype in the options (the default dtype if none).
LZ_API Tensor from_blob(const void *data, const Sizes &sizes, const TensorOptions &options,
                        Location loc = Location::current());

/// Adopts the memory: no copy. `deleter(data)` is called once, when no tensor uses the memory any more, by
/// the thread that dropped it last. The engine never writes to it (S33). Throws StateError for a null pointer
/// to elements; of what throws, `deleter` is not called.
template <Element T, class Deleter>
    requires std::is_invocable_v<Deleter &, void *>
Tensor from_blob(T *data, const Sizes &sizes, Deleter deleter, Location loc = Location::current()) {
    auto context = std::make_unique<Deleter>(std::move(deleter));
    Tensor result = detail::tensor_adopting(
        const_cast<std::remove_cv_t<T> *>(data), dtype_of<T>, sizes,
        [](void *memory, void *c) {
            const std::unique_ptr<Deleter> owned(static_cast<Deleter *>(c));
            (*owned)(memory);
        },
        context.get(), loc);
    context.release();
    return result;
}

/// Every element is `value`, whose category gives the dtype: bool, i64 or the default dtype.
LZ_API Tensor full(const Sizes &sizes, const Scalar &value, const TensorOptions &options = {},
                   Location loc = Location::current());
/// Every element is 0.
LZ_API Tensor zeros(const Sizes &sizes, const TensorOptions &options = {},
                    Location loc = Location::current());
/// Every element is 1.
LZ_API Tensor ones(const Sizes &sizes, const TensorOptions &options = {}, Location loc = Location::current());
/// Elements that nobody should rely on. Takes memory only when it is used as it is; a value that is
/// overwritten whole
/// (`empty(...).normal_()`) costs nothing.
LZ_API Tensor empty(const Sizes &sizes, const TensorOptions &options = {},
                    Location loc = Location::current());
/// start, start + step, ... below `end` (above it for a negative step). i64 when all numbers are integers.
LZ_API Tensor arange(const Scalar &start, const Scalar &end, const Scalar &step,
                     const TensorOptions &options = {}, Location loc = Location::current());
LZ_API Tensor arange(const Scalar &start, const Scalar &end, const TensorOptions &options = {},
                     Location loc = Location::current());
LZ_API Tensor arange(const Scalar &end, const TensorOptions &options = {},
                     Location loc = Location::current());
/// `steps` numbers from `start` to `end`, both included.
LZ_API Tensor linspace(const Scalar &start, const Scalar &end, int64_t steps,
                       const TensorOptions &options = {}, Location loc = Location::current());
/// Ones on the diagonal; `columns` is `rows` unless given.
LZ_API Tensor eye(int64_t rows, const TensorOptions &options = {}, Location loc = Location::current());
LZ_API Tensor eye(int64_t rows, int64_t columns, const TensorOptions &options = {},
                  Location loc = Location::current());

// With the shape, dtype and device of `x`, unless the options say otherwise (S61).
/// Every element is `value`.
LZ_API Tensor full_like(const Tensor &x, const Scalar &value, const TensorOptions &options = {},
                        Location loc = Location::current());
/// Every element is 0.
LZ_API Tensor zeros_like(const Tensor &x, const TensorOptions &options = {},
                         Location loc = Location::current());
/// Every element is 1.
LZ_API Tensor ones_like(const Tensor &x, const TensorOptions &options = {},
                        Location loc = Location::current());
/// Elements that nobody should rely on, as `empty`.
LZ_API Tensor empty_like(const Tensor &x, const TensorOptions &options = {},
                         Location loc = Location::current());

// The same with a dtype or a device in place of options: `zeros({2}, f64)`.
LZ_OF_KIND(tensor, (const Nested &values), (values))
LZ_OF_KIND(from_blob, (const void *data, const Sizes &sizes), (data, sizes))
LZ_OF_KIND(full, (const Sizes &sizes, const Scalar &value), (sizes, value))
LZ_OF_KIND(zeros, (const Sizes &sizes), (sizes))
LZ_OF_KIND(ones, (const Sizes &sizes), (sizes))
LZ_OF_KIND(empty, (const Sizes &sizes), (sizes))
LZ_OF_KIND(arange, (const Scalar &start, const Scalar &end, const Scalar &step), (start, end, step))
LZ_OF_KIND(arange, (const Scalar &start, const Scalar &end), (start, end))
LZ_OF_KIND(arange, (const Scalar &end), (end))
LZ_OF_KIND(linspace, (const Scalar &start, const Scalar &end, int64_t steps), (start, end, steps))
LZ_OF_KIND(eye, (int64_t rows), (rows))
LZ_OF_KIND(eye, (int64_t rows, int64_t columns), (rows, columns))
LZ_OF_KIND(full_like, (const Tensor &x, const Scalar &value), (x, value))
LZ_OF_KIND(zeros_like, (const Tensor &x), (x))
LZ_OF_KIND(ones_like, (const Tensor &x), (x))
LZ_OF_KIND(empty_like, (const Tensor &x), (x))

} // namespace lz
