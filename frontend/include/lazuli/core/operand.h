#pragma once
/// What functions take where a tensor or a number may stand, and how they are declared for temporaries.

#include "lazuli/core/location.h"
#include "lazuli/core/scalar.h"

#include <type_traits>

namespace lz {

class Tensor;
namespace detail {
struct Access;
}

/// What records is declared twice: a temporary, or a tensor that was moved, lets go of its handle when the
/// operation is recorded, so that what no other handle can reach is not stored (S23). It is empty afterwards;
/// if the call throws, it is what it was. A third tensor, one behind an axis (`gather(x, 1, a + b)`), a list,
/// and what `at` takes a part of keep their handles to the end of the expression. `x` and `y` are the names
/// of a function's first parameters.
#define LZ_METHOD(...)                                                                                       \
    __VA_ARGS__ const &;                                                                                     \
    __VA_ARGS__ &&
/// Likewise of two tensors, which may both be temporaries (`matmul(x, w.t())`).
#define LZ_METHOD_OF_TWO(function, y, ...)                                                                   \
    function(const Tensor &y, __VA_ARGS__) const &;                                                          \
    function(const Tensor &y, __VA_ARGS__) &&;                                                               \
    function(Tensor &&y, __VA_ARGS__) const &;                                                               \
    function(Tensor &&y, __VA_ARGS__) &&
#define LZ_FUNCTION_OF_TWO(function, x, y, ...)                                                              \
    LZ_API function(const Tensor &x, const Tensor &y, __VA_ARGS__);                                          \
    LZ_API function(const Tensor &x, Tensor &&y, __VA_ARGS__);                                               \
    LZ_API function(Tensor &&x, const Tensor &y, __VA_ARGS__);                                               \
    LZ_API function(Tensor &&x, Tensor &&y, __VA_ARGS__)
#define LZ_FUNCTION(function, x, ...)                                                                        \
    LZ_API function(const Tensor &x, __VA_ARGS__);                                                           \
    LZ_API function(Tensor &&x, __VA_ARGS__)

/// An operand of a function that takes tensors or numbers. Its conversion captures the caller's line, so that
/// operators know where they were written, and whether the tensor is a temporary (or was moved), which lets
/// go of its handle when the operation is recorded (S23). A copy of an operand does not know it: what a
/// function of yours passes on stays.
class Operand {
public:
    /// A tensor with a name.
    Operand(const Tensor &tensor, Location loc = Location::current()) // NOLINT: converts
        : tensor_(&tensor), loc_(loc) {}
    /// A temporary, or a tensor that was moved.
    Operand(Tensor &&tensor, Location loc = Location::current()) // NOLINT: converts
        : tensor_(&tensor), temporary_(&tensor), loc_(loc) {}
    /// A number.
    template <class T>
        requires std::is_arithmetic_v<T>
    Operand(T number, Location loc = Location::current()) // NOLINT: converts
        : number_(number), loc_(loc) {}
    /// A number.
    Operand(const Scalar &number, Location loc = Location::current())
        : number_(number), loc_(loc) {} // NOLINT
    /// A copy: does not know of a temporary.
    Operand(const Operand &other) : tensor_(other.tensor_), number_(other.number_), loc_(other.loc_) {}
    /// The same operand.
    Operand(Operand &&other) noexcept = default;
    Operand &operator=(const Operand &) = delete;

    /// Whether it is a tensor, and no number.
    bool is_tensor() const { return tensor_ != nullptr; }
    /// The tensor, if it is one.
    const Tensor &tensor() const { return *tensor_; }
    /// The number, if it is one.
    const Scalar &number() const { return number_; }
    /// Where it was written.
    Location loc() const { return loc_; }

private:
    friend struct detail::Access;
    const Tensor *tensor_ = nullptr; ///< lives until the end of the caller's expression
    Tensor *temporary_ = nullptr;    ///< the same, if nobody else names it
    Scalar number_;
    Location loc_;
};

} // namespace lz
