// Reductions, scans, sorting and products. A sum is exact where every partial sum in any order is; elsewhere
// its last bits depend on the order, which is the compiler's, and it is compared within a bound.
#include "sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "row_macros.h"

namespace lz::test::calls {

namespace {

DType sum_dtype(DType t) {
    return is_float(t) ? t : i64;
}

Array summed(const Array &given, const Extents &axes, bool keepdim, bool mean) {
    if (mean && !is_float(given.dtype))
        throw Mistake(ErrorType::DType, "the mean of integers");
    const Axes a = axes_of(given.shape, axes, keepdim);
    const Array x = converted(given, sum_dtype(given.dtype));
    Results out(x.dtype, a.shape, x);
    const auto parts = groups(x.shape, a);
    for (size_t k = 0; k < parts.size(); ++k) {
        if (!is_float(x.dtype)) {
            uint64_t sum = 0;
            for (const int64_t p : parts[k])
                sum += static_cast<uint64_t>(x.at[static_cast<size_t>(p)].i);
            out.at(k).i = static_cast<int64_t>(sum);
            continue;
        }
        Sum sum(x.dtype == f64 ? f64 : f32);
        for (const int64_t p : parts[k])
            sum.add(x.at[static_cast<size_t>(p)].f);
        if (mean && parts[k].empty())
            out.at(k).f = NAN;
        else
            out.put(k, sum, mean ? static_cast<double>(parts[k].size()) : 1);
    }
    return out.done();
}

Array multiplied(const Array &given, const Extents &axes, bool keepdim) {
    const Axes a = axes_of(given.shape, axes, keepdim);
    const Array x = converted(given, sum_dtype(given.dtype));
    Results out(x.dtype, a.shape, x);
    const auto parts = groups(x.shape, a);
    for (size_t k = 0; k < parts.size(); ++k) {
        if (!is_float(x.dtype)) {
            uint64_t product = 1;
            for (const int64_t p : parts[k])
                product *= static_cast<uint64_t>(x.at[static_cast<size_t>(p)].i);
            out.at(k).i = static_cast<int64_t>(product);
            continue;
        }
        double product = 1, logs = 0, bits = 0;
        bool special = false;
        for (const int64_t p : parts[k]) {
            const double y = x.at[static_cast<size_t>(p)].f;
            product *= y;
            special |= !std::isfinite(y);
            if (y != 0 && std::isfinite(y)) {
                int e = 0;
                const auto whole = static_cast<uint64_t>(std::fabs(std::ldexp(std::frexp(y, &e), 53)));
                bits += 53 - std::countr_zero(whole);
                logs += std::fabs(std::log2(std::fabs(y)));
            }
        }
        const DType work = x.dtype == f64 ? f64 : f32;
        out.at(k).f = rounded(x.dtype, rounded(work, product));
        const bool known = logs < 100 && (!special || std::isnan(product));
        if (!known || bits > (work == f64 ? 53 : 24))
            out.inexact(k,
                        std::fabs(product) * static_cast<double>(parts[k].size()) *
                            (work == f64 ? 0x1p-52 : 0x1p-23),
                        known);
    }
    return out.done();
}

/// Whether y comes before x: the largest (smallest) first, NaN counting as the largest.
bool larger(DType t, Element x, Element y) {
    if (!is_float(t))
        return x.i > y.i;
    if (std::isnan(x.f) || std::isnan(y.f))
        return std::isnan(x.f) && !std::isnan(y.f);
    return x.f > y.f;
}

} // namespace

/// amax and argmax, amin and argmin: NaN is the extreme where there is one, the first of equals counts.
std::pair<Array, Array> extreme(const Array &x, const Extents &axes, bool keepdim, Find find) {
    const Axes a = axes_of(x.shape, axes, keepdim);
    for (size_t i = 0; i < x.shape.size(); ++i)
        if (a.reduced[i] && x.shape[i] == 0)
            throw Mistake(ErrorType::Shape, "the extreme of nothing");
    Array values = make(x.dtype, a.shape), indices = make(i64, a.shape);
    values.trust = indices.trust = through(x.trust, x.trust);
    values.device = indices.device = x.device;
    const auto parts = groups(x.shape, a);
    for (size_t k = 0; k < parts.size(); ++k) {
        size_t best = 0;
        for (size_t p = 1; p < parts[k].size(); ++p) {
            const Element e = x.at[static_cast<size_t>(parts[k][p])],
                          b = x.at[static_cast<size_t>(parts[k][best])];
            const bool nan = is_float(x.dtype) && std::isnan(b.f);
            const bool now_nan = is_float(x.dtype) && std::isnan(e.f);
            if (!nan && (now_nan || (find == Find::Max ? larger(x.dtype, e, b) : larger(x.dtype, b, e))))
                best = p;
        }
        values.at[k] = x.at[static_cast<size_t>(parts[k][best])];
        indices.at[k].i = static_cast<int64_t>(best);
        if (is_float(x.dtype) && values.at[k].f == 0) // of two zeros either
            for (const int64_t p : parts[k])
                if (std::signbit(x.at[static_cast<size_t>(p)].f) != std::signbit(values.at[k].f) &&
                    x.at[static_cast<size_t>(p)].f == 0 && values.trust == Trust::Exact) {
                    values.trust = Trust::Close;
                    values.absolute.assign(values.at.size(), 0);
                }
    }
    return {values, indices};
}

std::pair<Array, Array> sorted(const Array &x, int64_t axis, bool descending, std::optional<int64_t> k) {
    const bool number = x.shape.empty();
    const Extents shape = number ? Extents{1} : x.shape;
    const size_t a = axis_of(axis, shape.size());
    if (k && (*k < 0 || *k > shape[a]))
        throw Mistake(ErrorType::Index, "topk of more than there are");
    Extents result = shape;
    if (k)
        result[a] = *k;
    Array values = make(x.dtype, number ? Extents{} : result), indices = make(i64, values.shape);
    if (number) {
        result = {1};
        values = make(x.dtype, {});
        indices = make(i64, {});
    }
    values.trust = indices.trust = through(x.trust, x.trust);
    values.device = indices.device = x.device;
    Extents one(shape.size(), 0);
    Axes axes;
    axes.reduced.resize(shape.size(), false);
    axes.reduced[a] = true;
    axes.kept = shape;
    axes.kept[a] = 1;
    const auto rows = groups(shape, axes);
    for (size_t r = 0; r < rows.size(); ++r) {
        std::vector<int64_t> order(rows[r].size());
        std::iota(order.begin(), order.end(), int64_t{0});
        const auto element = [&](int64_t i) {
            return x.at[static_cast<size_t>(rows[r][static_cast<size_t>(i)])];
        };
        const auto before = [&](int64_t i, int64_t j) {
            return descending ? larger(x.dtype, element(i), element(j))
                              : larger(x.dtype, element(j), element(i));
        };
        std::ranges::sort(order, [&](int64_t i, int64_t j) { // stable
            return before(i, j) || (!before(j, i) && i < j);
        });
        for (int64_t i = 0; i < result[a]; ++i) {
            Extents at = coordinates(axes.kept, static_cast<int64_t>(r));
            at[a] = i;
            const auto p = static_cast<size_t>(position(result, at));
            values.at[p] = element(order[static_cast<size_t>(i)]);
            indices.at[p].i = order[static_cast<size_t>(i)];
        }
    }
    return {values, indices};
}

namespace {

Array scanned(const Array &given, int64_t axis, bool product) {
    const Array x = converted(given, sum_dtype(given.dtype));
    if (x.shape.empty() && axis >= -1 && axis <= 0)
        return x;
    const size_t a = axis_of(axis, x.shape.size());
    Results out(x.dtype, x.shape, x);
    for (size_t k = 0; k < x.at.size(); ++k) {
        const Extents at = coordinates(x.shape, static_cast<int64_t>(k));
        uint64_t whole = product ? 1 : 0;
        Sum sum(x.dtype == f64 ? f64 : f32);
        for (int64_t i = 0; i <= at[a]; ++i) {
            Extents source = at;
            source[a] = i;
            const Element e = x.at[static_cast<size_t>(position(x.shape, source))];
            if (is_float(x.dtype))
                sum.add(e.f);
            else
                whole = product ? whole * static_cast<uint64_t>(e.i) : whole + static_cast<uint64_t>(e.i);
        }
        if (is_float(x.dtype))
            out.put(k, sum);
        else
            out.at(k).i = static_cast<int64_t>(whole);
    }
    return out.done();
}

/// Two matrices, vectors as rows and columns.
Array product(const Oracle &o, const Statement &s) {
    const Array &a = o.value(s.args[0]), &b = o.value(s.args[1]);
    if (a.shape.size() != 2 || b.shape.size() != 2 || a.shape[1] != b.shape[0])
        throw Mistake(ErrorType::Shape, "no matrices that fit");
    if (a.dtype != b.dtype || a.dtype == boolean)
        throw Mistake(ErrorType::DType, "matrices of two dtypes");
    Array like = a;
    like.trust = through(a.trust, b.trust);
    Results out(a.dtype, {a.shape[0], b.shape[1]}, like);
    for (int64_t i = 0; i < a.shape[0]; ++i)
        for (int64_t j = 0; j < b.shape[1]; ++j) {
            const auto k = static_cast<size_t>(i * b.shape[1] + j);
            uint64_t whole = 0;
            Sum sum(a.dtype == f64 ? f64 : f32);
            for (int64_t l = 0; l < a.shape[1]; ++l) {
                const Element p = a.at[static_cast<size_t>(i * a.shape[1] + l)],
                              q = b.at[static_cast<size_t>(l * b.shape[1] + j)];
                if (is_float(a.dtype))
                    sum.add(p.f * q.f);
                else
                    whole += static_cast<uint64_t>(p.i) * static_cast<uint64_t>(q.i);
            }
            if (is_float(a.dtype))
                out.put(k, sum);
            else
                out.at(k).i = wrapped(a.dtype, static_cast<int64_t>(whole));
        }
    return out.done();
}

/// One axis (ints[0]) and a bool (ints[1]); two results.
bool make_pair(Maker &m, Statement &s) {
    if (!make_one_to_one(m, s))
        return false;
    const auto rank = static_cast<int64_t>(m.oracle.value(s.args[0]).shape.size());
    s.ints = {rank == 0 ? -m.below(2) : m.between(-rank, rank - 1), m.below(2)};
    for (int tries = 0; s.out.size() < 2 && tries < 9; ++tries)
        if (const int other = m.target(); other != s.out[0])
            s.out.push_back(other);
    return s.out.size() == 2;
}

} // namespace

bool make_reduction(Maker &m, Statement &s) {
    if (!make_one_to_one(m, s))
        return false;
    const Array &x = m.oracle.value(s.args[0]);
    Extents axes;
    for (size_t a = 0; a < x.shape.size(); ++a)
        if (m.once_in(2))
            axes.push_back(static_cast<int64_t>(a) -
                           (m.once_in(3) ? static_cast<int64_t>(x.shape.size()) : 0));
    if (m.once_in(60))
        axes.push_back(m.between(-9, 9));
    s.sizes = {axes};
    s.ints = {m.below(2)};
    return true;
}

void add_reduction_rows(std::vector<Row> &rows) {
#define loc c.loc
    const auto reduction = [&](std::string text, std::function<void(Call &)> run,
                               Array (*rule)(const Array &, const Extents &, bool), int weight,
                               bool empties) {
        rows.push_back({std::move(text), std::move(run),
                        [rule](Oracle &o, const Statement &s) {
                            o.set(s.out[0], rule(o.value(s.args[0]), s.sizes[0], s.ints[0] != 0));
                        },
                        make_reduction, weight, empties});
    };
    const auto sum = [](const Array &x, const Extents &axes, bool keepdim) {
        return summed(x, axes, keepdim, false);
    };
    reduction(LZ_CALL(lz::sum(T0, S0, B0, std::nullopt, loc)), sum, 40, false);
    reduction(LZ_CALL(M0.sum(S0, B0, std::nullopt, loc)), sum, 10, true);
    reduction(
        LZ_CALL(lz::mean(T0, S0, B0, std::nullopt, loc)),
        [](const Array &x, const Extents &axes, bool keepdim) { return summed(x, axes, keepdim, true); }, 15,
        false);
    reduction(LZ_CALL(lz::prod(T0, S0, B0, std::nullopt, loc)), multiplied, 20, false);
    reduction(
        LZ_CALL(lz::amax(T0, S0, B0, loc)),
        [](const Array &x, const Extents &axes, bool keepdim) {
            return extreme(x, axes, keepdim, Find::Max).first;
        },
        15, false);
    reduction(
        LZ_CALL(lz::amin(T0, S0, B0, loc)),
        [](const Array &x, const Extents &axes, bool keepdim) {
            return extreme(x, axes, keepdim, Find::Min).first;
        },
        15, false);
    const auto truth = [&](std::string text, std::function<void(Call &)> run, bool all) {
        rows.push_back({std::move(text), std::move(run),
                        [all](Oracle &o, const Statement &s) {
                            const Array x = converted(o.value(s.args[0]), boolean);
                            const Axes a = axes_of(x.shape, s.sizes[0], s.ints[0] != 0);
                            Array out = make(boolean, a.shape);
                            out.trust = x.trust;
                            out.device = x.device;
                            const auto parts = groups(x.shape, a);
                            for (size_t k = 0; k < parts.size(); ++k) {
                                out.at[k].i = all;
                                for (const int64_t p : parts[k])
                                    out.at[k].i = all ? out.at[k].i & x.at[static_cast<size_t>(p)].i
                                                      : out.at[k].i | x.at[static_cast<size_t>(p)].i;
                            }
                            o.set(s.out[0], out);
                        },
                        make_reduction, 8});
    };
    truth(LZ_CALL(lz::any(T0, S0, B0, loc)), false);
    truth(LZ_CALL(lz::all(T0, S0, B0, loc)), true);
    const auto pair = [&](std::string text, std::function<void(Call &)> run,
                          std::pair<Array, Array> (*rule)(const Array &, const Statement &), int weight,
                          bool empties = false) {
        rows.push_back({std::move(text), std::move(run),
                        [rule](Oracle &o, const Statement &s) {
                            auto [values, indices] = rule(o.value(s.args[0]), s);
                            o.set(s.out[0], std::move(values));
                            o.set(s.out[1], std::move(indices));
                        },
                        make_pair, weight, empties});
    };
    const auto sort = [](const Array &x, const Statement &s) {
        return sorted(x, s.ints[0], s.ints[1] != 0, {});
    };
    pair(LZ_CALL(lz::sort(T0, I0, B1, loc)), sort, 25);
    pair(LZ_CALL(M0.sort(I0, B1, loc)), sort, 15, true);
    rows.push_back({LZ_CALL(lz::topk(T0, I2, I0, B1, loc)),
                    [](Oracle &o, const Statement &s) {
                        auto [values, indices] =
                            sorted(o.value(s.args[0]), s.ints[0], s.ints[1] != 0, s.ints[2]);
                        o.set(s.out[0], std::move(values));
                        o.set(s.out[1], std::move(indices));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_pair(m, s))
                            return false;
                        const Array &x = m.oracle.value(s.args[0]);
                        const auto rank = static_cast<int64_t>(x.shape.size());
                        if (rank == 0)
                            return false;
                        const int64_t a = s.ints[0] < 0 ? s.ints[0] + rank : s.ints[0];
                        s.ints.push_back(m.between(0, x.shape[static_cast<size_t>(a)] + m.once_in(30)));
                        return true;
                    },
                    25});
    pair(
        LZ_CALL(lz::max(T0, I0, B1, loc)),
        [](const Array &x, const Statement &s) { return extreme(x, {s.ints[0]}, s.ints[1] != 0, Find::Max); },
        10);
    pair(
        LZ_CALL(lz::min(T0, I0, B1, loc)),
        [](const Array &x, const Statement &s) { return extreme(x, {s.ints[0]}, s.ints[1] != 0, Find::Min); },
        10);
    const auto scan = [&](std::string text, std::function<void(Call &)> run, bool product) {
        rows.push_back({std::move(text), std::move(run),
                        [product](Oracle &o, const Statement &s) {
                            o.set(s.out[0], scanned(o.value(s.args[0]), s.ints[0], product));
                        },
                        [product](Maker &m, Statement &s) {
                            if (!make_one_to_one(m, s))
                                return false;
                            const Array &x = m.oracle.value(s.args[0]);
                            const auto rank = static_cast<int64_t>(x.shape.size());
                            s.ints = {rank == 0 ? 0 : m.between(-rank, rank - 1)};
                            return !product || !is_float(x.dtype);
                        },
                        10});
    };
    scan(LZ_CALL(lz::cumsum(T0, I0, std::nullopt, loc)), false);
    scan(LZ_CALL(lz::cumprod(T0, I0, std::nullopt, loc)), true);
    rows.push_back(
        {LZ_CALL(lz::mm(T0, T1, loc)), [](Oracle &o, const Statement &s) { o.set(s.out[0], product(o, s)); },
         [](Maker &m, Statement &s) {
             const auto a = m.any([](const Array &v) { return v.shape.size() == 2 && v.dtype != boolean; });
             if (!a)
                 return false;
             const Array &x = m.oracle.value(*a);
             const auto b = m.any([&](const Array &v) {
                 return v.shape.size() == 2 && v.shape[0] == x.shape[1] && meets(x, v) &&
                        (v.dtype == x.dtype || m.once_in(40));
             });
             if (!b)
                 return false;
             s.args = {Arg::of(*a), Arg::of(*b)};
             s.out = {m.target()};
             return true;
         },
         30});
#undef loc
}

} // namespace lz::test::calls
