// Softmax and its relatives, variances, and where extremes are. What rounds on the way is known within a
// bound that is worked out step by step, in units of the dtype of the computation.
#include "sums.h"

#include <algorithm>
#include <cmath>

#include "row_macros.h"

namespace lz::test::calls {

namespace {

double unit(DType t) {
    return t == f64 ? 0x1p-52 : 0x1p-23;
}
/// More than the smallest number that a dtype of computation has.
double smallest(DType t) {
    return t == f64 ? 1e-322 : 1e-43;
}

void check_float(const Array &x) {
    if (!is_float(x.dtype))
        throw Mistake(ErrorType::DType, "floats only");
}

/// exp(x - max) over the elements of one group.
struct Powers {
    Powers(const Array &x, const std::vector<int64_t> &group) {
        for (const int64_t p : group) {
            const double v = x.at[static_cast<size_t>(p)].f;
            top = std::isnan(v) || v > top ? v : top;
        }
        for (const int64_t p : group) {
            const long double below = static_cast<long double>(x.at[static_cast<size_t>(p)].f) - top;
            const long double e = std::exp(below);
            total += e;
            if (e > 0)
                off += e * std::fabs(below);
            shifted.push_back(below);
        }
        // Each term is off by the rounding of x - max and by exp's own, the sum by one of each step.
        off = off / total + static_cast<long double>(group.size()) + 6;
    }
    double top = -INFINITY;
    long double total = 0, off = 0; ///< off: of the total, relative, in units
    std::vector<long double> shifted;
};

Array softmax(const Array &given, int64_t axis, bool logarithm) {
    check_float(given);
    Array x = given;
    if (x.shape.empty() && (axis == 0 || axis == -1))
        x.shape = {1};
    const size_t a = axis_of(axis, x.shape.size());
    Results out(x.dtype, given.shape, x);
    const double eps = unit(x.dtype);
    for (const std::vector<int64_t> &group :
         groups(x.shape, axes_of(x.shape, {static_cast<int64_t>(a)}, true))) {
        const Powers powers(x, group);
        for (size_t k = 0; k < group.size(); ++k) {
            const long double below = powers.shifted[k];
            const auto p = static_cast<size_t>(group[k]);
            if (logarithm) {
                const long double y = below - std::log(powers.total);
                const long double off =
                    std::fabs(below) + powers.off + 4 * std::log(powers.total) + 2 * std::fabs(y);
                out.put(p, y, static_cast<double>(off) * eps, std::fabs(y) < 1e37L || x.dtype == f64);
            } else {
                const long double y = std::exp(below) / powers.total;
                const long double off = y > 0 ? y * (std::fabs(below) + powers.off + 6) : 0;
                out.put(p, y, static_cast<double>(off) * eps + smallest(x.dtype));
            }
        }
    }
    return out.done();
}

Array logsumexp(const Array &given, const Extents &axes, bool keepdim) {
    const Array x = is_float(given.dtype) ? given : converted(given, f32);
    const Axes a = axes_of(x.shape, axes, keepdim);
    Results out(x.dtype, a.shape, x);
    const auto parts = groups(x.shape, a);
    for (size_t k = 0; k < parts.size(); ++k) {
        const Powers powers(x, parts[k]);
        const long double y = powers.top + std::log(powers.total);
        const long double off =
            powers.off + 4 * std::log(powers.total) + 2 * std::fabs(y) + std::fabs(powers.top);
        const bool finite = std::ranges::all_of(
            parts[k], [&](int64_t p) { return std::fabs(x.at[static_cast<size_t>(p)].f) < 1e37; });
        out.put(k, y, static_cast<double>(off) * unit(x.dtype), finite && !parts[k].empty());
        if (!finite || parts[k].empty())
            out.inexact(k, 0, false);
    }
    return out.done();
}

/// Two passes: the mean first, then the squares of what each element is away from it.
Array variance(const Array &x, const Extents &axes, bool keepdim, int64_t correction, bool root) {
    check_float(x);
    const Axes a = axes_of(x.shape, axes, keepdim);
    Results out(x.dtype, a.shape, x);
    const double eps = unit(x.dtype);
    const auto parts = groups(x.shape, a);
    for (size_t k = 0; k < parts.size(); ++k) {
        const auto n = static_cast<int64_t>(parts[k].size());
        long double sum = 0, largest = 0, squares = 0, distances = 0;
        for (const int64_t p : parts[k]) {
            const long double v = x.at[static_cast<size_t>(p)].f;
            sum += v;
            largest = std::isnan(v) ? v : std::max(largest, std::fabs(v));
        }
        const long double mean = sum / static_cast<long double>(n);
        for (const int64_t p : parts[k]) {
            const long double off = x.at[static_cast<size_t>(p)].f - mean;
            squares += off * off;
            distances += std::fabs(off);
        }
        const long double divisor = static_cast<long double>(std::max<int64_t>(n - correction, 0));
        const long double value = squares / divisor;
        // The mean is off by d: so is each distance, by its own rounding as well.
        const long double d = static_cast<long double>(n + 3) * eps * largest;
        const long double off = ((static_cast<long double>(n) + 6) * eps * squares + 2 * distances * d +
                                 static_cast<long double>(n) * d * d) /
                                    divisor +
                                smallest(x.dtype);
        const bool known = divisor > 0 && largest < (x.dtype == f64 ? 1e150L : 1e17L);
        if (!root)
            out.put(k, value, static_cast<double>(off), known);
        else
            out.put(k, std::sqrt(value),
                    static_cast<double>(std::min(off / std::sqrt(value), std::sqrt(off)) +
                                        2 * eps * std::sqrt(value)),
                    known);
        if (!known && n > 1 && std::isfinite(static_cast<double>(largest)))
            out.inexact(k, 0, false);
    }
    return out.done();
}

bool make_along(Maker &m, Statement &s) {
    const bool careless = m.once_in(30);
    const auto x = m.any([&](const Array &v) { return careless || is_float(v.dtype); });
    if (!x)
        return false;
    s.args = {Arg::of(*x)};
    const auto rank = static_cast<int64_t>(m.oracle.value(*x).shape.size());
    s.ints = {rank == 0 || m.once_in(50) ? -m.below(4) : m.between(-rank, rank - 1)};
    s.out = {m.target()};
    return true;
}

bool make_spread(Maker &m, Statement &s) {
    if (!make_reduction(m, s))
        return false;
    s.ints.push_back(m.once_in(6) ? 2 : m.below(2));
    return is_float(m.oracle.value(s.args[0]).dtype) || m.once_in(20);
}

} // namespace

void add_statistics_rows(std::vector<Row> &rows) {
#define loc c.loc
    const auto along = [&](std::string text, std::function<void(Call &)> run, bool logarithm, bool empties) {
        rows.push_back({std::move(text), std::move(run),
                        [logarithm](Oracle &o, const Statement &s) {
                            o.set(s.out[0], softmax(o.value(s.args[0]), s.ints[0], logarithm));
                        },
                        make_along, 15, empties});
    };
    along(LZ_CALL(lz::softmax(T0, I0, std::nullopt, loc)), false, false);
    along(LZ_CALL(lz::log_softmax(T0, I0, std::nullopt, loc)), true, false);
    along(LZ_CALL(M0.softmax(I0, std::nullopt, loc)), false, true);
    const auto statistic = [&](std::string text, std::function<void(Call &)> run,
                               Array (*rule)(const Array &, const Statement &), int weight) {
        rows.push_back(
            {std::move(text), std::move(run),
             [rule](Oracle &o, const Statement &s) { o.set(s.out[0], rule(o.value(s.args[0]), s)); },
             make_spread, weight});
    };
    statistic(
        LZ_CALL(lz::var(T0, S0, I1, B0, loc)),
        [](const Array &x, const Statement &s) {
            return variance(x, s.sizes[0], s.ints[0] != 0, s.ints[1], false);
        },
        20);
    statistic(
        LZ_CALL(lz::std(T0, S0, I1, B0, loc)),
        [](const Array &x, const Statement &s) {
            return variance(x, s.sizes[0], s.ints[0] != 0, s.ints[1], true);
        },
        15);
    statistic(
        LZ_CALL(lz::logsumexp(T0, S0, B0, loc)),
        [](const Array &x, const Statement &s) { return logsumexp(x, s.sizes[0], s.ints[0] != 0); }, 10);
    // Where extremes are.
    const auto where = [&](std::string text, std::function<void(Call &)> run, Find find) {
        rows.push_back({std::move(text), std::move(run),
                        [find](Oracle &o, const Statement &s) {
                            const Array x = o.value(s.args[0]);
                            if (x.shape.empty()) // its one element
                                axes_of({1}, {s.ints[0]}, true);
                            o.set(s.out[0], extreme(x, {s.ints[0]}, s.ints[1] != 0, find).second);
                        },
                        [](Maker &m, Statement &s) {
                            if (!make_one_to_one(m, s))
                                return false;
                            const auto rank = static_cast<int64_t>(m.oracle.value(s.args[0]).shape.size());
                            s.ints = {rank == 0 ? -m.below(2) : m.between(-rank, rank - 1), m.below(2)};
                            return true;
                        },
                        10});
    };
    where(LZ_CALL(lz::argmax(T0, I0, B1, loc)), Find::Max);
    where(LZ_CALL(lz::argmin(T0, I0, B1, loc)), Find::Min);
    const auto in_a_row = [&](std::string text, std::function<void(Call &)> run, Find find) {
        rows.push_back({std::move(text), std::move(run),
                        [find](Oracle &o, const Statement &s) {
                            const Array &x = o.value(s.args[0]);
                            if (x.at.empty())
                                throw Mistake(ErrorType::Shape, "the extreme of nothing");
                            Array row = x;
                            row.shape = {static_cast<int64_t>(x.at.size())};
                            Array at = extreme(row, {0}, false, find).second;
                            if (s.ints[0])
                                at.shape = Extents(x.shape.size(), 1);
                            o.set(s.out[0], std::move(at));
                        },
                        [](Maker &m, Statement &s) {
                            s.ints = {m.below(2)};
                            return make_one_to_one(m, s);
                        },
                        6});
    };
    in_a_row(LZ_CALL(lz::argmax(T0, std::nullopt, B0, loc)), Find::Max);
    in_a_row(LZ_CALL(lz::argmin(T0, std::nullopt, B0, loc)), Find::Min);
    rows.push_back({LZ_CALL(lz::argsort(T0, I0, B1, loc)),
                    [](Oracle &o, const Statement &s) {
                        o.set(s.out[0], sorted(o.value(s.args[0]), s.ints[0], s.ints[1] != 0, {}).second);
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_along(m, s))
                            return false;
                        s.ints.push_back(m.below(2));
                        return true;
                    },
                    15});
#undef loc
}

} // namespace lz::test::calls
