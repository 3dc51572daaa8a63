#pragma once
/// The values of the second implementation: dense arrays, computed at once by plain loops. It shares no code
/// with the engine and follows PyTorch where semantics.md says nothing else.

#include <lazuli/core/dtype.h>
#include <lazuli/core/scalar.h>

#include <cfenv>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace lz::test::calls {

using Extents = std::vector<int64_t>;

/// An element: `f` of the floating dtypes, `i` of bool and integers.
union Element {
    double f;
    int64_t i;
};

/// How well an array is known. What is computed from numbers that are not exact may be anything: a comparison
/// turns the last bit into another answer. Its dtype and shape are known still.
enum class Trust : uint8_t { Exact, Close, Unknown };

struct Array {
    DType dtype = DType::F32;
    Extents shape;
    std::vector<Element> at; ///< row-major
    Trust trust = Trust::Exact;
    double ulps = 0;              ///< of a close one
    std::vector<double> absolute; ///< of a close one where it is not empty: what each element may be off
    int device = -1;              ///< of a GPU; -1: the CPU
};

/// What the call has to throw.
enum class ErrorType : uint8_t { Shape, DType, Index, State, Device, OutOfMemory };
const char *name(ErrorType type);

/// A call that has to throw while it is recorded; a late one when it is computed (S26).
struct Mistake : std::runtime_error {
    ErrorType type;
    bool late;
    Mistake(ErrorType type, const std::string &why, bool late = false)
        : std::runtime_error(why), type(type), late(late) {}
};

/// Rounding to nearest, with subnormals, until its end: what the second implementation computes in, whatever
/// the program has set.
class DefaultMode {
public:
    DefaultMode();
    ~DefaultMode();
    DefaultMode(const DefaultMode &) = delete;
    DefaultMode &operator=(const DefaultMode &) = delete;

private:
    std::fenv_t before_;
};

int64_t count(const Extents &shape);
Array make(DType dtype, const Extents &shape);
bool is_float(DType t);
int bits_of(DType t);
DType promoted(DType a, DType b);
/// The extents at which both meet; throws Mistake(Shape).
Extents broadcast(const Extents &a, const Extents &b);
/// Positions in `from` of the elements of `to`, over which it broadcasts.
std::vector<int64_t> positions(const Extents &from, const Extents &to);
Array broadcast_to(const Array &x, const Extents &shape);
/// The elements at these positions of x, `otherwise` for -1; as well known as x is.
Array taken(const Array &x, const Extents &shape, const std::vector<int64_t> &from,
            Element otherwise = {.i = 0});
/// The coordinates of the k-th element.
Extents coordinates(const Extents &shape, int64_t k);
int64_t position(const Extents &shape, const Extents &at);

/// The nearest number of a floating dtype, ties to even.
double rounded(DType t, double x);
/// Two's complement.
int64_t wrapped(DType t, int64_t x);
Element converted(DType from, DType to, Element x);
Array converted(const Array &x, DType to);
/// The number as the dtype has it.
Element converted(const Scalar &x, DType to);
/// `f` over the elements, at the trust of `x`.
Array map(const Array &x, DType dtype, const std::function<Element(Element)> &f);
/// What is left when something is computed from both.
Trust through(Trust a, Trust b);

/// "" or the first element that differs; `found` has the shape and dtype of `expected`.
std::string difference(const Array &expected, const Array &found);
std::string to_string(const Extents &shape);
std::string to_string(DType dtype, Element x);

} // namespace lz::test::calls
