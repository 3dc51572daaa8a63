#pragma once
/// Elements of tensors by index, for loops on the host.

#include "lazuli/core/error.h"
#include "lazuli/tensor.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lz {

/// The elements of a tensor with N axes, or of a part of one. Valid as long as the pointer that
/// `Tensor::data_ptr` gives. Indices are not checked.
template <class T, size_t N>
class TensorAccessor {
public:
    /// Row-major elements.
    TensorAccessor(T *data, const std::array<int64_t, N> &sizes) : data_(data), sizes_(sizes) {}

    /// The part, or the element, at this place of the first axis.
    decltype(auto) operator[](int64_t index) const {
        if constexpr (N == 1) {
            return static_cast<T &>(data_[index]);
        } else {
            std::array<int64_t, N - 1> rest;
            int64_t stride = 1;
            for (size_t i = 1; i < N; ++i)
                stride *= rest[i - 1] = sizes_[i];
            return TensorAccessor<T, N - 1>(data_ + index * stride, rest);
        }
    }
    /// Extents, one an axis.
    const std::array<int64_t, N> &sizes() const { return sizes_; }
    /// The extent of an axis.
    int64_t size(size_t axis) const { return sizes_[axis]; }
    /// The first element.
    T *data() const { return data_; }

private:
    T *data_;
    std::array<int64_t, N> sizes_;
};

namespace detail {

template <size_t N>
std::array<int64_t, N> accessed_sizes(const Tensor &x, Location loc) {
    static_assert(N > 0, "a number has no axes to access: use item()");
    if (x.dim(loc) != static_cast<int64_t>(N))
        throw ShapeError("accessor: the tensor has " + std::to_string(x.dim()) + " axes, and " +
                             std::to_string(N) + " are asked for",
                         loc);
    if (x.is_cuda(loc))
        throw DeviceError("accessor: the tensor is on " + x.device().str() +
                              ", which the host cannot read; use cpu()",
                          loc);
    std::array<int64_t, N> sizes;
    for (size_t i = 0; i < N; ++i)
        sizes[i] = x.size(static_cast<int64_t>(i), loc);
    return sizes;
}

} // namespace detail

template <class T, size_t N>
TensorAccessor<T, N> Tensor::accessor(Location loc) & {
    const std::array<int64_t, N> sizes = detail::accessed_sizes<N>(*this, loc);
    return {data_ptr<T>(loc), sizes};
}
template <class T, size_t N>
TensorAccessor<const T, N> Tensor::accessor(Location loc) const & {
    const std::array<int64_t, N> sizes = detail::accessed_sizes<N>(*this, loc);
    return {data_ptr<T>(loc), sizes};
}

} // namespace lz
