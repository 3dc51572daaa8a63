// Parts that are read and written, masks, and index tensors.
#include "rows.h"

#include <algorithm>
#include <cmath>

#include "row_macros.h"

namespace lz::test::calls {

namespace {

/// What an index picks: the shape, and the position of each of its elements.
struct Picked {
    Extents shape;
    std::vector<int64_t> from;
};

bool is_mask(const Oracle &o, const std::vector<Entry> &index) {
    return index.size() == 1 && index[0].kind == Entry::Kind::Tensor &&
           o.value(index[0].handle).dtype == boolean;
}

/// Python's range(*slice(start, stop, step).indices(extent)).
std::vector<int64_t> positions_of(const Entry &e, int64_t extent) {
    const int64_t step = e.step.value_or(1);
    if (step == 0)
        throw Mistake(ErrorType::Index, "a step of 0");
    const auto clipped = [&](const std::optional<int64_t> &given, int64_t otherwise) {
        if (!given)
            return otherwise;
        const int64_t at = *given < 0 ? *given + extent : *given;
        return std::clamp<int64_t>(at, step < 0 ? -1 : 0, step < 0 ? extent - 1 : extent);
    };
    const int64_t start = clipped(e.start, step < 0 ? extent - 1 : 0),
                  stop = clipped(e.stop, step < 0 ? -1 : extent);
    std::vector<int64_t> out;
    for (int64_t i = start; step < 0 ? i > stop : i < stop; i += step)
        out.push_back(i);
    return out;
}

Picked picked(const Oracle &o, const Array &x, const std::vector<Entry> &index) {
    if (is_mask(o, index)) {
        const Array &mask = o.value(index[0].handle);
        const size_t rank = mask.shape.size();
        if (rank > x.shape.size() || !std::equal(mask.shape.begin(), mask.shape.end(), x.shape.begin()))
            throw Mistake(ErrorType::Index, "the mask has another shape");
        Picked out;
        Extents rest(x.shape.begin() + static_cast<std::ptrdiff_t>(rank), x.shape.end());
        const int64_t each = count(rest);
        int64_t rows = 0;
        for (size_t k = 0; k < mask.at.size(); ++k)
            if (mask.at[k].i) {
                ++rows;
                for (int64_t i = 0; i < each; ++i)
                    out.from.push_back(static_cast<int64_t>(k) * each + i);
            }
        out.shape = rest;
        out.shape.insert(out.shape.begin(), rows);
        return out;
    }
    // Each entry gives axes of the result and positions along one axis of x.
    struct Group {
        Extents axes;
        std::vector<int64_t> at;
        int64_t stride;
    };
    std::vector<int64_t> strides(x.shape.size(), 1);
    for (size_t a = x.shape.size(); a-- > 1;)
        strides[a - 1] = strides[a] * x.shape[a];
    size_t used = 0, ellipses = 0;
    for (const Entry &e : index) {
        used += e.kind != Entry::Kind::None && e.kind != Entry::Kind::Ellipsis;
        ellipses += e.kind == Entry::Kind::Ellipsis;
    }
    if (used > x.shape.size() || ellipses > 1)
        throw Mistake(ErrorType::Index, "too many axes in the index");
    std::vector<Group> groups;
    size_t axis = 0;
    const auto whole = [&] {
        Entry all;
        groups.push_back({{x.shape[axis]}, positions_of(all, x.shape[axis]), strides[axis]});
        ++axis;
    };
    for (const Entry &e : index) {
        switch (e.kind) {
        case Entry::Kind::Integer:
            if (e.integer < -x.shape[axis] || e.integer >= x.shape[axis])
                throw Mistake(ErrorType::Index, "out of the axis");
            groups.push_back({{}, {e.integer < 0 ? e.integer + x.shape[axis] : e.integer}, strides[axis]});
            ++axis;
            break;
        case Entry::Kind::Slice: {
            std::vector<int64_t> at = positions_of(e, x.shape[axis]);
            groups.push_back({{static_cast<int64_t>(at.size())}, at, strides[axis]});
            ++axis;
            break;
        }
        case Entry::Kind::None:
            groups.push_back({{1}, {0}, 0});
            break;
        case Entry::Kind::Ellipsis:
            for (size_t left = x.shape.size() - used; left > 0; --left)
                whole();
            break;
        case Entry::Kind::Tensor: {
            const Array &positions = o.value(e.handle);
            if (positions.dtype != i64 && positions.dtype != i32)
                throw Mistake(ErrorType::DType, "no positions");
            Group group{positions.shape, {}, strides[axis]};
            for (const Element p : positions.at) {
                if (p.i < -x.shape[axis] || p.i >= x.shape[axis])
                    throw Mistake(ErrorType::Index, "a position out of the axis", true);
                group.at.push_back(p.i < 0 ? p.i + x.shape[axis] : p.i);
            }
            groups.push_back(group);
            ++axis;
            break;
        }
        }
    }
    while (axis < x.shape.size())
        whole();
    Picked out;
    Extents counts;
    for (const Group &g : groups) {
        out.shape.insert(out.shape.end(), g.axes.begin(), g.axes.end());
        counts.push_back(static_cast<int64_t>(g.at.size()));
    }
    if (out.shape.size() > 8)
        throw Mistake(ErrorType::Shape, "more than eight axes");
    for (int64_t k = 0; k < count(counts); ++k) {
        const Extents at = coordinates(counts, k);
        int64_t p = 0;
        for (size_t g = 0; g < groups.size(); ++g)
            p += groups[g].at[static_cast<size_t>(at[g])] * groups[g].stride;
        out.from.push_back(p);
    }
    return out;
}

/// x with the picked elements replaced by `value`, which broadcasts; axes of extent 1 before the part's own
/// are dropped.
Array stored(const Array &x, const Picked &part, const Array &value) {
    Array v = converted(value, x.dtype);
    Extents shape = v.shape;
    while (shape.size() > part.shape.size() && shape[0] == 1)
        shape.erase(shape.begin());
    v.shape = shape;
    if (shape.size() > part.shape.size() || broadcast(shape, part.shape) != part.shape)
        throw Mistake(ErrorType::Shape, "the value does not fit the part");
    v = broadcast_to(v, part.shape);
    Array out = x;
    out.trust = through(x.trust, v.trust);
    out.absolute.clear();
    for (size_t k = 0; k < part.from.size(); ++k)
        out.at[static_cast<size_t>(part.from[k])] = v.at[k];
    return out;
}

Array constant(const Scalar &x, DType t) {
    Array out = make(t, {});
    out.at[0] = converted(x, t);
    return out;
}

/// A number that is stored in an integer dtype has to be one of its own; u8 takes -255 to -1 too.
void check_fits(const Scalar &x, DType t) {
    if (is_float(t) || t == boolean)
        return;
    const double y = x.to_double();
    const double top = std::ldexp(1.0, bits_of(t) - (t == u8 ? 0 : 1)), bottom = t == u8 ? -256 : -top - 1;
    if (std::isnan(y) || y >= top || y <= bottom)
        throw Mistake(ErrorType::DType, "a number that the dtype does not have");
}

void write(Oracle &o, const Statement &s) {
    const Array x = o.value(s.args[0]);
    const Arg &value = s.args[1];
    if (value.handle < 0)
        check_fits(value.number, x.dtype);
    const Array v = value.handle < 0 ? constant(value.number, x.dtype) : o.value(value);
    o.change(s.args[0].handle, stored(x, picked(o, x, s.index), v));
}

/// x.at(...) op= value.
void write_changed(Oracle &o, const Statement &s, const char *name) {
    const Array x = o.value(s.args[0]);
    const Picked part = picked(o, x, s.index);
    Oracle two(2);
    two.default_dtype = o.default_dtype;
    two.set(0, taken(x, part.shape, part.from));
    std::vector<Arg> args = {Arg::of(0), s.args[1]};
    if (s.args[1].handle >= 0) {
        two.set(1, o.value(s.args[1]));
        args[1] = Arg::of(1);
    }
    assign(two, 0, computed(two, name, args));
    o.change(s.args[0].handle, stored(x, part, two.value(0)));
}

Entry random_slice(Maker &m, int64_t extent) {
    Entry e;
    e.kind = Entry::Kind::Slice;
    if (!m.once_in(3))
        e.start = m.between(-extent - 1, extent + 1);
    if (!m.once_in(3))
        e.stop = m.between(-extent - 1, extent + 1);
    if (m.once_in(2))
        e.step = m.once_in(40) ? 0 : m.pick(std::vector<int64_t>{1, 2, 3, -1, -2, -3});
    return e;
}

/// An index of x; with a mask once in a while.
bool make_index(Maker &m, Statement &s) {
    if (!make_one(m, s))
        return false;
    const Array &x = m.oracle.value(s.args[0]);
    if (m.once_in(4)) {
        const auto mask = m.any([&](const Array &v) {
            return v.dtype == boolean && v.trust == Trust::Exact && v.shape.size() <= x.shape.size() &&
                   v.shape.size() > 0 && meets(x, v) &&
                   std::equal(v.shape.begin(), v.shape.end(), x.shape.begin());
        });
        if (mask) {
            Entry e;
            e.kind = Entry::Kind::Tensor;
            e.handle = *mask;
            s.index = {e};
            return true;
        }
    }
    bool ellipsis = false, tensor = false;
    size_t axis = 0;
    while (s.index.size() < 5 && (axis < x.shape.size() || m.once_in(30)) && !m.once_in(5)) {
        const int64_t extent = axis < x.shape.size() ? x.shape[axis] : 1;
        Entry e;
        switch (m.below(9)) {
        case 0:
        case 1:
        case 2:
            if (extent == 0)
                continue;
            e.integer = m.once_in(60) ? extent : m.between(-extent, extent - 1);
            ++axis;
            break;
        case 3:
            if (ellipsis && !m.once_in(30))
                continue;
            e.kind = Entry::Kind::Ellipsis;
            ellipsis = true;
            axis = x.shape.size();
            break;
        case 4:
            e.kind = Entry::Kind::None;
            break;
        case 5: {
            const auto positions = m.any([&](const Array &v) {
                return (v.dtype == i64 || v.dtype == i32) && v.trust == Trust::Exact && v.at.size() < 40 &&
                       meets(x, v) &&
                       std::ranges::all_of(v.at, [&](Element p) { return p.i >= -extent && p.i < extent; });
            });
            if (tensor || !positions || axis >= x.shape.size())
                continue;
            e.kind = Entry::Kind::Tensor;
            e.handle = *positions;
            tensor = true;
            ++axis;
            break;
        }
        default:
            e = random_slice(m, extent);
            ++axis;
            break;
        }
        s.index.push_back(e);
    }
    if (s.index.empty())
        s.index = {random_slice(m, x.shape.empty() ? 1 : x.shape[0])};
    // A part without elements and one with too many are legal; what is written several times is not large.
    return true;
}

bool make_write(Maker &m, Statement &s) {
    if (!make_index(m, s))
        return false;
    if (m.once_in(2)) {
        s.args.push_back({-1, m.small()});
        return true;
    }
    Extents part;
    try {
        part = picked(m.oracle, m.oracle.value(s.args[0]), s.index).shape;
    } catch (const Mistake &) {
        return false;
    }
    const bool exact = !m.once_in(20);
    const auto value = m.any([&](const Array &v) {
        if (!meets(m.oracle.value(s.args[0]), v))
            return false;
        try {
            return !exact || (v.shape.size() <= part.size() && broadcast(v.shape, part) == part);
        } catch (const Mistake &) {
            return false;
        }
    });
    if (value)
        s.args.push_back(Arg::of(*value));
    else
        s.args.push_back({-1, m.small()});
    return true;
}

bool make_read(Maker &m, Statement &s) {
    if (!make_index(m, s))
        return false;
    s.out = {m.target()};
    return true;
}

/// Integers of one axis that are positions of an axis of extent n.
std::optional<int> positions_below(Maker &m, int64_t n, size_t rank, bool negative, const Array &x) {
    return m.any([&](const Array &v) {
        return (v.dtype == i64 || v.dtype == i32) && v.trust == Trust::Exact && v.shape.size() == rank &&
               meets(x, v) &&
               std::ranges::all_of(v.at, [&](Element p) { return p.i >= (negative ? -n : 0) && p.i < n; });
    });
}

} // namespace

void add_index_rows(std::vector<Row> &rows) {
#define loc c.loc
    rows.push_back({"OUT = A0", [](Call &c) { c.result(0) = c.part(); },
                    [](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]);
                        const Picked part = picked(o, x, s.index);
                        o.set(s.out[0], taken(x, part.shape, part.from));
                    },
                    make_read, 60});
    rows.push_back({"A0 = P1", [](Call &c) { c.part() = c.operand(1); }, write, make_write, 80});
    rows.push_back({"A0 += P1", [](Call &c) { c.part() += c.operand(1); },
                    [](Oracle &o, const Statement &s) { write_changed(o, s, "add"); }, make_write, 30});
    rows.push_back({"A0 *= P1", [](Call &c) { c.part() *= c.operand(1); },
                    [](Oracle &o, const Statement &s) { write_changed(o, s, "mul"); }, make_write, 15});
    rows.push_back({"A0 -= P1", [](Call &c) { c.part() -= c.operand(1); },
                    [](Oracle &o, const Statement &s) { write_changed(o, s, "sub"); }, make_write, 10});
    rows.push_back({"A0 /= P1", [](Call &c) { c.part() /= c.operand(1); },
                    [](Oracle &o, const Statement &s) { write_changed(o, s, "div"); }, make_write, 10});
    rows.push_back({LZ_CALL(lz::masked_fill(T0, T1, P2, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array &x = o.value(s.args[0]), &mask = o.value(s.args[1]);
                        if (mask.dtype != boolean)
                            throw Mistake(ErrorType::DType, "no mask");
                        check_fits(s.args[2].number, x.dtype);
                        const Extents shape = broadcast(x.shape, mask.shape);
                        Array out = broadcast_to(x, shape);
                        const Array chosen = broadcast_to(mask, shape);
                        out.trust = through(x.trust, mask.trust);
                        for (size_t k = 0; k < out.at.size(); ++k)
                            if (chosen.at[k].i)
                                out.at[k] = converted(s.args[2].number, x.dtype);
                        o.set(s.out[0], out);
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_one_to_one(m, s))
                            return false;
                        const auto mask = m.any([&](const Array &v) {
                            return v.dtype == boolean && fits_beside(m.oracle.value(s.args[0]), v);
                        });
                        if (!mask)
                            return false;
                        s.args.push_back(Arg::of(*mask));
                        s.args.push_back({-1, m.small()});
                        return true;
                    },
                    15});
    rows.push_back({LZ_CALL(lz::masked_select(T0, T1, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array &x = o.value(s.args[0]), &mask = o.value(s.args[1]);
                        if (mask.shape != x.shape) // which would broadcast
                            throw Mistake(ErrorType::Shape, "the mask has another shape");
                        std::vector<int64_t> from;
                        for (size_t k = 0; k < x.at.size(); ++k)
                            if (mask.at[k].i)
                                from.push_back(static_cast<int64_t>(k));
                        o.set(s.out[0], taken(x, {static_cast<int64_t>(from.size())}, from));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_one_to_one(m, s))
                            return false;
                        const Array &x = m.oracle.value(s.args[0]);
                        const auto mask = m.any([&](const Array &v) {
                            return v.dtype == boolean && v.shape == x.shape && meets(x, v) &&
                                   v.trust == Trust::Exact;
                        });
                        if (mask)
                            s.args.push_back(Arg::of(*mask));
                        return mask.has_value();
                    },
                    10});
    rows.push_back({LZ_CALL(lz::where(T0, P1, P2, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array &condition = o.value(s.args[0]);
                        const std::vector<Arg> both = {s.args[1], s.args[2]};
                        const DType t = result_type(o, both);
                        Array v[2];
                        Trust trust = condition.trust;
                        Extents shape = condition.shape;
                        for (size_t k = 0; k < 2; ++k) {
                            if (both[k].handle < 0)
                                check_fits(both[k].number, t);
                            v[k] = both[k].handle < 0 ? constant(both[k].number, t)
                                                      : converted(o.value(both[k]), t);
                            trust = through(trust, v[k].trust);
                            shape = broadcast(shape, v[k].shape);
                        }
                        const Array c = broadcast_to(condition, shape);
                        Array out = broadcast_to(v[1], shape);
                        const Array a = broadcast_to(v[0], shape);
                        for (size_t k = 0; k < out.at.size(); ++k)
                            if (c.at[k].i)
                                out.at[k] = a.at[k];
                        out.trust = trust;
                        out.absolute.clear();
                        out.device = condition.device;
                        o.set(s.out[0], out);
                    },
                    [](Maker &m, Statement &s) {
                        const auto condition = m.any([](const Array &v) { return v.dtype == boolean; });
                        if (!condition)
                            return false;
                        s.args = {Arg::of(*condition)};
                        Extents shape = m.oracle.value(*condition).shape;
                        for (int k = 0; k < 2; ++k) {
                            const auto value = m.any([&](const Array &v) {
                                Array like;
                                like.shape = shape;
                                like.device = m.oracle.value(*condition).device;
                                return fits_beside(like, v);
                            });
                            if (!value || m.once_in(4)) {
                                s.args.push_back({-1, m.small()});
                                continue;
                            }
                            s.args.push_back(Arg::of(*value));
                            shape = broadcast(shape, m.oracle.value(*value).shape);
                        }
                        if (s.args[1].handle < 0 && s.args[2].handle < 0)
                            return false;
                        s.out = {m.target()};
                        return true;
                    },
                    30});
    rows.push_back({LZ_CALL(lz::index_select(T0, I0, T1, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array &x = o.value(s.args[0]), &at = o.value(s.args[1]);
                        const size_t a = axis_of(s.ints[0], x.shape.size());
                        Extents shape = x.shape;
                        shape[a] = static_cast<int64_t>(at.at.size());
                        std::vector<int64_t> from;
                        for (int64_t k = 0; k < count(shape); ++k) {
                            Extents source = coordinates(shape, k);
                            source[a] = at.at[static_cast<size_t>(source[a])].i;
                            if (source[a] < 0 || source[a] >= x.shape[a])
                                throw Mistake(ErrorType::Index, "out of the axis", true);
                            from.push_back(position(x.shape, source));
                        }
                        o.set(s.out[0], taken(x, shape, from));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_one_to_one(m, s))
                            return false;
                        const Array &x = m.oracle.value(s.args[0]);
                        if (x.shape.empty())
                            return false;
                        s.ints = {m.below(static_cast<int64_t>(x.shape.size()))};
                        const auto row =
                            positions_below(m, x.shape[static_cast<size_t>(s.ints[0])], 1, false, x);
                        if (row)
                            s.args.push_back(Arg::of(*row));
                        return row.has_value();
                    },
                    40});
    rows.push_back({LZ_CALL(lz::take(T0, T1, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array &x = o.value(s.args[0]), &at = o.value(s.args[1]);
                        const auto n = static_cast<int64_t>(x.at.size());
                        std::vector<int64_t> from;
                        for (const Element p : at.at) {
                            if (p.i < -n || p.i >= n)
                                throw Mistake(ErrorType::Index, "out of the row", true);
                            from.push_back(p.i < 0 ? p.i + n : p.i);
                        }
                        o.set(s.out[0], taken(x, at.shape, from));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_one_to_one(m, s))
                            return false;
                        const Array &x = m.oracle.value(s.args[0]);
                        const auto at = positions_below(m, static_cast<int64_t>(x.at.size()),
                                                        static_cast<size_t>(m.below(3)), true, x);
                        if (at)
                            s.args.push_back(Arg::of(*at));
                        return at.has_value();
                    },
                    15});
    rows.push_back({LZ_CALL(lz::arange(N0, N1, {.dtype = D0, .device = V0}, loc)),
                    [](Oracle &o, const Statement &s) {
                        const int64_t start = s.numbers[0].to_int(), end = s.numbers[1].to_int();
                        Array out = make(s.dtype, {std::max<int64_t>(end - start, 0)});
                        for (size_t k = 0; k < out.at.size(); ++k)
                            out.at[k] = converted(i64, s.dtype, {.i = start + static_cast<int64_t>(k)});
                        out.device = s.device;
                        o.set(s.out[0], out);
                    },
                    [](Maker &m, Statement &s) {
                        const int64_t start = m.between(-3, 3);
                        s.numbers = {start, start + m.between(0, 9)};
                        s.dtype = m.once_in(3) ? DType::F32 : m.once_in(3) ? DType::I32 : DType::I64;
                        s.device = m.gpus > 0 && !m.once_in(4) ? static_cast<int>(m.below(m.gpus)) : -1;
                        s.out = {m.target()};
                        return true;
                    },
                    60});
    rows.back().vary = [](Maker &m, Statement &s) {
        const int64_t by = m.between(1, 4);
        s.numbers = {s.numbers[0].to_int() + by, s.numbers[1].to_int() + by};
    };
#undef loc
}

} // namespace lz::test::calls
