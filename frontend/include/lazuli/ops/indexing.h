#pragma once
/// Indexing: `x.at({0, Slice(1, 5, 2), Ellipsis, None})` for reading and writing.

#include "lazuli/tensor.h"

#include <concepts>

namespace lz {

namespace detail {
void read_mask(const Tensor &part);
LZ_API Tensor mask_of(bool value, Location loc);
LZ_API void check_ellipsis(const char *text, Location loc);
} // namespace detail

/// Type of None.
struct NoneType {};
/// In an index: a new axis of extent 1. In a Slice: not given.
inline constexpr NoneType None;
/// Type of Ellipsis.
struct EllipsisType {};
/// As many whole axes as are left.
inline constexpr EllipsisType Ellipsis;

/// Python's start:stop:step. A negative step goes backwards.
class Slice {
public:
    /// An integer, or None.
    class Bound {
    public:
        /// Not given.
        constexpr Bound(NoneType) {} // NOLINT: converts
        /// A position; negative ones count from the end.
        template <class T>
            requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
        constexpr Bound(T value) : value_(static_cast<int64_t>(value)) {} // NOLINT: converts
        /// The position, if given.
        constexpr std::optional<int64_t> get() const { return value_; }

    private:
        std::optional<int64_t> value_;
    };
    /// What is None is the whole axis in the direction of the step, and a step of 1.
    constexpr Slice(Bound start = None, Bound stop = None, Bound step = None)
        : start_(start.get()), stop_(stop.get()), step_(step.get().value_or(1)) {}
    /// The first position, if given.
    constexpr std::optional<int64_t> start() const { return start_; }
    /// The position behind the last, if given.
    constexpr std::optional<int64_t> stop() const { return stop_; }
    /// 1 unless given.
    constexpr int64_t step() const { return step_; }

private:
    std::optional<int64_t> start_, stop_;
    int64_t step_;
};

/// One entry of an index: an integer, a Slice, Ellipsis, None, a tensor of positions, or a bool tensor (a
/// mask: the positions where it is true, along as many axes as it has). Tensors of positions in one index
/// broadcast with each other and pick together; what they pick stands where they stand, or first if other
/// axes stand between them.
class Index {
public:
    /// What it is.
    enum class Kind : uint8_t { Integer, Slice, Ellipsis, None, Tensor };

    /// A position; negative ones count from the end. The axis goes away.
    template <class T>
        requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
    Index(T value, Location loc = Location::current()) // NOLINT: converts
        : kind_(Kind::Integer), integer_(static_cast<int64_t>(value)), loc_(loc) {}
    /// A part of an axis.
    Index(lz::Slice slice, Location loc = Location::current()) // NOLINT: converts
        : kind_(Kind::Slice), slice_(slice), loc_(loc) {}
    /// As many whole axes as are left.
    Index(EllipsisType, Location loc = Location::current()) // NOLINT: converts
        : kind_(Kind::Ellipsis), loc_(loc) {}
    /// LibTorch's `"..."`: as Ellipsis. Throws IndexError for another text.
    Index(const char *text, Location loc = Location::current()) // NOLINT: converts
        : kind_(Kind::Ellipsis), loc_(loc) {
        detail::check_ellipsis(text, loc);
    }
    /// A new axis.
    Index(NoneType, Location loc = Location::current()) : kind_(Kind::None), loc_(loc) {} // NOLINT: converts
    /// A new axis with everything (true) or nothing (false): a mask without axes.
    Index(std::same_as<bool> auto value, Location loc = Location::current()) // NOLINT: converts
        : kind_(Kind::Tensor), tensor_(detail::mask_of(value, loc)), loc_(loc) {}
    /// Positions (integers), or a mask (bool).
    Index(lz::Tensor positions, Location loc = Location::current()) // NOLINT: converts
        : kind_(Kind::Tensor), tensor_(std::move(positions)), loc_(loc) {}

    /// What it is.
    Kind kind() const { return kind_; }
    /// The position, if it is an integer.
    int64_t integer() const { return integer_; }
    /// The slice, if it is one.
    const lz::Slice &slice() const { return slice_; }
    /// The tensor, if it is one.
    const lz::Tensor &tensor() const { return tensor_; }
    /// Where it was written.
    Location loc() const { return loc_; }

private:
    Kind kind_;
    int64_t integer_ = 0;
    lz::Slice slice_;
    lz::Tensor tensor_;
    Location loc_;
};

/// A part of a part: `x[0][1]`. It can be read, and kept as a tensor of its own, but not written: that would
/// change a value that nobody keeps.
class LZ_API NestedPart : public Tensor {
public:
    NestedPart(Tensor part) : Tensor(std::move(part)) {} // NOLINT: converts
    NestedPart(const NestedPart &) = default;
    NestedPart(NestedPart &&) noexcept = default;
    NestedPart &operator=(const NestedPart &) & = default;
    NestedPart &operator=(NestedPart &&) & noexcept = default;
    using Tensor::operator=;
    void operator=(const Operand &) && = delete; // write `x.at({0, 1}) = 5` instead of `x[0][1] = 5`
    // clang-format off
    friend void operator+=(NestedPart &&, const Operand &) = delete; // write `x.at({0, 1}) += 5` instead of `x[0][1] += 5`
    friend void operator-=(NestedPart &&, const Operand &) = delete; // write `x.at({0, 1}) -= 5` instead of `x[0][1] -= 5`
    friend void operator*=(NestedPart &&, const Operand &) = delete; // write `x.at({0, 1}) *= 5` instead of `x[0][1] *= 5`
    friend void operator/=(NestedPart &&, const Operand &) = delete; // write `x.at({0, 1}) /= 5` instead of `x[0][1] /= 5`
    // clang-format on

    // A part of a tensor that is kept can be written as usual; one of a temporary is nested again.
    Part operator[](const Index &index) const &;
    NestedPart operator[](const Index &index) const &&;
    Part at(std::initializer_list<Index> index, Location loc = Location::current()) const &;
    NestedPart at(std::initializer_list<Index> index, Location loc = Location::current()) const &&;
    Part at(const Index &index, Location loc = Location::current()) const &;
    NestedPart at(const Index &index, Location loc = Location::current()) const &&;
    Part at(std::span<const Index> index, Location loc = Location::current()) const &;
    NestedPart at(std::span<const Index> index, Location loc = Location::current()) const &&;
    Part index(std::initializer_list<Index> index, Location loc = Location::current()) const &;
    NestedPart index(std::initializer_list<Index> index, Location loc = Location::current()) const &&;
};

/// What `at` returns: the part as a tensor, and the way to change it in `x`. Assigning to it changes x; the
/// value that is written broadcasts and takes x's dtype. Made for one expression: keep a Tensor, not a Part.
/// A part of a part can be read, not written: write `x.at({0, 2}) = v`, for `x[0][2] = v` does not compile.
/// Reading through a mask is a sync point, for the number of elements is not known before; so is writing as
/// many rows as it selects, and writing through a mask beside other entries. Writing a number, or what
/// broadcasts to each of the rows, through a mask that stands alone is not. Of equal positions the last one
/// counts.
class LZ_API Part : public Tensor {
public:
    Part(const Part &) = delete;
    /// Always.
    bool defined() const noexcept { return true; }

    // Writing, on temporaries as well. The other in-place methods would change the copy only and are not
    // there.
    /// Writes the value to the part; it broadcasts, and is cast to the tensor's dtype.
    const Part &operator=(const Operand &value) const; // NOLINT: not a tensor's assignment
    /// Writes what another part is.
    const Part &operator=(const Part &value) const; // NOLINT
    /// Reads the part, adds, and writes it.
    const Part &operator+=(const Operand &value) const;
    /// Reads the part, subtracts, and writes it.
    const Part &operator-=(const Operand &value) const;
    /// Reads the part, multiplies, and writes it.
    const Part &operator*=(const Operand &value) const;
    /// Reads the part, divides, and writes it.
    const Part &operator/=(const Operand &value) const;
    const Part &fill_(const Operand &value) const { return *this = value; }
    /// The value may be on another device.
    const Part &copy_(const Tensor &value, Location loc = Location::current()) const {
        const Tensor here = value.to(base_.device(loc), loc);
        return *this = Operand(here, loc);
    }
    const Part &copy_(const Tensor &value, const CopyOptions &, Location loc = Location::current()) const {
        return copy_(value, loc);
    }
    NestedPart at(std::initializer_list<Index> index, Location loc = Location::current()) const;
    NestedPart at(const Index &index, Location loc = Location::current()) const;
    NestedPart at(std::span<const Index> index, Location loc = Location::current()) const;
    NestedPart operator[](const Index &index) const;
    NestedPart index(std::initializer_list<Index> index, Location loc = Location::current()) const;
    const Part &zero_(Location loc = Location::current()) const { return *this = Operand(0, loc); }
    const Part &add_(const Operand &value) const { return *this += value; }
    const Part &sub_(const Operand &value) const { return *this -= value; }
    const Part &mul_(const Operand &value) const { return *this *= value; }
    const Part &div_(const Operand &value) const { return *this /= value; }
#define LZ_UNARY(name, ...) void name##_() = delete;
#define LZ_UNARY_COMPOSED(name) void name##_() = delete;
#include "lazuli/ops/functions.def"

private:
    friend class Tensor;
    friend void detail::read_mask(const Tensor &part);
    Part(const Tensor &base, std::span<const Index> index, Location loc);
    void read() const;
    void write(const Tensor &value, Location loc) const;
    bool change(const Operand &value, Tensor &(Tensor::*function)(Operand, Location) &, Location loc) const;
    void show(const Tensor &written, Location loc) const;
    void write_masked(const Tensor &value, Location loc) const;

    mutable Tensor base_; ///< shares the cell of x
    std::vector<Index> index_;
    Location loc_;
};

/// What `data()` returns: the value as a tensor without a history, and the way to change the tensor that it
/// was called of, whatever backward knows of it; `parameter.data().normal_(0, 0.02)` needs no NoGradGuard.
/// Made for one expression: a Tensor that is made of it is one of its own, as of `detach` (*different*: in
/// PyTorch both stay one memory). Every in-place form of Tensor is here, on temporaries as well, and so is
/// `data() = value`, which writes. A part of it can be read: written it is by `index_put_`.
class LZ_API TensorData : public Tensor {
public:
    TensorData(const TensorData &) = delete;

    /// Writes the value, which broadcasts and is cast to the tensor's dtype.
    const TensorData &operator=(const Operand &value) const; // NOLINT: not a tensor's assignment
    /// Writes what the other one is.
    const TensorData &operator=(const TensorData &value) const; // NOLINT

    // As Tensor's.
#define LZ_UNARY(name, ...) const TensorData &name##_(Location loc = Location::current()) const;
#define LZ_UNARY_COMPOSED(name) LZ_UNARY(name)
#define LZ_BINARY(name, ...)                                                                                 \
    const TensorData &name##_(const Operand &other, Location loc = Location::current()) const;
#include "lazuli/ops/functions.def"
    const TensorData &add_(const Operand &other, const Scalar &alpha,
                           Location loc = Location::current()) const;
    const TensorData &sub_(const Operand &other, const Scalar &alpha,
                           Location loc = Location::current()) const;
    const TensorData &addcmul_(const Tensor &a, const Tensor &b, const Scalar &value = 1,
                               Location loc = Location::current()) const;
    const TensorData &addcdiv_(const Tensor &a, const Tensor &b, const Scalar &value = 1,
                               Location loc = Location::current()) const;
    const TensorData &lerp_(const Tensor &end, const Operand &weight,
                            Location loc = Location::current()) const;
    const TensorData &clamp_(const std::optional<Scalar> &lower,
                             const std::optional<Scalar> &upper = std::nullopt,
                             Location loc = Location::current()) const;
    const TensorData &clamp_(const Tensor &lower, const Tensor &upper,
                             Location loc = Location::current()) const;
    const TensorData &clamp_min_(const Operand &lower, Location loc = Location::current()) const;
    const TensorData &clamp_max_(const Operand &upper, Location loc = Location::current()) const;
    const TensorData &masked_fill_(const Tensor &mask, const Operand &value,
                                   Location loc = Location::current()) const;
    const TensorData &scatter_(int64_t axis, const Tensor &index, const Operand &source,
                               Location loc = Location::current()) const;
    const TensorData &scatter_add_(int64_t axis, const Tensor &index, const Tensor &source,
                                   Location loc = Location::current()) const;
    const TensorData &index_add_(int64_t axis, const Tensor &index, const Tensor &source,
                                 Location loc = Location::current()) const;
    const TensorData &index_fill_(int64_t axis, const Tensor &index, const Operand &value,
                                  Location loc = Location::current()) const;
    const TensorData &index_copy_(int64_t axis, const Tensor &index, const Tensor &source,
                                  Location loc = Location::current()) const;
    const TensorData &fill_diagonal_(const Scalar &value, bool wrap = false,
                                     Location loc = Location::current()) const;
    const TensorData &index_put_(std::initializer_list<Index> index, const Operand &value,
                                 bool accumulate = false, Location loc = Location::current()) const;
    const TensorData &copy_(const Tensor &source, Location loc = Location::current()) const;
    const TensorData &copy_(const Tensor &source, const CopyOptions &options,
                            Location loc = Location::current()) const;
    const TensorData &fill_(const Operand &value, Location loc = Location::current()) const;
    const TensorData &zero_(Location loc = Location::current()) const;
    const TensorData &uniform_(double from = 0, double to = 1, Location loc = Location::current()) const;
    const TensorData &uniform_(double from, double to, Generator &generator,
                               Location loc = Location::current()) const;
    const TensorData &normal_(double mean = 0, double std = 1, Location loc = Location::current()) const;
    const TensorData &normal_(double mean, double std, Generator &generator,
                              Location loc = Location::current()) const;
    const TensorData &bernoulli_(double p = 0.5, Location loc = Location::current()) const;
    const TensorData &exponential_(double lambda = 1, Location loc = Location::current()) const;
    const TensorData &random_(Location loc = Location::current()) const;
    const TensorData &random_(int64_t high, Location loc = Location::current()) const;
    const TensorData &random_(int64_t low, std::optional<int64_t> high,
                              Location loc = Location::current()) const;
    const TensorData &operator+=(const Operand &value) const;
    const TensorData &operator-=(const Operand &value) const;
    const TensorData &operator*=(const Operand &value) const;
    const TensorData &operator/=(const Operand &value) const;

    /// A part of it, to be read.
    NestedPart operator[](const Index &index) const;
    /// A part of it, to be read.
    NestedPart at(std::initializer_list<Index> index, Location loc = Location::current()) const;
    /// A part of it, to be read.
    NestedPart index(std::initializer_list<Index> index, Location loc = Location::current()) const;

private:
    friend class Tensor;
    TensorData(const Tensor &base, Location loc);
    template <class F>
    const TensorData &changed(F &&change, Location loc) const;

    mutable Tensor base_; ///< shares the cell of the tensor
};

/// The elements where `mask` is true, in a row; x and the mask broadcast with each other. Sync point: their
/// number is not known before.
LZ_FUNCTION_OF_TWO(Tensor masked_select, x, mask, Location loc = Location::current());
/// The positions of the elements that are not 0, in row-major order: i64[n, rank]. Sync point: their number
/// is not known before.
LZ_FUNCTION(Tensor nonzero, x, Location loc = Location::current());
/// The same.
LZ_FUNCTION(Tensor argwhere, x, Location loc = Location::current());
/// The same as one i64[n] for each axis, as `x.at` takes them; a number counts as a row of one. Sync point.
LZ_API std::vector<Tensor> nonzero_numpy(const Tensor &x, Location loc = Location::current());
/// As nonzero_numpy.
LZ_API std::vector<Tensor> where(const Tensor &condition, Location loc = Location::current());
/// out[i..] = x[.., index[i..], ..] along `axis`; `index` has x's rank and nowhere more elements but along
/// `axis`. An index out of range is found when it runs (S26).
LZ_FUNCTION(Tensor gather, x, int64_t axis, const Tensor &index, Location loc = Location::current());
/// The positions of `axis` named by the one-dimensional `index`.
LZ_FUNCTION(Tensor index_select, x, int64_t axis, const Tensor &index, Location loc = Location::current());
/// Elements of x as one row; negative indices count from the end.
LZ_FUNCTION_OF_TWO(Tensor take, x, index, Location loc = Location::current());
/// x with source[i..] put at (added to) place index[i..] along `axis`. Of equal places the last one counts.
LZ_FUNCTION(Tensor scatter, x, int64_t axis, const Tensor &index, Operand source,
            Location loc = Location::current());
/// The same, added; of equal places all count, in the order of `source`.
LZ_FUNCTION(Tensor scatter_add, x, int64_t axis, const Tensor &index, const Tensor &source,
            Location loc = Location::current());
/// x with the rows of `source` added at the positions of `axis` named by the one-dimensional `index`.
LZ_FUNCTION(Tensor index_add, x, int64_t axis, const Tensor &index, const Tensor &source,
            Location loc = Location::current());
/// x with a number, or a 0-dim tensor, at the positions of `axis` named by the one-dimensional `index`;
/// negative ones count from the end.
LZ_FUNCTION(Tensor index_fill, x, int64_t axis, const Tensor &index, Operand value,
            Location loc = Location::current());
/// x with the rows of `source` put at the positions of `axis` named by the one-dimensional `index`. Of equal
/// positions the last one counts.
LZ_FUNCTION(Tensor index_copy, x, int64_t axis, const Tensor &index, const Tensor &source,
            Location loc = Location::current());
/// Rows of `weight`, one for each element of `index`.
LZ_FUNCTION_OF_TWO(Tensor embedding, weight, index, Location loc = Location::current());
/// i64: 1 at the class, else 0, along a new last axis. Without `classes` it is the largest class + 1 (then a
/// sync point).
LZ_FUNCTION(Tensor one_hot, index, int64_t classes = -1, Location loc = Location::current());

} // namespace lz

/// LibTorch's place of what indices are made of.
namespace lz::indexing {
using lz::Ellipsis;
using lz::None;
using lz::Slice;
/// An entry of an index.
using TensorIndex = lz::Index;
} // namespace lz::indexing
