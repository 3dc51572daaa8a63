#include "passes/lower/index_map.h"

#include "ir/diagnostic.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lz::passes {

using ir::Shape;

namespace {

bool same_words(const std::vector<ir::ArgSpec::Term> &a, const std::vector<ir::ArgSpec::Term> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto &x, const auto &y) {
        return x.word == y.word && x.coefficient == y.coefficient;
    });
}

/// (v / d) * d * c + (v % d) * c is v * c.
void join_quotients(Index &index, const IndexValues &values) {
    for (size_t i = 0; i < index.terms.size(); ++i) {
        for (size_t j = 0; j < index.terms.size(); ++j) {
            const auto [quotient, whole] = index.terms[i];
            const auto [remainder, part] = index.terms[j];
            if (i == j || part == 0 || whole % part != 0 || whole / part <= 0)
                continue;
            const int64_t divisor = whole / part;
            const Index *q = values.divided(quotient, divisor, false);
            const Index *r = values.divided(remainder, divisor, true);
            if (!q || !r || !(*q == *r))
                continue;
            const Index joined = *q;
            const int64_t scale = part;
            index.terms.erase(index.terms.begin() + static_cast<std::ptrdiff_t>(std::max(i, j)));
            index.terms.erase(index.terms.begin() + static_cast<std::ptrdiff_t>(std::min(i, j)));
            index.add(joined, scale);
            join_quotients(index, values);
            return;
        }
    }
}

/// An index as high * unit + low with 0 <= low < unit, so that a quotient by a multiple of the unit is one of
/// `high` alone.
struct Parts {
    Index high, low;
};
std::optional<Parts> apart(const Index &index, int64_t unit, std::span<const int64_t> extents) {
    if (!index.words.empty() || index.constant < 0)
        return std::nullopt;
    Parts parts;
    parts.high.constant = index.constant / unit;
    parts.low.constant = index.constant % unit;
    for (const auto &[value, coefficient] : index.terms) {
        if (coefficient % unit != 0)
            return std::nullopt;
        parts.high.terms.push_back({value, coefficient / unit});
    }
    // Terms that are multiples of the unit are high if what is left stays below it.
    int64_t reach = 0;
    for (size_t a = 0; a < extents.size(); ++a) {
        const int64_t c = index.axes[a];
        if (c < 0)
            return std::nullopt;
        if (c % unit == 0 && (extents[a] > 1 || c / unit > 0)) {
            parts.high.axes[a] = c / unit;
        } else {
            parts.low.axes[a] = c;
            reach += c * std::max<int64_t>(extents[a] - 1, 0);
        }
    }
    return parts.low.constant + reach < unit ? std::optional(std::move(parts)) : std::nullopt;
}

/// Splits off `high`, what is a multiple of the unit at every point: the quotient by the unit is `high` plus
/// that of the rest. Only where no coefficient is negative, because the rest must not be. So a row's number
/// stands in no division that needs the place in the row alone.
Parts multiples(const Index &index, int64_t unit) {
    Parts parts{{}, index};
    if (!index.words.empty() || index.constant < 0 ||
        std::ranges::any_of(
            index.axes, [](int64_t c) { return c < 0; }) ||
        std::ranges::any_of(index.terms, [](int64_t c) { return c < 0; }, &Index::Term::coefficient))
        return parts;
    const auto move = [&](int64_t &from, int64_t &to) {
        if (from != 0 && from % unit == 0) {
            to = from / unit;
            from = 0;
        }
    };
    for (size_t a = 0; a < index.axes.size(); ++a)
        move(parts.low.axes[a], parts.high.axes[a]);
    move(parts.low.constant, parts.high.constant);
    return parts;
}

/// Writes into `map` the indices of dimensions [begin, end) of `shape` for an element number among them.
void split(const Index &linear, const Shape &shape, int begin, int end, std::span<const int64_t> extents,
           IndexValues &values, IndexMap &map) {
    const auto at = [&](int d) -> Index & { return map[static_cast<size_t>(d)]; };
    if (end - begin == 1) {
        at(begin) = linear;
        return;
    }
    Index rest = linear;
    int64_t stride = 1;
    for (int d = begin + 1; d < end; ++d)
        stride *= shape[d];
    for (int d = begin; d < end; ++d) {
        if (d + 1 == end || stride == 1) { // what comes after it is units
            at(d) = rest;
            break;
        }
        if (stride == 0)
            break; // an empty value: nothing is ever read
        const int64_t next = stride / std::max<int64_t>(shape[d + 1], 1);
        if (auto exact = apart(rest, stride, extents)) {
            at(d) = std::move(exact->high);
            rest = std::move(exact->low);
        } else if (shape[d] != 1) {
            // In the largest unit of the dimensions after it, so that reading the same elements in another
            // shape finds the same quotients.
            Parts whole = multiples(rest, stride);
            rest = std::move(whole.low);
            Parts parts{rest, {}};
            int64_t unit = 1;
            for (int64_t u = next, e = d + 2; u > 1; u /= std::max<int64_t>(shape[static_cast<int>(e++)], 1))
                if (auto found = apart(rest, u, extents)) {
                    parts = std::move(*found);
                    unit = u;
                    break;
                }
            whole.high.terms.push_back({values.quotient(parts.high, stride / unit), 1});
            at(d) = std::move(whole.high);
            rest = std::move(parts.low);
            rest.terms.push_back({values.remainder(parts.high, stride / unit), unit});
        }
        stride = next;
    }
}

} // namespace

Index Index::axis(int a, int64_t coefficient) {
    Index index;
    index.axes[static_cast<size_t>(a)] = coefficient;
    return index;
}

void Index::add(const Index &other, int64_t scale) {
    if (scale == 0)
        return;
    constant += other.constant * scale;
    for (size_t a = 0; a < axes.size(); ++a)
        axes[a] += other.axes[a] * scale;
    for (const auto &word : other.words) {
        const auto same =
            std::find_if(words.begin(), words.end(), [&](const auto &w) { return w.word == word.word; });
        if (same == words.end())
            words.push_back({word.word, word.coefficient * scale});
        else
            same->coefficient += word.coefficient * scale;
    }
    for (const auto &term : other.terms) {
        const auto same =
            std::find_if(terms.begin(), terms.end(), [&](const auto &t) { return t.value == term.value; });
        if (same == terms.end())
            terms.push_back({term.value, term.coefficient * scale});
        else
            same->coefficient += term.coefficient * scale;
    }
}

bool operator==(const Index &a, const Index &b) {
    return a.constant == b.constant && a.axes == b.axes && same_words(a.words, b.words) && a.terms == b.terms;
}

Index linearize(const IndexMap &map, const Shape &shape, const IndexValues *values) {
    Index linear;
    const auto strides = shape.dense_strides();
    for (size_t d = 0; d < map.size(); ++d)
        linear.add(map[d], strides[d]);
    if (values && linear.terms.size() > 1)
        join_quotients(linear, *values);
    return linear;
}

Index linearize(const IndexMap &map, const Shape &shape, int begin, int end) {
    Index linear;
    int64_t stride = 1;
    for (int d = end - 1; d >= begin; --d) {
        linear.add(map[static_cast<size_t>(d)], stride);
        stride *= shape[d];
    }
    return linear;
}

IndexMap delinearize(const Index &linear, const Shape &shape, std::span<const int64_t> extents,
                     IndexValues &values) {
    IndexMap map(static_cast<size_t>(shape.rank()));
    if (shape.rank() > 0)
        split(linear, shape, 0, shape.rank(), extents, values, map);
    return map;
}

IndexMap through_reshape(const IndexMap &map, const Shape &result, const Shape &operand,
                         std::span<const int64_t> extents, IndexValues &values) {
    IndexMap out(static_cast<size_t>(operand.rank()));
    if (operand.numel() == 0)
        return out;
    each_reshape_group(result, operand, [&](int r0, int r, int o0, int o) {
        if (r - r0 == 1 && o - o0 == 1) {
            out[static_cast<size_t>(o0)] = map[static_cast<size_t>(r0)];
            return;
        }
        Index linear = linearize(map, result, r0, r);
        if (linear.terms.size() > 1)
            join_quotients(linear, values);
        split(linear, operand, o0, o, extents, values, out);
    });
    return out;
}

IndexMap through_permute(const IndexMap &map, std::span<const int64_t> axes) {
    IndexMap out(map.size());
    for (size_t i = 0; i < map.size(); ++i)
        out[static_cast<size_t>(axes[i])] = map[i];
    return out;
}

IndexMap through_broadcast(const IndexMap &map, const Shape &operand) {
    IndexMap out(static_cast<size_t>(operand.rank()));
    const size_t skipped = map.size() - out.size();
    for (size_t d = 0; d < out.size(); ++d)
        if (operand[static_cast<int>(d)] != 1)
            out[d] = map[skipped + d];
    return out;
}

IndexMap through_slice(const IndexMap &map, const Shape &slice, const Shape &operand, uint32_t first_word,
                       std::span<const int64_t> steps) {
    IndexMap out(map.size());
    for (size_t d = 0; d < map.size(); ++d) {
        if (slice[static_cast<int>(d)] == operand[static_cast<int>(d)]) {
            out[d] = map[d];
            continue;
        }
        out[d].words.push_back({first_word + static_cast<uint32_t>(d), 1});
        out[d].add(map[d], steps[d]);
    }
    return out;
}

IndexMap through_window(const IndexMap &map, const ir::AttrView &window) {
    IndexMap out(map.begin(), map.end() - 1);
    Index &at = out[static_cast<size_t>(window.integer(ir::attr::kAxis))];
    Index place;
    place.constant = window.integer(ir::attr::kWindowBegin);
    place.add(at, window.integer(ir::attr::kWindowStep));
    place.add(map.back(), 1);
    at = std::move(place);
    return out;
}

IndexMap through_flip(const IndexMap &map, std::span<const int64_t> axes, const Shape &operand) {
    IndexMap out = map;
    for (const int64_t axis : axes) {
        Index flipped;
        flipped.constant = operand[static_cast<int>(axis)] - 1;
        flipped.add(map[static_cast<size_t>(axis)], -1);
        out[static_cast<size_t>(axis)] = flipped;
    }
    return out;
}

} // namespace lz::passes
