#include "frontend/ops/indexing/masks.h"

#include "frontend/ops/indexing/gather.h"
#include "lazuli/ops/views.h"

#include <algorithm>
#include <string>

namespace lz::indexing {

using detail::Shape;

namespace {

bool is_mask(const Index &entry) {
    return entry.kind() == Index::Kind::Tensor && entry.tensor().defined() &&
           entry.tensor().dtype() == DType::Bool;
}

/// Axes of x that the entry stands for; an Ellipsis for none before the others are known.
int axes_of(const Index &entry) {
    if (entry.kind() == Index::Kind::Ellipsis || entry.kind() == Index::Kind::None)
        return 0;
    return is_mask(entry) ? detail::type(entry.tensor()).shape.rank() : 1;
}

/// Calls f(entry, first axis) and throws IndexError for a mask that does not match the axes that it covers.
template <class F>
void for_each_axes(const ir::TensorType &type, std::span<const Index> index, Location loc, F &&f) {
    int used = 0;
    for (const Index &entry : index)
        used += axes_of(entry);
    int axis = 0;
    for (const Index &entry : index) {
        if (is_mask(entry)) {
            const Shape &mask = detail::type(entry.tensor()).shape;
            bool fits = axis + mask.rank() <= type.shape.rank();
            for (int a = 0; fits && a < mask.rank(); ++a)
                fits = mask[a] == type.shape[axis + a];
            if (!fits)
                throw IndexError("at: the mask has shape " + ir::to_string(mask) +
                                     ", which does not match the axes from " + std::to_string(axis) +
                                     " on of " + detail::text(type),
                                 loc);
        }
        f(entry, axis);
        axis +=
            entry.kind() == Index::Kind::Ellipsis ? std::max(type.shape.rank() - used, 0) : axes_of(entry);
    }
}

} // namespace

bool has_mask(std::span<const Index> index) {
    return std::ranges::any_of(index, [](const Index &entry) { return is_mask(entry); });
}

bool is_lone_mask(std::span<const Index> index) {
    return index.size() == 1 && is_mask(index[0]);
}

void check_masks(const ir::TensorType &type, std::span<const Index> index, Location loc) {
    for_each_axes(type, index, loc, [](const Index &, int) {});
}

Unmasked unmasked(const Tensor &x, std::span<const Index> index, Location loc) {
    const ir::TensorType type = detail::type(x);
    Unmasked out;
    Shape shape;
    int done = 0; // axes of x that are in `shape`
    for_each_axes(type, index, loc, [&](const Index &entry, int axis) {
        if (!is_mask(entry)) {
            out.index.push_back(entry);
            return;
        }
        const Tensor mask = detail::together_with(x, loc, entry.tensor())[1];
        for (; done < axis; ++done)
            shape.push_back(type.shape[done]);
        shape.push_back(detail::type(mask).numel());
        done += detail::type(mask).shape.rank();
        out.index.emplace_back(detail::positions_where(mask, loc), entry.loc());
    });
    for (; done < type.shape.rank(); ++done)
        shape.push_back(type.shape[done]);
    out.x = detail::reshape_to(x, shape, loc);
    return out;
}

Tensor mask_over(const Tensor &mask, const Tensor &x, Location loc) {
    Shape shape = detail::type(mask).shape;
    while (shape.rank() < detail::type(x).shape.rank())
        shape.push_back(1);
    return detail::reshape_to(mask, shape, loc);
}

Tensor rows_under(const Tensor &mask, const Tensor &x, Location loc) {
    const Shape &shape = detail::type(x).shape;
    Shape rows({detail::type(mask).numel()});
    for (int a = detail::type(mask).shape.rank(); a < shape.rank(); ++a)
        rows.push_back(shape[a]);
    return detail::reshape_to(x, rows, loc);
}

} // namespace lz::indexing
