// Other shapes, joins and pads: which element of the operand each element of the result is.
#include "rows.h"

#include <algorithm>
#include <numeric>

#include "row_macros.h"

namespace lz::test::calls {

size_t axis_of(int64_t axis, size_t rank) {
    const auto n = static_cast<int64_t>(rank);
    if (axis < -n || axis >= n)
        throw Mistake(ErrorType::Index, "the axis is out of range");
    return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

namespace {

/// Result element by element: `source` gives the coordinates in x, or nothing where it is `otherwise`.
Array rearranged(const Array &x, const Extents &shape,
                 const std::function<std::optional<Extents>(const Extents &)> &source,
                 Element otherwise = {.i = 0}) {
    std::vector<int64_t> from(static_cast<size_t>(count(shape)));
    for (size_t k = 0; k < from.size(); ++k) {
        const std::optional<Extents> at = source(coordinates(shape, static_cast<int64_t>(k)));
        from[k] = at ? position(x.shape, *at) : -1;
    }
    return taken(x, shape, from, otherwise);
}

Array reshaped(Array x, const Extents &sizes) {
    Extents shape = sizes;
    int64_t known = 1;
    size_t unknown = shape.size();
    for (size_t a = 0; a < shape.size(); ++a) {
        if (shape[a] == -1 && unknown == shape.size())
            unknown = a;
        else if (shape[a] < 0)
            throw Mistake(ErrorType::Shape, "a negative extent");
        else
            known *= shape[a];
    }
    const int64_t n = count(x.shape);
    if (unknown < shape.size()) {
        if (known == 0 || n % known != 0)
            throw Mistake(ErrorType::Shape, "-1 cannot be found");
        shape[unknown] = n / known;
    } else if (known != n) {
        throw Mistake(ErrorType::Shape, "another number of elements");
    }
    if (shape.size() > 8)
        throw Mistake(ErrorType::Shape, "more than eight axes");
    x.shape = shape;
    return x;
}

Array permuted(const Array &x, const std::vector<size_t> &axes) {
    Extents shape;
    for (const size_t a : axes)
        shape.push_back(x.shape[a]);
    return rearranged(x, shape, [&](const Extents &at) {
        Extents source(at.size());
        for (size_t k = 0; k < axes.size(); ++k)
            source[axes[k]] = at[k];
        return source;
    });
}

/// Positions start, start + step, ... of one axis; -1: `otherwise`.
Array along(const Array &x, size_t axis, const std::vector<int64_t> &positions,
            Element otherwise = {.i = 0}) {
    Extents shape = x.shape;
    shape[axis] = static_cast<int64_t>(positions.size());
    return rearranged(
        x, shape,
        [&](const Extents &at) -> std::optional<Extents> {
            Extents source = at;
            source[axis] = positions[static_cast<size_t>(at[axis])];
            if (source[axis] < 0)
                return std::nullopt;
            return source;
        },
        otherwise);
}

/// One statement's rule: operand 0 becomes a new tensor.
using Rule = Array (*)(const Array &x, const Statement &s);
using Choose = void (*)(Maker &m, const Array &x, Statement &s);

int64_t axis(Maker &m, const Array &x) {
    const auto rank = static_cast<int64_t>(x.shape.size());
    if (rank == 0 || m.once_in(40))
        return m.between(-3, 3);
    return m.between(-rank, rank - 1);
}

/// A factorisation of n into up to four extents.
Extents factors(Maker &m, int64_t n) {
    Extents out;
    for (const int64_t p : {2, 3, 5, 2, 7})
        if (n % p == 0 && n > 0 && m.once_in(2)) {
            out.push_back(p);
            n /= p;
        }
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(m.below(static_cast<int64_t>(out.size()) + 1)), n);
    if (m.once_in(4))
        out.insert(out.begin() + static_cast<std::ptrdiff_t>(m.below(static_cast<int64_t>(out.size()) + 1)),
                   1);
    if (m.once_in(3))
        out[static_cast<size_t>(m.below(static_cast<int64_t>(out.size())))] = -1;
    return out;
}

/// torch.cat and torch.stack.
Array joined(const std::vector<Array> &given_parts, int64_t given, bool stacked) {
    std::vector<Array> parts;
    DType dtype = given_parts[0].dtype;
    for (const Array &part : given_parts)
        dtype = promoted(dtype, part.dtype);
    for (const Array &part : given_parts) {
        const Array x = converted(part, dtype);
        if (stacked && !parts.empty() && x.shape != given_parts[0].shape)
            throw Mistake(ErrorType::Shape, "stack of different shapes");
        parts.push_back(x);
    }
    const auto nothing = [](const Array &x) { return x.shape == Extents{0}; };
    if (stacked) {
        const size_t a = axis_of(given, parts[0].shape.size() + 1);
        for (Array &x : parts)
            x.shape.insert(x.shape.begin() + static_cast<std::ptrdiff_t>(a), 1);
    } else if (!std::ranges::all_of(parts, nothing)) {
        std::erase_if(parts, nothing);
    }
    if (parts[0].shape.empty())
        throw Mistake(ErrorType::Shape, "cat of numbers");
    const size_t a = axis_of(given, parts[0].shape.size());
    Extents shape = parts[0].shape;
    shape[a] = 0;
    Trust trust = Trust::Exact;
    for (const Array &x : parts) {
        Extents other = x.shape;
        if (other.size() == shape.size())
            other[a] = shape[a];
        if (other != shape)
            throw Mistake(ErrorType::Shape, "cat of shapes that do not fit");
        shape[a] += x.shape[a];
        trust = through(trust, x.trust);
    }
    if (shape.size() > 8)
        throw Mistake(ErrorType::Shape, "more than eight axes");
    Array out = make(dtype, shape);
    out.trust = trust;
    out.device = given_parts[0].device;
    int64_t start = 0;
    for (const Array &x : parts) {
        for (size_t k = 0; k < x.at.size(); ++k) {
            Extents at = coordinates(x.shape, static_cast<int64_t>(k));
            at[a] += start;
            out.at[static_cast<size_t>(position(shape, at))] = x.at[k];
        }
        start += x.shape[a];
    }
    return out;
}

/// lz::pad by a mode: what is cut off takes part but where ends meet.
Array surrounded(const Array &x, const Extents &pairs, lz::PaddingMode mode) {
    if (pairs.size() > 2 * x.shape.size())
        throw Mistake(ErrorType::Shape, "pads for axes that are not there");
    Array out = x;
    for (const bool cuts : {true, false})
        for (size_t k = 0; k < pairs.size() / 2; ++k) {
            const size_t a = x.shape.size() - 1 - k;
            const int64_t before = pairs[2 * k], after = pairs[2 * k + 1];
            const int64_t front = std::max<int64_t>(0, -before), back = std::max<int64_t>(0, -after);
            if (cuts && front + back > x.shape[a])
                throw Mistake(ErrorType::Shape, "cuts more than there is");
            const bool circular = mode == lz::PaddingMode::Circular;
            const int64_t n = out.shape[a];
            std::vector<int64_t> from;
            if (cuts) {
                if (!circular)
                    continue;
                for (int64_t i = front; i < n - back; ++i)
                    from.push_back(i);
            } else {
                const int64_t most = mode == lz::PaddingMode::Reflect ? std::max<int64_t>(n - 1, 0)
                                     : circular || n == 0             ? n
                                                                      : INT64_MAX;
                if (std::max(before, after) > most)
                    throw Mistake(ErrorType::Shape, "there is not as much");
                const int64_t first = circular ? -std::max<int64_t>(0, before) : -before;
                const int64_t end = n + (circular ? std::max<int64_t>(0, after) : after);
                for (int64_t i = first; i < end; ++i)
                    from.push_back(circular                             ? (i + n) % n
                                   : mode == lz::PaddingMode::Replicate ? std::clamp<int64_t>(i, 0, n - 1)
                                   : i < 0                              ? -i
                                   : i >= n                             ? 2 * (n - 1) - i
                                                                        : i);
            }
            out = along(out, a, from);
        }
    return out;
}

std::vector<Array> values_of(const Oracle &o, const Statement &s) {
    std::vector<Array> values;
    for (const Arg &arg : s.args)
        values.push_back(o.value(arg));
    return values;
}

/// Parts that nobody holds, so that they are computed or read where they are joined: by turns added to
/// themselves, with the last axis backwards, and as they are.
std::vector<Tensor> by_turns(std::vector<Tensor> parts, Location loc) {
    for (size_t k = 0; k < parts.size(); ++k)
        if (k % 3 == 0)
            parts[k] = lz::add(parts[k], parts[k], 1, loc);
        else if (k % 3 == 1 && parts[k].dim() > 0)
            parts[k] = lz::flip(parts[k], {-1}, loc);
    return parts;
}
std::vector<Array> by_turns(const Oracle &o, const Statement &s) {
    std::vector<Array> parts = values_of(o, s);
    for (size_t k = 0; k < parts.size(); ++k) {
        Array &x = parts[k];
        if (k % 3 == 0) {
            x = computed(o, "add", {s.args[k], s.args[k]});
        } else if (k % 3 == 1 && !x.shape.empty()) {
            std::vector<int64_t> back(static_cast<size_t>(x.shape.back()));
            for (size_t i = 0; i < back.size(); ++i)
                back[i] = static_cast<int64_t>(back.size() - 1 - i);
            x = along(x, x.shape.size() - 1, back);
        }
    }
    return parts;
}

bool make_list(Maker &m, Statement &s, bool stacked) {
    const auto x = m.any([](const Array &v) { return v.shape.size() < 8 && v.at.size() < 500; });
    if (!x)
        return false;
    s.args = {Arg::of(*x)};
    const Array &first = m.oracle.value(*x);
    const int64_t rank = static_cast<int64_t>(first.shape.size()) + stacked;
    s.ints = {m.once_in(40) ? 3 : rank == 0 ? 0 : m.between(-rank, rank - 1)};
    const int64_t more = m.once_in(30) ? m.between(60, 150) : m.once_in(12) ? m.between(5, 20) : m.below(4);
    for (int64_t k = 0; k < more; ++k) {
        const auto y = m.any([&](const Array &v) {
            if (!meets(first, v) || v.shape.size() != first.shape.size() || v.at.size() > 500)
                return false;
            const auto a = static_cast<size_t>(s.ints[0] < 0 ? s.ints[0] + rank : s.ints[0]);
            for (size_t i = 0; i < v.shape.size(); ++i)
                if ((stacked || i != a) && v.shape[i] != first.shape[i])
                    return false;
            return true;
        });
        s.args.push_back(Arg::of(y.value_or(*x)));
    }
    s.out = {m.target()};
    return true;
}

std::vector<int64_t> range(int64_t from, int64_t to) {
    std::vector<int64_t> out;
    for (int64_t i = from; i < to; ++i)
        out.push_back(i);
    return out;
}

} // namespace

void add_view_rows(std::vector<Row> &rows) {
    const auto row = [&](std::string text, std::function<void(Call &)> run, Rule rule, Choose choose,
                         int weight = 12, bool empties = false) {
        rows.push_back(
            {std::move(text), std::move(run),
             [rule](Oracle &o, const Statement &s) { o.set(s.out[0], rule(o.value(s.args[0]), s)); },
             [choose](Maker &m, Statement &s) {
                 if (!make_one_to_one(m, s))
                     return false;
                 choose(m, m.oracle.value(s.args[0]), s);
                 return true;
             },
             weight, empties});
    };
#define loc c.loc
    const Rule reshape = [](const Array &x, const Statement &s) { return reshaped(x, s.sizes[0]); };
    const Choose factor = [](Maker &m, const Array &x, Statement &s) {
        s.sizes = {m.once_in(30) ? m.shape() : factors(m, count(x.shape))};
    };
    row(LZ_CALL(lz::reshape(T0, S0, loc)), reshape, factor);
    row(LZ_CALL(M0.reshape(S0, loc)), reshape, factor, 6, true);
    row(LZ_CALL(T0.view(S0, loc)), reshape, factor);
    const Rule transpose = [](const Array &x, const Statement &s) {
        if (x.shape.empty() && s.ints[0] >= -1 && s.ints[0] <= 0 && s.ints[1] >= -1 && s.ints[1] <= 0)
            return x;
        std::vector<size_t> axes(x.shape.size());
        std::iota(axes.begin(), axes.end(), size_t{0});
        const size_t a = axis_of(s.ints[0], axes.size()), b = axis_of(s.ints[1], axes.size());
        std::swap(axes[a], axes[b]);
        return permuted(x, axes);
    };
    const Choose two_axes = [](Maker &m, const Array &x, Statement &s) { s.ints = {axis(m, x), axis(m, x)}; };
    row(LZ_CALL(lz::transpose(T0, I0, I1, loc)), transpose, two_axes);
    row(LZ_CALL(M0.transpose(I0, I1, loc)), transpose, two_axes, 6, true);
    row(
        LZ_CALL(lz::flip(T0, {I0}, loc)),
        [](const Array &x, const Statement &s) {
            if (x.shape.empty() && s.ints[0] >= -1 && s.ints[0] <= 0)
                return x;
            const size_t a = axis_of(s.ints[0], x.shape.size());
            std::vector<int64_t> back = range(0, x.shape[a]);
            std::ranges::reverse(back);
            return along(x, a, back);
        },
        [](Maker &m, const Array &x, Statement &s) { s.ints = {axis(m, x)}; });
    row(
        LZ_CALL(lz::permute(T0, S0, loc)),
        [](const Array &x, const Statement &s) {
            std::vector<size_t> axes;
            for (const int64_t a : s.sizes[0])
                axes.push_back(axis_of(a, x.shape.size()));
            return permuted(x, axes);
        },
        [](Maker &m, const Array &x, Statement &s) {
            Extents axes = range(0, static_cast<int64_t>(x.shape.size()));
            for (size_t k = axes.size(); k > 1; --k)
                std::swap(axes[k - 1], axes[static_cast<size_t>(m.below(static_cast<int64_t>(k)))]);
            for (int64_t &a : axes)
                if (m.once_in(3))
                    a -= static_cast<int64_t>(x.shape.size());
            s.sizes = {axes};
        });
    const Rule narrow = [](const Array &x, const Statement &s) {
        const size_t a = axis_of(s.ints[0], x.shape.size());
        const int64_t extent = x.shape[a], start = s.ints[1] < 0 ? s.ints[1] + extent : s.ints[1];
        if (start < 0 || start > extent || s.ints[2] < 0 || s.ints[2] > extent - start)
            throw Mistake(ErrorType::Index, "out of the axis");
        return along(x, a, range(start, start + s.ints[2]));
    };
    const Choose inside = [](Maker &m, const Array &x, Statement &s) {
        const int64_t a = axis(m, x), rank = static_cast<int64_t>(x.shape.size());
        const int64_t extent =
            a >= -rank && a < rank ? x.shape[static_cast<size_t>(a < 0 ? a + rank : a)] : 1;
        const int64_t start = m.between(0, extent);
        s.ints = {a, start, m.once_in(30) ? extent + 1 : m.between(0, extent - start)};
    };
    row(LZ_CALL(lz::narrow(T0, I0, I1, I2, loc)), narrow, inside);
    rows.back().vary = [](Maker &m, Statement &s) { // elsewhere, unless it is all of the axis
        const Extents &shape = m.oracle.value(s.args[0]).shape;
        const auto rank = static_cast<int64_t>(shape.size());
        if (s.ints[0] < -rank || s.ints[0] >= rank)
            return;
        const int64_t left = shape[axis_of(s.ints[0], shape.size())] - s.ints[2];
        if (left > 0 && s.ints[1] >= 0 && s.ints[1] <= left)
            s.ints[1] = m.between(0, left);
    };
    const Rule select = [](const Array &x, const Statement &s) {
        const size_t a = axis_of(s.ints[0], x.shape.size());
        const int64_t extent = x.shape[a];
        if (s.ints[1] < -extent || s.ints[1] >= extent)
            throw Mistake(ErrorType::Index, "out of the axis");
        Array out = along(x, a, {s.ints[1] < 0 ? s.ints[1] + extent : s.ints[1]});
        out.shape.erase(out.shape.begin() + static_cast<std::ptrdiff_t>(a));
        return out;
    };
    const Choose one_of = [](Maker &m, const Array &x, Statement &s) {
        const int64_t a = axis(m, x), rank = static_cast<int64_t>(x.shape.size());
        const int64_t extent =
            a >= -rank && a < rank ? x.shape[static_cast<size_t>(a < 0 ? a + rank : a)] : 1;
        s.ints = {a, extent == 0 ? 0 : m.between(-extent, extent - 1)};
    };
    row(LZ_CALL(lz::select(T0, I0, I1, loc)), select, one_of);
    rows.back().vary = [](Maker &m, Statement &s) {
        const Extents &shape = m.oracle.value(s.args[0]).shape;
        const auto rank = static_cast<int64_t>(shape.size());
        if (s.ints[0] >= -rank && s.ints[0] < rank)
            s.ints[1] = m.below(std::max<int64_t>(shape[axis_of(s.ints[0], shape.size())], 1));
    };
    row(
        LZ_CALL(lz::unsqueeze(T0, I0, loc)),
        [](const Array &x, const Statement &s) {
            Array out = x;
            const size_t a = axis_of(s.ints[0], x.shape.size() + 1);
            if (x.shape.size() == 8)
                throw Mistake(ErrorType::Shape, "more than eight axes");
            out.shape.insert(out.shape.begin() + static_cast<std::ptrdiff_t>(a), 1);
            return out;
        },
        [](Maker &m, const Array &x, Statement &s) {
            s.ints = {
                m.between(-static_cast<int64_t>(x.shape.size()) - 1, static_cast<int64_t>(x.shape.size()))};
        });
    row(
        LZ_CALL(lz::squeeze(T0, {}, loc)),
        [](const Array &x, const Statement &) {
            Array out = x;
            std::erase(out.shape, 1);
            return out;
        },
        [](Maker &, const Array &, Statement &) {}, 6);
    row(
        LZ_CALL(lz::expand(T0, S0, loc)),
        [](const Array &x, const Statement &s) {
            if (s.sizes[0].size() < x.shape.size() || broadcast(x.shape, s.sizes[0]) != s.sizes[0])
                throw Mistake(ErrorType::Shape, "does not expand");
            return broadcast_to(x, s.sizes[0]);
        },
        [](Maker &m, const Array &x, Statement &s) {
            Extents shape = x.shape;
            for (int64_t &e : shape)
                e = e == 1 && m.once_in(2) ? m.between(1, 5) : e;
            if (shape.size() < 8 && m.once_in(3) && count(shape) < 500)
                shape.insert(shape.begin(), m.between(1, 3));
            if (count(shape) > 4000)
                shape = x.shape;
            s.sizes = {shape};
        });
    row(
        LZ_CALL(lz::pad(T0, S0, N0, loc)),
        [](const Array &x, const Statement &s) {
            if (s.sizes[0].size() > 2 * x.shape.size())
                throw Mistake(ErrorType::Shape, "pads for axes that are not there");
            Array out = x;
            for (size_t k = 0; k < s.sizes[0].size() / 2; ++k) {
                const size_t a = x.shape.size() - 1 - k;
                const int64_t before = s.sizes[0][2 * k], after = s.sizes[0][2 * k + 1];
                if (std::max<int64_t>(0, -before) + std::max<int64_t>(0, -after) > x.shape[a])
                    throw Mistake(ErrorType::Shape, "cuts more than there is");
                std::vector<int64_t> from;
                for (int64_t i = -before; i < x.shape[a] + after; ++i)
                    from.push_back(i < 0 || i >= x.shape[a] ? -1 : i);
                out = along(out, a, from, converted(s.numbers[0], x.dtype));
            }
            return out;
        },
        [](Maker &m, const Array &x, Statement &s) {
            Extents pairs;
            for (size_t a = x.shape.size(); a-- > 0 && (pairs.empty() || m.once_in(2));)
                for (int side = 0; side < 2; ++side)
                    pairs.push_back(m.once_in(4) ? -m.between(0, std::min<int64_t>(x.shape[a], 3))
                                                 : m.below(4));
            s.sizes = {pairs};
            s.numbers = {m.small()};
        },
        25);
    const Choose around = [](Maker &m, const Array &x, Statement &s) {
        Extents pairs;
        for (size_t a = x.shape.size(); a-- > 0 && (pairs.empty() || m.once_in(2));)
            for (int side = 0; side < 2; ++side)
                pairs.push_back(m.between(-1, m.once_in(20) ? 5 : std::min<int64_t>(x.shape[a] - 1, 4)));
        s.sizes = {pairs};
    };
    row(
        LZ_CALL(lz::pad(T0, S0, lz::kReflect, 0, loc)),
        [](const Array &x, const Statement &s) { return surrounded(x, s.sizes[0], lz::kReflect); }, around,
        6);
    row(
        LZ_CALL(lz::pad(T0, S0, lz::kReplicate, 0, loc)),
        [](const Array &x, const Statement &s) { return surrounded(x, s.sizes[0], lz::kReplicate); }, around,
        6);
    row(
        LZ_CALL(lz::pad(T0, S0, lz::kCircular, 0, loc)),
        [](const Array &x, const Statement &s) { return surrounded(x, s.sizes[0], lz::kCircular); }, around,
        6);
    row(
        LZ_CALL(lz::roll(T0, {I0}, {I1}, loc)),
        [](const Array &x, const Statement &s) {
            const size_t a = axis_of(s.ints[1], x.shape.size());
            const int64_t n = x.shape[a];
            std::vector<int64_t> from;
            for (int64_t i = 0; i < n; ++i)
                from.push_back((((i - s.ints[0]) % n) + n) % n);
            return along(x, a, from);
        },
        [](Maker &m, const Array &x, Statement &s) { s.ints = {m.between(-20, 20), axis(m, x)}; });
    row(
        LZ_CALL(lz::tril(T0, I0, loc)),
        [](const Array &x, const Statement &s) {
            const size_t rank = x.shape.size();
            if (rank < 2)
                throw Mistake(ErrorType::Shape, "no matrix");
            return rearranged(x, x.shape, [&](const Extents &at) -> std::optional<Extents> {
                if (at[rank - 1] > at[rank - 2] + s.ints[0])
                    return std::nullopt;
                return at;
            });
        },
        [](Maker &m, const Array &, Statement &s) { s.ints = {m.between(-3, 3)}; }, 6);
    row(
        LZ_CALL(lz::repeat(T0, S0, loc)),
        [](const Array &x, const Statement &s) {
            Array y = x;
            while (y.shape.size() < s.sizes[0].size())
                y.shape.insert(y.shape.begin(), 1);
            for (size_t a = 0; a < y.shape.size(); ++a) {
                std::vector<int64_t> from;
                for (int64_t k = 0; k < s.sizes[0][a]; ++k)
                    for (int64_t i = 0; i < y.shape[a]; ++i)
                        from.push_back(i);
                y = along(y, a, from);
            }
            return y;
        },
        [](Maker &m, const Array &x, Statement &s) {
            Extents repeats(x.shape.size());
            for (int64_t &r : repeats)
                r = count(x.shape) > 300 ? 1 : m.once_in(10) ? 0 : m.between(1, 2);
            s.sizes = {repeats};
        });
    // Of several tensors.
    rows.push_back(
        {LZ_CALL(lz::cat(L0, I0, loc)),
         [](Oracle &o, const Statement &s) { o.set(s.out[0], joined(values_of(o, s), s.ints[0], false)); },
         [](Maker &m, Statement &s) { return make_list(m, s, false); }, 40});
    rows.push_back(
        {LZ_CALL(lz::stack(L0, I0, loc)),
         [](Oracle &o, const Statement &s) { o.set(s.out[0], joined(values_of(o, s), s.ints[0], true)); },
         [](Maker &m, Statement &s) { return make_list(m, s, true); }, 25});
    for (const bool stacked : {false, true})
        rows.push_back(
            {std::string("[&] { std::vector<lz::Tensor> list = L0; for (size_t k = 0; k < list.size(); ++k) "
                         "if (k % 3 == 0) list[k] = lz::add(list[k], list[k]); else if (k % 3 == 1 && "
                         "list[k].dim() > 0) list[k] = lz::flip(list[k], {-1}); return lz::") +
                 (stacked ? "stack" : "cat") + "(list, I0); }()",
             [stacked](Call &c) {
                 const std::vector<Tensor> parts = by_turns(c.tensors(), loc);
                 c.out(stacked ? lz::stack(parts, c.integer(0), loc) : lz::cat(parts, c.integer(0), loc));
             },
             [stacked](Oracle &o, const Statement &s) {
                 o.set(s.out[0], joined(by_turns(o, s), s.ints[0], stacked));
             },
             [stacked](Maker &m, Statement &s) { return make_list(m, s, stacked); }, 12});
    // Into several.
    rows.push_back(
        {LZ_CALL(lz::split(T0, I0, I1, loc)),
         [](Oracle &o, const Statement &s) {
             const Array x = o.value(s.args[0]);
             const size_t a = axis_of(s.ints[1], x.shape.size());
             for (size_t k = 0; k < s.out.size(); ++k) {
                 const int64_t start = static_cast<int64_t>(k) * s.ints[0];
                 o.set(s.out[k], along(x, a, range(start, std::min(start + s.ints[0], x.shape[a]))));
             }
         },
         [](Maker &m, Statement &s) {
             const auto x = m.any([](const Array &v) { return !v.shape.empty() && count(v.shape) > 0; });
             if (!x)
                 return false;
             s.args = {Arg::of(*x)};
             const Array &v = m.oracle.value(*x);
             const int64_t a = m.below(static_cast<int64_t>(v.shape.size()));
             const int64_t extent = v.shape[static_cast<size_t>(a)];
             s.ints = {m.between((extent + 2) / 3, extent), a};
             for (int64_t start = 0; start < extent; start += s.ints[0])
                 s.out.push_back(m.target());
             std::vector<int> distinct = s.out;
             std::ranges::sort(distinct);
             return std::ranges::adjacent_find(distinct) == distinct.end();
         },
         15, false, true});
    rows.push_back({LZ_CALL(lz::unbind(T0, I0, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]);
                        const size_t a = axis_of(s.ints[0], x.shape.size());
                        for (size_t k = 0; k < s.out.size(); ++k) {
                            Array y = along(x, a, {static_cast<int64_t>(k)});
                            y.shape.erase(y.shape.begin() + static_cast<std::ptrdiff_t>(a));
                            o.set(s.out[k], y);
                        }
                    },
                    [](Maker &m, Statement &s) {
                        const auto x = m.any([](const Array &v) { return !v.shape.empty(); });
                        if (!x)
                            return false;
                        s.args = {Arg::of(*x)};
                        const Array &v = m.oracle.value(*x);
                        s.ints = {m.below(static_cast<int64_t>(v.shape.size()))};
                        for (int64_t k = 0; k < v.shape[static_cast<size_t>(s.ints[0])] && k < 3; ++k)
                            s.out.push_back(m.target());
                        std::vector<int> distinct = s.out;
                        std::ranges::sort(distinct);
                        return std::ranges::adjacent_find(distinct) == distinct.end();
                    },
                    15, false, true});
#undef loc
}

} // namespace lz::test::calls
