#include "array.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace lz::test::calls {

DefaultMode::DefaultMode() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
}
DefaultMode::~DefaultMode() {
    std::fesetenv(&before_);
}

const char *name(ErrorType type) {
    switch (type) {
    case ErrorType::Shape:
        return "ShapeError";
    case ErrorType::DType:
        return "DTypeError";
    case ErrorType::Index:
        return "IndexError";
    case ErrorType::State:
        return "StateError";
    case ErrorType::Device:
        return "DeviceError";
    case ErrorType::OutOfMemory:
        return "OutOfMemoryError";
    }
    return "";
}

int64_t count(const Extents &shape) {
    int64_t n = 1;
    for (const int64_t extent : shape)
        n *= extent;
    return n;
}

Array make(DType dtype, const Extents &shape) {
    Array out;
    out.dtype = dtype;
    out.shape = shape;
    out.at.resize(static_cast<size_t>(count(shape)), Element{.i = 0});
    return out;
}

bool is_float(DType t) {
    return t == f16 || t == bf16 || t == f32 || t == f64;
}

int bits_of(DType t) {
    switch (t) {
    case DType::Bool:
        return 1;
    case DType::U8:
    case DType::I8:
        return 8;
    case DType::I16:
        return 16;
    case DType::I32:
        return 32;
    default:
        return 64;
    }
}

DType promoted(DType a, DType b) {
    if (a == b)
        return a;
    if (is_float(a) && is_float(b)) {
        if (a == f64 || b == f64)
            return f64;
        return f32; // f16 with bf16, and either with f32
    }
    if (is_float(a))
        return a;
    if (is_float(b))
        return b;
    if (a == boolean)
        return b;
    if (b == boolean)
        return a;
    if (a == u8 || b == u8) {
        const DType other = a == u8 ? b : a;
        return other == i8 ? i16 : other;
    }
    return bits_of(a) > bits_of(b) ? a : b;
}

Extents broadcast(const Extents &a, const Extents &b) {
    Extents out(std::max(a.size(), b.size()));
    for (size_t k = 0; k < out.size(); ++k) {
        const int64_t x = k < a.size() ? a[a.size() - 1 - k] : 1, y = k < b.size() ? b[b.size() - 1 - k] : 1;
        if (x != y && x != 1 && y != 1)
            throw Mistake(ErrorType::Shape,
                          fmt::format("{} and {} do not broadcast", to_string(a), to_string(b)));
        out[out.size() - 1 - k] = x == 1 ? y : x;
    }
    return out;
}

Extents coordinates(const Extents &shape, int64_t k) {
    Extents at(shape.size());
    for (size_t a = shape.size(); a-- > 0; k /= shape[a])
        at[a] = k % shape[a];
    return at;
}

int64_t position(const Extents &shape, const Extents &at) {
    int64_t k = 0;
    for (size_t a = 0; a < shape.size(); ++a)
        k = k * shape[a] + at[a];
    return k;
}

std::vector<int64_t> positions(const Extents &from, const Extents &to) {
    std::vector<int64_t> out(static_cast<size_t>(count(to)));
    for (size_t k = 0; k < out.size(); ++k) {
        const Extents at = coordinates(to, static_cast<int64_t>(k));
        int64_t p = 0;
        for (size_t a = 0; a < from.size(); ++a)
            p = p * from[a] + (from[a] == 1 ? 0 : at[at.size() - from.size() + a]);
        out[k] = p;
    }
    return out;
}

Array taken(const Array &x, const Extents &shape, const std::vector<int64_t> &from, Element otherwise) {
    Array out = make(x.dtype, shape);
    out.trust = x.trust;
    out.ulps = x.ulps;
    out.device = x.device;
    if (!x.absolute.empty())
        out.absolute.resize(out.at.size(), 0);
    for (size_t k = 0; k < out.at.size(); ++k) {
        const auto p = static_cast<size_t>(from[k]);
        out.at[k] = from[k] < 0 ? otherwise : x.at[p];
        if (!x.absolute.empty() && from[k] >= 0)
            out.absolute[k] = x.absolute[p];
    }
    return out;
}

Array broadcast_to(const Array &x, const Extents &shape) {
    return taken(x, shape, positions(x.shape, shape));
}

double rounded(DType t, double x) {
    if (t == f64 || x == 0 || !std::isfinite(x))
        return x;
    if (t == f32)
        return static_cast<double>(static_cast<float>(x));
    const int mantissa = t == f16 ? 10 : 7, lowest = t == f16 ? -14 : -126;
    const double largest = t == f16 ? 65504 : 0x1.FEp127;
    int exponent = 0;
    std::frexp(x, &exponent);
    exponent = std::max(exponent - 1, lowest) - mantissa;
    const double y = std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
    return std::fabs(y) > largest ? std::copysign(INFINITY, x) : y;
}

int64_t wrapped(DType t, int64_t x) {
    switch (t) {
    case DType::Bool:
        return x != 0;
    case DType::U8:
        return static_cast<uint8_t>(x);
    case DType::I8:
        return static_cast<int8_t>(x);
    case DType::I16:
        return static_cast<int16_t>(x);
    case DType::I32:
        return static_cast<int32_t>(x);
    default:
        return x;
    }
}

Element converted(DType from, DType to, Element x) {
    if (is_float(from)) {
        if (is_float(to))
            return {.f = rounded(to, x.f)};
        if (to == boolean)
            return {.i = x.f != 0};
        if (std::isnan(x.f))
            return {.i = 0};
        // Saturates; the limits of i64 are not all doubles.
        const int bits = bits_of(to);
        const double top = to == u8 ? 256 : std::ldexp(1.0, bits - 1), bottom = to == u8 ? 0 : -top;
        const double y = std::trunc(x.f);
        if (y >= top)
            return {.i = to == i64 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(top) - 1};
        return {.i = y <= bottom ? static_cast<int64_t>(bottom) : static_cast<int64_t>(y)};
    }
    if (to == f32 || to == f16 || to == bf16) { // once, and not by way of a double
        const auto y = static_cast<double>(static_cast<float>(x.i));
        return {.f = rounded(to, y)};
    }
    if (to == f64)
        return {.f = static_cast<double>(x.i)};
    return {.i = wrapped(to, x.i)};
}

Trust through(Trust a, Trust b) {
    return a == Trust::Exact && b == Trust::Exact ? Trust::Exact : Trust::Unknown;
}

Array map(const Array &x, DType dtype, const std::function<Element(Element)> &f) {
    Array out = make(dtype, x.shape);
    out.trust = through(x.trust, x.trust);
    out.device = x.device;
    for (size_t k = 0; k < x.at.size(); ++k)
        out.at[k] = f(x.at[k]);
    return out;
}

Array converted(const Array &x, DType to) {
    if (x.dtype == to)
        return x;
    return map(x, to, [&](Element e) { return converted(x.dtype, to, e); });
}

Element converted(const Scalar &x, DType to) {
    if (x.is_float())
        return converted(f64, to, {.f = x.to_double()});
    if (x.category() == Scalar::Category::Bool)
        return converted(boolean, to, {.i = x.to_int()});
    return converted(i64, to, {.i = x.to_int()});
}

namespace {

/// Floats of the dtype on a line of integers; neighbours differ by 1.
int64_t on_line(DType t, double x) {
    int64_t word = 0;
    if (t == f64) {
        std::memcpy(&word, &x, 8);
        return word < 0 ? std::numeric_limits<int64_t>::min() - word : word;
    }
    if (t == f16) { // half as many exponents as f32, so by hand
        if (std::isinf(x))
            x = std::copysign(65536, x);
        int exponent = 0;
        const double m = std::frexp(std::fabs(x), &exponent);
        const int e = std::max(exponent - 1, -14);
        const auto steps = static_cast<int64_t>(std::ldexp(m, exponent - e + 10)) + (e + 14) * int64_t{1024};
        return std::signbit(x) ? -steps : steps;
    }
    const auto y = static_cast<float>(x);
    int32_t half = 0;
    std::memcpy(&half, &y, 4);
    int64_t line = half < 0 ? static_cast<int64_t>(std::numeric_limits<int32_t>::min()) - half : half;
    if (t == bf16)
        line /= 65536;
    return line;
}

} // namespace

std::string difference(const Array &expected, const Array &found) {
    if (expected.trust == Trust::Unknown)
        return "";
    for (size_t k = 0; k < expected.at.size(); ++k) {
        const Element e = expected.at[k], f = found.at[k];
        bool same = false;
        if (!is_float(expected.dtype)) {
            same = e.i == f.i;
        } else if (std::isnan(e.f) || std::isnan(f.f)) {
            same = std::isnan(e.f) && std::isnan(f.f);
        } else if (expected.trust == Trust::Exact) {
            same = e.f == f.f && std::signbit(e.f) == std::signbit(f.f);
        } else if (!expected.absolute.empty()) {
            same = e.f == f.f || std::fabs(e.f - f.f) <= expected.absolute[k];
        } else {
            same = e.f == 0 ? f.f == 0 && std::signbit(e.f) == std::signbit(f.f)
                            : static_cast<double>(std::llabs(on_line(expected.dtype, e.f) -
                                                             on_line(expected.dtype, f.f))) <= expected.ulps;
        }
        if (!same)
            return fmt::format("element {} of {}{} is {}, not {}{}", k, name(expected.dtype),
                               to_string(expected.shape), to_string(expected.dtype, f),
                               to_string(expected.dtype, e),
                               expected.trust == Trust::Exact ? ""
                               : expected.absolute.empty() ? fmt::format(" within {} ULP", expected.ulps)
                                                           : fmt::format(" within {}", expected.absolute[k]));
    }
    return "";
}

std::string to_string(const Extents &shape) {
    return fmt::format("{{{}}}", fmt::join(shape, ", "));
}

std::string to_string(DType dtype, Element x) {
    return is_float(dtype) ? fmt::format("{} ({:a})", x.f, x.f) : fmt::format("{}", x.i);
}

} // namespace lz::test::calls
