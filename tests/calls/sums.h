#pragma once
/// What reductions of the second implementation are made of: sums and how well they are known, results that
/// may be off by something, and which elements meet.

#include "rows.h"

namespace lz::test::calls {

/// Numbers that are added up, as far as their order can matter.
class Sum {
public:
    explicit Sum(DType compute) : bits_(compute == f64 ? 53 : 24), eps_(compute == f64 ? 0x1p-52 : 0x1p-23) {}
    void add(double x);
    double value() const;
    /// Whether every order gives the same.
    bool exact() const;
    bool known() const { return size_ < 1e37 || bits_ == 53; }
    bool negative_zero() const {
        return count_ > 0 && size_ == 0 && !nan_ && !up_ && !down_ && negative_zeros_;
    }
    double bound() const { return static_cast<double>(count_ + 1) * eps_ * size_ + 1e-300; }

private:
    int bits_;
    double eps_;
    bool nan_ = false, up_ = false, down_ = false, negative_zeros_ = true;
    long double sum_ = 0;
    double size_ = 0;
    int64_t count_ = 0;
    int quantum_ = 100000;
};

/// A result whose elements may each be off by something.
class Results {
public:
    Results(DType dtype, const Extents &shape, const Array &like);
    void put(size_t k, const Sum &sum, double scale = 1);
    void inexact(size_t k, double bound, bool known = true);
    /// Computed in the dtype of the computation and rounded once; off by `bound` before.
    void put(size_t k, long double value, double bound, bool known = true);
    Element &at(size_t k) { return out_.at[k]; }
    Array done();

private:
    Array out_;
    std::vector<double> off_;
    bool close_ = false, known_ = true;
};

struct Axes {
    std::vector<bool> reduced;
    Extents shape; ///< of the result
    Extents kept;  ///< the same with axes of extent 1
};

/// No axes: all of them. Throws Mistake(Index).
Axes axes_of(const Extents &shape, const Extents &given, bool keepdim);
/// The elements that each element of the result is made of, in row-major order.
std::vector<std::vector<int64_t>> groups(const Extents &shape, const Axes &axes);
/// Axes (sizes[0]) and keepdim (ints[0]).
bool make_reduction(Maker &m, Statement &s);

} // namespace lz::test::calls
