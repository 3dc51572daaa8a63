// Looking up and storing by an index tensor. Most indices are made where they are used, of random integers.
#include "rows.h"

#include <algorithm>

#include "row_macros.h"

namespace lz::test::calls {

namespace {

Array as_row(Array x) {
    if (x.shape.empty())
        x.shape = {1};
    return x;
}

bool inside(const Extents &inner, const Extents &outer, std::optional<size_t> but = {}) {
    if (inner.size() != outer.size())
        return false;
    for (size_t a = 0; a < inner.size(); ++a)
        if (inner[a] > outer[a] && a != but)
            return false;
    return true;
}

void check_index(const Array &index) {
    if (index.dtype != i64 && index.dtype != i32)
        throw Mistake(ErrorType::DType, "no positions");
}

Array gathered(const Array &given, int64_t axis, const Array &index) {
    check_index(index);
    const Array x = as_row(given), at = as_row(index);
    const size_t a = axis_of(axis, x.shape.size());
    if (!inside(at.shape, x.shape, a))
        throw Mistake(ErrorType::Shape, "the index is not inside");
    std::vector<int64_t> from(at.at.size());
    for (size_t k = 0; k < from.size(); ++k) {
        Extents source = coordinates(at.shape, static_cast<int64_t>(k));
        source[a] = at.at[k].i;
        if (source[a] < 0 || source[a] >= x.shape[a])
            throw Mistake(ErrorType::Index, "out of the axis", true);
        from[k] = position(x.shape, source);
    }
    return taken(x, index.shape, from);
}

/// x with the source put at, or added to, the places of the index, in its order.
Array scattered(const Array &given, int64_t axis, const Array &index, const Array &values, bool add) {
    check_index(index);
    if (values.dtype != given.dtype)
        throw Mistake(ErrorType::DType, "the source has another dtype");
    const Array at = as_row(index), source = as_row(values);
    Array out = as_row(given);
    const size_t a = axis_of(axis, out.shape.size());
    if (!inside(at.shape, out.shape, a) || !inside(at.shape, source.shape))
        throw Mistake(ErrorType::Shape, "the index is not inside");
    for (size_t k = 0; k < at.at.size(); ++k) {
        Extents to = coordinates(at.shape, static_cast<int64_t>(k));
        const Element e = source.at[static_cast<size_t>(position(source.shape, to))];
        to[a] = at.at[k].i;
        if (to[a] < 0 || to[a] >= out.shape[a])
            throw Mistake(ErrorType::Index, "out of the axis", true);
        Element &now = out.at[static_cast<size_t>(position(out.shape, to))];
        if (!add)
            now = e;
        else if (is_float(out.dtype)) // half types are added up as f32
            now.f = rounded(out.dtype == f64 ? f64 : f32, now.f + e.f);
        else if (out.dtype == boolean)
            now.i |= e.i;
        else
            now.i = wrapped(out.dtype,
                            static_cast<int64_t>(static_cast<uint64_t>(now.i) + static_cast<uint64_t>(e.i)));
    }
    if (is_float(out.dtype))
        for (Element &e : out.at)
            e.f = rounded(out.dtype, e.f);
    out.trust = through(out.trust, source.trust);
    out.absolute.clear();
    out.shape = given.shape;
    return out;
}

/// What `lz::randint(0, I1, S0)` is.
Array random_index(Oracle &o, const Statement &s) {
    if (s.ints[1] < 1)
        throw Mistake(ErrorType::Index, "no integers");
    return drawn_integers(o, 0, static_cast<uint64_t>(s.ints[1]), s.sizes[0], i64);
}

/// A row of the index for each of its elements, along `axis`.
Array spread(const Array &row, const Extents &shape, size_t axis) {
    Extents wide = shape;
    wide[axis] = static_cast<int64_t>(row.at.size());
    Array out = make(row.dtype, wide);
    for (size_t k = 0; k < out.at.size(); ++k)
        out.at[k] = row.at[static_cast<size_t>(coordinates(wide, static_cast<int64_t>(k))[axis])];
    return out;
}

/// An axis (ints[0]) of x, its extent (ints[1]), which now and then is too much, and an index inside `limit`
/// (sizes[0]).
bool choose_index(Maker &m, const Array &x, const Extents &limit, bool longer, Statement &s) {
    const Extents shape = as_row(x).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t a = m.below(rank);
    Extents index = limit;
    for (size_t k = 0; k < index.size(); ++k) {
        index[k] = std::min(index[k], static_cast<int64_t>(k) == a ? index[k] : shape[k]);
        if (m.once_in(3))
            index[k] = m.between(0, index[k]);
    }
    if (longer && m.once_in(2))
        index[static_cast<size_t>(a)] = m.between(0, 9);
    if (shape[static_cast<size_t>(a)] == 0 || count(index) > 2000)
        return false;
    s.ints = {m.once_in(3) ? a - rank : a, shape[static_cast<size_t>(a)]};
    s.sizes = {index};
    s.device = x.device;
    return true;
}

bool make_gather(Maker &m, Statement &s) {
    if (!make_one_to_one(m, s))
        return false;
    const Array &x = m.oracle.value(s.args[0]);
    return choose_index(m, x, as_row(x).shape, true, s);
}

bool make_scatter(Maker &m, Statement &s, bool in_place) {
    if (!make_one(m, s))
        return false;
    const Array &x = m.oracle.value(s.args[0]);
    const auto source = m.any([&](const Array &v) {
        return v.dtype == x.dtype && meets(x, v) && as_row(v).shape.size() == as_row(x).shape.size();
    });
    if (!source)
        return false;
    s.args.push_back(Arg::of(*source));
    if (!in_place)
        s.out = {m.target()};
    return choose_index(m, x, as_row(m.oracle.value(*source)).shape, false, s);
}

} // namespace

void add_gather_rows(std::vector<Row> &rows) {
#define loc c.loc
    rows.push_back({LZ_CALL(lz::gather(T0, I0, lz::randint(0, I1, S0, {.device = V0}, loc), loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]), at = random_index(o, s);
                        o.set(s.out[0], gathered(x, s.ints[0], at));
                    },
                    make_gather, 25});
    rows.push_back(
        {LZ_CALL(lz::gather(T0, I0, T1, loc)),
         [](Oracle &o, const Statement &s) {
             o.set(s.out[0], gathered(o.value(s.args[0]), s.ints[0], o.value(s.args[1])));
         },
         [](Maker &m, Statement &s) {
             if (!make_one_to_one(m, s))
                 return false;
             const Array x = as_row(m.oracle.value(s.args[0]));
             const size_t a = static_cast<size_t>(m.below(static_cast<int64_t>(x.shape.size())));
             s.ints = {static_cast<int64_t>(a)};
             const auto at = m.any([&](const Array &v) {
                 return (v.dtype == i64 || v.dtype == i32) && v.trust == Trust::Exact &&
                        meets(m.oracle.value(s.args[0]), v) && inside(as_row(v).shape, x.shape, a) &&
                        std::ranges::all_of(v.at, [&](Element p) { return p.i >= 0 && p.i < x.shape[a]; });
             });
             if (at)
                 s.args.push_back(Arg::of(*at));
             return at.has_value();
         },
         25});
    const auto scatter = [&](std::string text, std::function<void(Call &)> run, bool add, bool in_place) {
        rows.push_back({std::move(text), std::move(run),
                        [add, in_place](Oracle &o, const Statement &s) {
                            const Array x = o.value(s.args[0]), source = o.value(s.args[1]),
                                        at = random_index(o, s);
                            Array made = scattered(x, s.ints[0], at, source, add);
                            if (in_place)
                                o.change(s.args[0].handle, std::move(made));
                            else
                                o.set(s.out[0], std::move(made));
                        },
                        [in_place](Maker &m, Statement &s) { return make_scatter(m, s, in_place); },
                        in_place ? 10 : 20});
    };
    scatter(LZ_CALL(lz::scatter(T0, I0, lz::randint(0, I1, S0, {.device = V0}, loc), T1, loc)), false, false);
    scatter(LZ_CALL(lz::scatter_add(T0, I0, lz::randint(0, I1, S0, {.device = V0}, loc), T1, loc)), true,
            false);
    scatter(LZ_CALL(T0.scatter_(I0, lz::randint(0, I1, S0, {.device = V0}, loc), T1, loc)), false, true);
    scatter(LZ_CALL(T0.scatter_add_(I0, lz::randint(0, I1, S0, {.device = V0}, loc), T1, loc)), true, true);
    rows.push_back({LZ_CALL(lz::scatter(T0, I0, lz::randint(0, I1, S0, {.device = V0}, loc), P1, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]), at = random_index(o, s);
                        Array number = make(x.dtype, at.shape);
                        for (Element &e : number.at)
                            e = converted(s.args[1].number, x.dtype);
                        o.set(s.out[0], scattered(x, s.ints[0], at, number, false));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_one_to_one(m, s))
                            return false;
                        s.args.push_back({-1, m.small()});
                        const Array &x = m.oracle.value(s.args[0]);
                        return choose_index(m, x, as_row(x).shape, true, s);
                    },
                    10});
    const auto rows_into = [&](std::string text, std::function<void(Call &)> run, bool add, bool in_place) {
        rows.push_back({std::move(text), std::move(run),
                        [add, in_place](Oracle &o, const Statement &s) {
                            const Array x = o.value(s.args[0]), source = o.value(s.args[1]),
                                        row = random_index(o, s);
                            const size_t a = axis_of(s.ints[0], x.shape.size());
                            Extents wanted = x.shape;
                            wanted[a] = static_cast<int64_t>(row.at.size());
                            if (source.shape != wanted)
                                throw Mistake(ErrorType::Shape, "the source does not fit");
                            Array made = scattered(x, s.ints[0], spread(row, x.shape, a), source, add);
                            if (in_place)
                                o.change(s.args[0].handle, std::move(made));
                            else
                                o.set(s.out[0], std::move(made));
                        },
                        [in_place](Maker &m, Statement &s) {
                            const auto x = m.any([](const Array &v) { return !v.shape.empty(); });
                            if (!x)
                                return false;
                            const Array &v = m.oracle.value(*x);
                            const auto a = static_cast<size_t>(m.below(static_cast<int64_t>(v.shape.size())));
                            const auto source = m.any([&](const Array &y) {
                                return y.dtype == v.dtype && meets(v, y) &&
                                       y.shape.size() == v.shape.size() && inside(y.shape, v.shape, a) &&
                                       inside(v.shape, y.shape, a);
                            });
                            if (!source || v.shape[a] == 0)
                                return false;
                            s.args = {Arg::of(*x), Arg::of(*source)};
                            s.ints = {static_cast<int64_t>(a), v.shape[a]};
                            s.sizes = {{m.oracle.value(*source).shape[a]}};
                            s.device = v.device;
                            if (!in_place)
                                s.out = {m.target()};
                            return true;
                        },
                        in_place ? 10 : 25});
    };
    rows_into(LZ_CALL(lz::index_add(T0, I0, lz::randint(0, I1, S0, {.device = V0}, loc), T1, loc)), true,
              false);
    rows_into(LZ_CALL(T0.index_add_(I0, lz::randint(0, I1, S0, {.device = V0}, loc), T1, loc)), true, true);
    rows_into(LZ_CALL(lz::index_copy(T0, I0, lz::randint(0, I1, S0, {.device = V0}, loc), T1, loc)), false,
              false);
    rows_into(LZ_CALL(T0.index_copy_(I0, lz::randint(0, I1, S0, {.device = V0}, loc), T1, loc)), false, true);
    rows.push_back({LZ_CALL(lz::index_fill(T0, I0, lz::randint(0, I1, S0, {.device = V0}, loc), P1, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]), row = random_index(o, s);
                        Extents wide = as_row(x).shape;
                        const size_t a = axis_of(s.ints[0], wide.size());
                        const Array at = spread(row, wide, a);
                        Array number = make(x.dtype, at.shape);
                        for (Element &e : number.at)
                            e = converted(s.args[1].number, x.dtype);
                        Array made = scattered(as_row(x), s.ints[0], at, number, false);
                        made.shape = x.shape;
                        o.set(s.out[0], std::move(made));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_one_to_one(m, s))
                            return false;
                        s.args.push_back({-1, m.small()});
                        const Array &x = m.oracle.value(s.args[0]);
                        const Extents shape = as_row(x).shape;
                        const auto rank = static_cast<int64_t>(shape.size());
                        const int64_t a = m.below(rank);
                        if (shape[static_cast<size_t>(a)] == 0)
                            return false;
                        s.ints = {m.once_in(3) ? a - rank : a, shape[static_cast<size_t>(a)]};
                        s.sizes = {{m.between(0, 5)}};
                        s.device = x.device;
                        return true;
                    },
                    10});
    rows.push_back({LZ_CALL(lz::embedding(T0, lz::randint(0, I1, S0, {.device = V0}, loc), loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]), at = random_index(o, s);
                        if (x.shape.size() != 2)
                            throw Mistake(ErrorType::Shape, "no matrix");
                        Extents shape = at.shape;
                        shape.push_back(x.shape[1]);
                        std::vector<int64_t> from;
                        for (const Element e : at.at)
                            for (int64_t k = 0; k < x.shape[1]; ++k) {
                                if (e.i >= x.shape[0])
                                    throw Mistake(ErrorType::Index, "out of the axis", true);
                                from.push_back(e.i * x.shape[1] + k);
                            }
                        o.set(s.out[0], taken(x, shape, from));
                    },
                    [](Maker &m, Statement &s) {
                        const auto x =
                            m.any([](const Array &v) { return v.shape.size() == 2 && v.shape[0] > 0; });
                        if (!x)
                            return false;
                        const Array &v = m.oracle.value(*x);
                        s.args = {Arg::of(*x)};
                        s.ints = {0, v.shape[0]};
                        for (s.sizes = {Extents()}; s.sizes[0].size() < 3 && !m.once_in(3);)
                            s.sizes[0].push_back(m.between(0, 5));
                        s.device = v.device;
                        s.out = {m.target()};
                        return count(s.sizes[0]) * v.shape[1] <= 2000;
                    },
                    20});
    rows.push_back({LZ_CALL(lz::one_hot(T0, I0, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]);
                        check_index(x);
                        int64_t classes = s.ints[0];
                        if (classes == -1) {
                            if (x.at.empty())
                                throw Mistake(ErrorType::Shape, "no class");
                            for (const Element e : x.at)
                                classes = std::max(classes, e.i + 1);
                        }
                        if (classes < 1)
                            throw Mistake(ErrorType::Shape, "no class");
                        Extents shape = x.shape;
                        shape.push_back(classes);
                        Array out = make(i64, shape);
                        out.device = x.device;
                        out.trust = x.trust;
                        for (size_t k = 0; k < x.at.size(); ++k) {
                            if (x.at[k].i < 0 || x.at[k].i >= classes)
                                throw Mistake(ErrorType::Index, "no such class", true);
                            out.at[k * static_cast<size_t>(classes) + static_cast<size_t>(x.at[k].i)].i = 1;
                        }
                        o.set(s.out[0], std::move(out));
                    },
                    [](Maker &m, Statement &s) {
                        const auto x = m.any([](const Array &v) {
                            return (v.dtype == i64 || v.dtype == i32) && v.trust == Trust::Exact &&
                                   v.at.size() < 300 && v.shape.size() < 8 &&
                                   std::ranges::all_of(v.at, [](Element e) { return e.i >= 0 && e.i < 9; });
                        });
                        if (!x)
                            return false;
                        s.args = {Arg::of(*x)};
                        s.ints = {m.once_in(2) ? -1 : m.between(9, 12)};
                        s.out = {m.target()};
                        return true;
                    },
                    20});
#undef loc
}

} // namespace lz::test::calls
