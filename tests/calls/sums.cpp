// Sums as far as their order can matter, and bounds.
#include "sums.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lz::test::calls {

void Sum::add(double x) {
    nan_ |= std::isnan(x);
    up_ |= x == INFINITY;
    down_ |= x == -INFINITY;
    if (!std::isfinite(x))
        return;
    ++count_;
    sum_ += static_cast<long double>(x);
    size_ += std::fabs(x);
    negative_zeros_ &= std::signbit(x);
    if (x == 0)
        return;
    int e = 0;
    const double m = std::frexp(x, &e);
    const auto whole = static_cast<int64_t>(std::ldexp(m, 53));
    quantum_ = std::min(quantum_, e - 53 + std::countr_zero(static_cast<uint64_t>(std::llabs(whole))));
}

double Sum::value() const {
    if (nan_ || (up_ && down_))
        return NAN;
    if (up_ || down_)
        return up_ ? INFINITY : -INFINITY;
    if (sum_ == 0)
        return 0.0;
    return static_cast<double>(sum_);
}

bool Sum::exact() const {
    if (nan_ || up_ || down_)
        return nan_ || size_ < 1e30; // what is finite does not become infinite on the way
    return size_ == 0 || std::ldexp(size_, -quantum_) <= std::ldexp(1.0, bits_);
}

Results::Results(DType dtype, const Extents &shape, const Array &like) : out_(make(dtype, shape)) {
    out_.device = like.device;
    out_.trust = through(like.trust, like.trust);
    off_.resize(out_.at.size(), 0);
}

void Results::put(size_t k, const Sum &sum, double scale) {
    const DType work = out_.dtype == f64 ? f64 : f32;
    double y = rounded(work, sum.value());
    if (scale != 1)
        y = rounded(work, y / scale);
    out_.at[k].f = rounded(out_.dtype, y);
    if (sum.negative_zero()) // of zeros: either
        inexact(k, 0);
    if (!sum.exact())
        inexact(k, sum.bound() / scale, sum.known());
}

void Results::put(size_t k, long double value, double bound, bool known) {
    const DType work = out_.dtype == f64 ? f64 : f32;
    out_.at[k].f = rounded(out_.dtype, rounded(work, static_cast<double>(value)));
    if (!std::isnan(value))
        inexact(k, bound, known);
}

void Results::inexact(size_t k, double bound, bool known) {
    const double y = out_.at[k].f;
    const double unit = out_.dtype == f16 ? 0x1p-10 : out_.dtype == bf16 ? 0x1p-7 : 0x1p-52;
    off_[k] = bound + (std::isfinite(y) ? std::fabs(y) * unit : 0) + (out_.dtype == f16 ? 6e-8 : 0);
    close_ = true;
    known_ &= known && (std::isfinite(y) || std::isnan(y));
}

Array Results::done() {
    if (out_.trust == Trust::Exact && close_) {
        out_.trust = known_ ? Trust::Close : Trust::Unknown;
        out_.absolute = off_;
    }
    return std::move(out_);
}

Axes axes_of(const Extents &shape, const Extents &given, bool keepdim) {
    Axes out;
    out.reduced.resize(shape.size(), given.empty());
    for (const int64_t axis : given) {
        if (shape.empty() && axis >= -1 && axis <= 0)
            continue;
        const size_t a = axis_of(axis, shape.size());
        if (out.reduced[a])
            throw Mistake(ErrorType::Index, "an axis twice");
        out.reduced[a] = true;
    }
    for (size_t a = 0; a < shape.size(); ++a) {
        out.kept.push_back(out.reduced[a] ? 1 : shape[a]);
        if (keepdim || !out.reduced[a])
            out.shape.push_back(out.kept.back());
    }
    return out;
}

std::vector<std::vector<int64_t>> groups(const Extents &shape, const Axes &axes) {
    std::vector<std::vector<int64_t>> out(static_cast<size_t>(count(axes.kept)));
    for (int64_t k = 0; k < count(shape); ++k) {
        Extents at = coordinates(shape, k);
        for (size_t a = 0; a < at.size(); ++a)
            if (axes.reduced[a])
                at[a] = 0;
        out[static_cast<size_t>(position(axes.kept, at))].push_back(k);
    }
    return out;
}

} // namespace lz::test::calls
