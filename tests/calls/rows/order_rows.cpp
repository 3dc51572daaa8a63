// Places in an order, distinct values, and extremes of all elements so far.
#include "sums.h"

#include <algorithm>
#include <cmath>

#include "row_macros.h"

namespace lz::test::calls {

namespace {

bool is_nan(DType t, Element e) {
    return is_float(t) && std::isnan(e.f);
}
bool less(DType t, Element x, Element y) {
    return is_float(t) ? x.f < y.f : x.i < y.i;
}

/// The extreme so far and where the last of these is; NaN takes over, and only NaN takes over from it.
std::pair<Array, Array> running(const Array &x, int64_t axis, bool largest) {
    Array indices = make(i64, x.shape);
    indices.device = x.device;
    indices.trust = x.trust == Trust::Exact ? Trust::Exact : Trust::Unknown;
    if (x.shape.empty()) {
        axis_of(axis, 1);
        return {x, indices};
    }
    const size_t a = axis_of(axis, x.shape.size());
    std::vector<int64_t> from(x.at.size());
    for (size_t k = 0; k < from.size(); ++k) {
        Extents at = coordinates(x.shape, static_cast<int64_t>(k));
        from[k] = static_cast<int64_t>(k);
        if (at[a] == 0)
            continue;
        Extents before = at;
        --before[a];
        const auto p = static_cast<size_t>(position(x.shape, before));
        const Element now = x.at[k], best = x.at[static_cast<size_t>(from[p])];
        const bool takes =
            is_nan(x.dtype, now) ||
            (!is_nan(x.dtype, best) && !(largest ? less(x.dtype, now, best) : less(x.dtype, best, now)));
        if (takes) {
            indices.at[k].i = at[a];
        } else {
            from[k] = from[p];
            indices.at[k].i = indices.at[p].i;
        }
    }
    Array values = taken(x, x.shape, from);
    if (values.trust != Trust::Exact)
        values.trust = Trust::Unknown;
    return {values, indices};
}

/// By halving, as PyTorch: what is found in a row without an order is known, too.
Array places(const Array &sorted, const Array &values, bool right, bool narrow) {
    if (sorted.shape.empty())
        throw Mistake(ErrorType::Shape, "nothing to search in");
    bool fits = sorted.shape.size() == 1 || sorted.shape.size() == values.shape.size();
    for (size_t a = 0; fits && a + 1 < sorted.shape.size(); ++a)
        fits = sorted.shape[a] == values.shape[a];
    if (!fits)
        throw Mistake(ErrorType::Shape, "rows of other shapes");
    if (sorted.dtype != values.dtype)
        throw Mistake(ErrorType::DType, "two dtypes");
    Array out = make(narrow ? i32 : i64, values.shape);
    out.device = values.shape.empty() || values.device < 0 ? sorted.device : values.device;
    out.trust = through(sorted.trust, values.trust) == Trust::Exact ? Trust::Exact : Trust::Unknown;
    const int64_t n = sorted.shape.back();
    const int64_t each = sorted.shape.size() == 1 ? INT64_MAX : values.shape.back();
    for (size_t k = 0; k < out.at.size(); ++k) {
        const int64_t row = static_cast<int64_t>(k) / each * n;
        const Element v = values.at[k];
        int64_t begin = 0, end = n;
        while (begin < end) {
            const int64_t middle = begin + (end - begin) / 2;
            const Element m = sorted.at[static_cast<size_t>(row + middle)];
            const bool nan = is_nan(sorted.dtype, m) || is_nan(sorted.dtype, v);
            const bool stops = !nan && (right ? less(sorted.dtype, v, m) : !less(sorted.dtype, m, v));
            (stops ? end : begin) = stops ? middle : middle + 1;
        }
        out.at[k].i = begin;
    }
    return out;
}

/// The distinct elements in ascending order, and where each is among them.
std::pair<Array, Array> distinct(const Array &x) {
    std::vector<int64_t> order(x.at.size());
    for (size_t k = 0; k < order.size(); ++k)
        order[k] = static_cast<int64_t>(k);
    const auto element = [&](int64_t p) { return x.at[static_cast<size_t>(p)]; };
    std::ranges::sort(order, [&](int64_t i, int64_t j) {
        return less(x.dtype, element(i), element(j)) || (!less(x.dtype, element(j), element(i)) && i < j);
    });
    std::vector<int64_t> first;
    Array inverse = make(i64, x.shape);
    inverse.device = x.device;
    for (size_t k = 0; k < order.size(); ++k) {
        if (k == 0 || less(x.dtype, element(order[k - 1]), element(order[k])))
            first.push_back(order[k]);
        inverse.at[static_cast<size_t>(order[k])].i = static_cast<int64_t>(first.size()) - 1;
    }
    return {taken(x, {static_cast<int64_t>(first.size())}, first), inverse};
}

bool make_along(Maker &m, Statement &s) {
    const auto x = m.any([](const Array &v) { return v.trust == Trust::Exact; });
    if (!x)
        return false;
    s.args = {Arg::of(*x)};
    const auto rank = static_cast<int64_t>(m.oracle.value(*x).shape.size());
    s.ints = {rank == 0 ? -m.below(2) : m.between(-rank, rank - 1)};
    s.out = {m.target(), m.target()};
    return s.out[0] != s.out[1];
}

} // namespace

void add_order_rows(std::vector<Row> &rows) {
#define loc c.loc
    const auto extremes = [&](std::string text, std::function<void(Call &)> run, bool largest) {
        rows.push_back({std::move(text), std::move(run),
                        [largest](Oracle &o, const Statement &s) {
                            auto [values, indices] = running(o.value(s.args[0]), s.ints[0], largest);
                            o.set(s.out[0], std::move(values));
                            o.set(s.out[1], std::move(indices));
                        },
                        make_along, 10});
    };
    extremes(LZ_CALL(lz::cummax(T0, I0, loc)), true);
    extremes(LZ_CALL(lz::cummin(T0, I0, loc)), false);
    rows.push_back(
        {LZ_CALL(lz::searchsorted(T0, T1, B0, B1, std::nullopt, {}, loc)),
         [](Oracle &o, const Statement &s) {
             o.set(s.out[0], places(o.value(s.args[0]), o.value(s.args[1]), s.ints[1] != 0, s.ints[0] != 0));
         },
         [](Maker &m, Statement &s) {
             const auto sorted =
                 m.any([](const Array &v) { return v.trust == Trust::Exact && !v.shape.empty(); });
             if (!sorted)
                 return false;
             const Array &x = m.oracle.value(*sorted);
             const bool careless = m.once_in(20);
             const auto values = m.any([&](const Array &v) {
                 return v.trust == Trust::Exact && meets(x, v) && (careless || v.dtype == x.dtype) &&
                        (x.shape.size() == 1 ||
                         (v.shape.size() == x.shape.size() &&
                          std::equal(x.shape.begin(), x.shape.end() - 1, v.shape.begin())));
             });
             if (!values)
                 return false;
             s.args = {Arg::of(*sorted), Arg::of(*values)};
             s.ints = {m.below(2), m.below(2)};
             s.out = {m.target()};
             return true;
         },
         25});
    const auto of_integers = [&](std::string text, std::function<void(Call &)> run, bool inverse) {
        rows.push_back({std::move(text), std::move(run),
                        [inverse](Oracle &o, const Statement &s) {
                            auto [values, places] = distinct(o.value(s.args[0]));
                            o.set(s.out[0], inverse ? std::move(places) : std::move(values));
                        },
                        [](Maker &m, Statement &s) {
                            const auto x = m.any(
                                [](const Array &v) { return v.trust == Trust::Exact && !is_float(v.dtype); });
                            if (!x)
                                return false;
                            s.args = {Arg::of(*x)};
                            s.out = {m.target()};
                            return true;
                        },
                        10});
    };
    of_integers(LZ_CALL(std::get<0>(lz::unique(T0, true, false, false, std::nullopt, loc))), false);
    of_integers(LZ_CALL(std::get<1>(lz::unique(T0, true, true, false, std::nullopt, loc))), true);
#undef loc
}

} // namespace lz::test::calls
