#pragma once
/// Tensor: a handle to a value that may not have been computed yet.

#include "lazuli/device.h"
#include "lazuli/dtype.h"
#include "lazuli/error.h"
#include "lazuli/export.h"
#include "lazuli/location.h"
#include "lazuli/scalar.h"

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lz {

namespace detail {
struct Cell;
struct Access;
LZ_API void drop_handle(Cell *cell) noexcept;
LZ_API void copy_handle(Cell *cell) noexcept;
} // namespace detail

/// Extents, axes or permutations given by the user. Converts from `{2, 3}`, vectors, spans and single
/// integers.
class LZ_API Sizes {
public:
    Sizes() = default;
    Sizes(std::initializer_list<int64_t> values) : values_(values) {}
    Sizes(std::span<const int64_t> values) : values_(values.begin(), values.end()) {} // NOLINT: converts
    Sizes(const std::vector<int64_t> &values) : values_(values) {}                    // NOLINT: converts
    template <class T>
        requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
    Sizes(T value) : values_{static_cast<int64_t>(value)} {} // NOLINT: converts

    std::span<const int64_t> span() const { return values_; }
    size_t size() const { return values_.size(); }
    bool empty() const { return values_.empty(); }
    int64_t operator[](size_t i) const { return values_[i]; }
    auto begin() const { return values_.begin(); }
    auto end() const { return values_.end(); }

private:
    std::vector<int64_t> values_;
};

class Tensor;
class Operand;

/// A tensor of rank 0 to 8. Copying a Tensor copies the handle: both see in-place changes (S24). Operations
/// record; the first need of a value computes everything pending (S21). All functions may be used from any
/// thread; changing one tensor in place from two threads at once is a race.
class LZ_API Tensor {
public:
    /// An empty handle: `defined()` is false and every use throws StateError.
    Tensor() noexcept = default;
    Tensor(const Tensor &other) noexcept : cell_(other.cell_) {
        if (cell_)
            detail::copy_handle(cell_);
    }
    Tensor(Tensor &&other) noexcept : cell_(std::exchange(other.cell_, nullptr)) {}
    Tensor &operator=(const Tensor &other) & noexcept {
        Tensor copy(other);
        std::swap(cell_, copy.cell_);
        return *this;
    }
    Tensor &operator=(Tensor &&other) & noexcept {
        Tensor moved(std::move(other));
        std::swap(cell_, moved.cell_);
        return *this;
    }
    ~Tensor() {
        if (cell_)
            detail::drop_handle(cell_);
    }

    bool defined() const noexcept { return cell_ != nullptr; }

    // Metadata: never computes.
    DType dtype() const;
    Device device() const;
    std::vector<int64_t> sizes() const;
    /// Extent of one axis; negative axes count from the end. Throws IndexError.
    int64_t size(int64_t axis, Location loc = Location::current()) const;
    int64_t dim() const;
    int64_t numel() const;
    bool is_cuda() const { return device().is_cuda(); }
    /// True when both handles name one tensor (S08).
    bool same_tensor(const Tensor &other) const noexcept { return cell_ == other.cell_; }

    // Sync points.
    /// The one element, converted. Throws StateError unless numel() is 1.
    template <class T>
    T item(Location loc = Location::current()) const {
        if constexpr (std::is_floating_point_v<T>)
            return static_cast<T>(item_double(loc));
        else
            return static_cast<T>(item_int(loc));
    }
    /// All elements in row-major order. Throws DTypeError unless T is the tensor's dtype.
    template <Element T>
    std::vector<T> to_vector(Location loc = Location::current()) const;
    /// The elements in memory, row-major, read-only; valid while a handle of this value lives. Throws
    /// DTypeError unless T is the dtype (or void/std::byte).
    template <class T>
    const T *data(Location loc = Location::current()) const {
        return static_cast<const T *>(read_pointer(dtype_or_any<T>(), loc));
    }
    /// The same for writing: the storage then stays with this tensor until its next in-place form (S33).
    template <class T>
    T *mutable_data(Location loc = Location::current()) {
        return static_cast<T *>(write_pointer(dtype_or_any<T>(), loc));
    }
    /// Computes this tensor (and what it needs) and stores it. Returns itself.
    const Tensor &eval(Location loc = Location::current()) const;
    /// PyTorch's way of printing (S64). Computes.
    std::string str(Location loc = Location::current()) const;

    // Methods that record (each is the function of the same name in ops.h).

private:
    friend struct detail::Access;
    explicit Tensor(detail::Cell *cell) noexcept : cell_(cell) {} // takes over one handle

    template <class T>
    static std::optional<DType> dtype_or_any() {
        if constexpr (Element<T>)
            return dtype_of<T>;
        else
            return std::nullopt;
    }
    double item_double(Location loc) const;
    int64_t item_int(Location loc) const;
    const void *read_pointer(std::optional<DType> dtype, Location loc) const;
    void *write_pointer(std::optional<DType> dtype, Location loc);

    detail::Cell *cell_ = nullptr;
};

template <Element T>
std::vector<T> Tensor::to_vector(Location loc) const {
    const T *from = data<T>(loc);
    return std::vector<T>(from, from + numel());
}

LZ_API std::ostream &operator<<(std::ostream &out, const Tensor &tensor);

/// Computes everything pending on this thread.
LZ_API void sync(Location loc = Location::current());
/// Computes what these tensors need and stores them.
LZ_API void eval(std::initializer_list<Tensor> tensors, Location loc = Location::current());
LZ_API void eval(std::span<const Tensor> tensors, Location loc = Location::current());

/// An operand of a function that takes tensors or numbers. Its conversion captures the caller's line, so that
/// operators know where they were written.
class Operand {
public:
    Operand(const Tensor &tensor, Location loc = Location::current()) // NOLINT: converts
        : tensor_(&tensor), loc_(loc) {}
    template <class T>
        requires std::is_arithmetic_v<T>
    Operand(T number, Location loc = Location::current()) // NOLINT: converts
        : number_(number), loc_(loc) {}
    Operand(const Scalar &number, Location loc = Location::current())
        : number_(number), loc_(loc) {} // NOLINT

    bool is_tensor() const { return tensor_ != nullptr; }
    const Tensor &tensor() const { return *tensor_; }
    const Scalar &number() const { return number_; }
    Location loc() const { return loc_; }

private:
    const Tensor *tensor_ = nullptr; ///< lives until the end of the caller's expression
    Scalar number_;
    Location loc_;
};

} // namespace lz

#include "lazuli/ops.h"
