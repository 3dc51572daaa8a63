#include "passes/lower/domain.h"

#include "passes/hashed.h"

#include <algorithm>

namespace lz::passes {

using ir::Shape;

namespace {

/// Strides at which a dimension of the shape begins, 1 and the whole included.
void add_boundaries(const Shape &shape, std::vector<int64_t> &boundaries) {
    int64_t stride = 1;
    boundaries.push_back(1);
    for (int d = shape.rank() - 1; d >= 0; --d) {
        stride *= shape[d];
        boundaries.push_back(stride);
    }
}

/// Sorted without repetition; false if one does not divide the next, so that no axes fit all.
bool divisible(std::vector<int64_t> &boundaries) {
    std::sort(boundaries.begin(), boundaries.end());
    boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
    for (size_t i = 0; i + 1 < boundaries.size(); ++i)
        if (boundaries[i] == 0 || boundaries[i + 1] % boundaries[i] != 0)
            return false;
    return boundaries.size() <= static_cast<size_t>(kMaxAxes);
}

/// Where an element number over the rows falls in an element number over everything.
std::optional<int64_t> row_boundary_in_full(const Fold &fold, int64_t boundary) {
    int64_t row = 1, full = 1;
    for (size_t g = fold.groups.size(); g-- > 0;) {
        const auto [extent, reduced] = fold.groups[g];
        if (!reduced) {
            if (boundary <= row * extent)
                return boundary % row == 0 ? std::optional(full * (boundary / row)) : std::nullopt;
            row *= extent;
        }
        full *= extent;
    }
    return boundary == row ? std::optional(full) : std::nullopt;
}

void axis_per_dimension(Domain &domain, const Shape &shape) {
    domain.per_dimension = true;
    domain.shape = shape;
    const auto strides = shape.dense_strides();
    domain.extents.assign(shape.begin(), shape.end());
    for (int d = 0; d < shape.rank(); ++d)
        domain.full.axes[static_cast<size_t>(d)] = strides[static_cast<size_t>(d)];
}

/// One axis between each two neighbouring boundaries.
void axis_per_boundary(Domain &domain, std::span<const int64_t> boundaries) {
    for (size_t i = boundaries.size() - 1; i > 0; --i) {
        domain.full.axes[domain.extents.size()] = boundaries[i - 1];
        domain.extents.push_back(boundaries[i] / boundaries[i - 1]);
    }
}

/// Element numbers over the rows: the kept axes, dense, in order.
void number_rows(Domain &domain) {
    int64_t stride = 1;
    for (size_t a = domain.extents.size(); a-- > 0;) {
        if (domain.reduced >> a & 1)
            continue;
        domain.rows.axes[a] = stride;
        stride *= domain.extents[a];
    }
    Shape rows;
    if (domain.per_dimension)
        for (size_t a = 0; a < domain.extents.size(); ++a)
            if (!(domain.reduced >> a & 1))
                rows.push_back(domain.extents[a]);
    domain.row_shape = rows;
}

/// The same dimensions but for extents of 1.
bool similar(const Shape &a, const Shape &b) {
    int i = 0, j = 0;
    while (true) {
        while (i < a.rank() && a[i] == 1)
            ++i;
        while (j < b.rank() && b[j] == 1)
            ++j;
        if (i == a.rank() || j == b.rank())
            return i == a.rank() && j == b.rank();
        if (a[i++] != b[j++])
            return false;
    }
}

bool all_similar(std::span<const Shape> shapes, const Shape &shape) {
    return std::all_of(shapes.begin(), shapes.end(), [&](const Shape &s) { return similar(s, shape); });
}

} // namespace

int64_t Fold::rows() const {
    int64_t n = 1;
    for (const Group &g : groups)
        n *= g.reduced ? 1 : g.extent;
    return n;
}

int64_t Fold::reduced() const {
    int64_t n = 1;
    for (const Group &g : groups)
        n *= g.reduced ? g.extent : 1;
    return n;
}

int Fold::reduced_groups() const {
    return static_cast<int>(
        std::count_if(groups.begin(), groups.end(), [](const Group &g) { return g.reduced; }));
}

bool operator==(const Fold &a, const Fold &b) {
    const auto similar = [](const Fold::Group &x, const Fold::Group &y) {
        return x.reduced == y.reduced && !surely_differ(x.extent, y.extent);
    };
    return std::ranges::equal(a.groups, b.groups, similar) && a.groups == b.groups;
}

Fold fold_of(const Shape &shape, std::span<const int64_t> reduced_axes) {
    Fold fold;
    for (int d = 0; d < shape.rank(); ++d) {
        const bool reduced = std::find(reduced_axes.begin(), reduced_axes.end(), d) != reduced_axes.end();
        if (!reduced && shape[d] == 1)
            continue;
        if (!fold.groups.empty() && fold.groups.back().reduced == reduced)
            fold.groups.back().extent *= shape[d];
        else
            fold.groups.push_back({shape[d], reduced});
    }
    return fold;
}

Domain loop_domain(std::span<const Shape> shapes) {
    Domain domain;
    const Shape &shape = shapes[0];
    if (shape.rank() == 0) {
        domain.extents = {1};
        domain.full = Index::axis(0);
    } else {
        std::vector<int64_t> boundaries;
        for (const Shape &s : shapes)
            add_boundaries(s, boundaries);
        if (!all_similar(shapes, shape) && shape.numel() > 1 && divisible(boundaries))
            axis_per_boundary(domain, boundaries);
        else
            axis_per_dimension(domain, shape);
    }
    domain.rows = domain.full;
    return domain;
}

Domain row_domain(const Shape &operand, std::span<const int64_t> axes, std::span<const Shape> full,
                  std::span<const Shape> rows, bool one_axis_a_group) {
    Domain domain;
    const auto reduced = [&](int d) { return std::find(axes.begin(), axes.end(), d) != axes.end(); };
    const Fold fold = fold_of(operand, axes);
    Shape kept;
    for (int d = 0; d < operand.rank(); ++d)
        if (!reduced(d))
            kept.push_back(operand[d]);

    std::vector<int64_t> boundaries;
    bool plain = all_similar(full, operand);
    for (const Shape &s : rows) {
        plain = plain && similar(s, kept);
        std::vector<int64_t> of_rows;
        add_boundaries(s, of_rows);
        for (const int64_t b : of_rows)
            if (const auto at = row_boundary_in_full(fold, b))
                boundaries.push_back(*at);
    }
    if (!plain && operand.numel() > 0) {
        for (const Shape &s : full)
            add_boundaries(s, boundaries);
        add_boundaries(operand, boundaries);
        plain = !divisible(boundaries);
    }
    if (one_axis_a_group) {
        // Dimensions of a reduced group are one axis; kept ones stay as they are.
        const auto strides = operand.dense_strides();
        for (int d = 0; d < operand.rank(); ++d) {
            const size_t a = domain.extents.size();
            if (reduced(d) && a > 0 && (domain.reduced >> (a - 1) & 1)) {
                domain.extents[a - 1] *= operand[d];
                domain.full.axes[a - 1] = strides[static_cast<size_t>(d)];
                continue;
            }
            if (!reduced(d) && operand[d] == 1)
                continue;
            domain.full.axes[a] = strides[static_cast<size_t>(d)];
            domain.extents.push_back(operand[d]);
            domain.reduced |= (reduced(d) ? 1u : 0u) << a;
        }
    } else if (plain || operand.numel() == 0) {
        axis_per_dimension(domain, operand);
        for (int d = 0; d < operand.rank(); ++d) {
            // A kept extent of 1 between reduced dimensions goes with them.
            bool before = false, after = false;
            for (int x = 0; x < operand.rank(); ++x)
                if (operand[x] != 1 || reduced(x)) {
                    if (x < d)
                        before = reduced(x);
                    else if (x > d && !after) {
                        after = reduced(x);
                        break;
                    }
                }
            const bool between = operand[d] == 1 && before && after;
            if (reduced(d) || between)
                domain.reduced |= 1u << d;
        }
    } else {
        axis_per_boundary(domain, boundaries);
        // Groups are unions of axes, since their boundaries are among those of the operand.
        size_t a = 0;
        for (const auto &[extent, is_reduced] : fold.groups) {
            int64_t covered = 1;
            if (extent == 1) {
                // A reduced extent of 1 has no axis between boundaries.
                domain.extents.insert(domain.extents.begin() + static_cast<std::ptrdiff_t>(a), 1);
                for (size_t x = domain.extents.size() - 1; x > a; --x)
                    domain.full.axes[x] = domain.full.axes[x - 1];
                domain.full.axes[a] =
                    a + 1 < domain.extents.size() ? domain.full.axes[a + 1] * domain.extents[a + 1] : 1;
                domain.reduced |= 1u << a++;
                continue;
            }
            while (covered < extent) {
                covered *= domain.extents[a];
                domain.reduced |= (is_reduced ? 1u : 0u) << a;
                ++a;
            }
        }
    }
    number_rows(domain);
    return domain;
}

} // namespace lz::passes
