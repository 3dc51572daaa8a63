#include "lazuli/nn/embedding.h"

#include "frontend/nn/layers/parameters.h"

#include <fmt/format.h>
#include <limits>

namespace lz::nn {

namespace {

/// Not negative. Throws IndexError.
std::optional<int64_t> checked_padding(std::optional<int64_t> index, int64_t count, const char *layer,
                                       Location loc) {
    if (index && (*index < -count || *index >= count))
        throw IndexError(fmt::format("{}: padding_idx is {}, and there are {} vectors", layer, *index, count),
                         loc);
    return index && *index < 0 ? *index + count : index;
}

Tensor new_weight(int64_t count, int64_t extent) {
    return empty({count, extent});
}

void fill_normal(Tensor &weight, std::optional<int64_t> padding) {
    const NoGradGuard no_grad;
    const Location line = detail::Constructing::line();
    weight.normal_(0, 1, line);
    if (padding)
        weight.at({*padding}, line).zero_(line);
}

/// Shortens the vectors that are looked up.
void shorten(Tensor &weight, const Tensor &index, double max_norm, double p, Location loc) {
    const NoGradGuard no_grad;
    const Tensor rows = index.flatten(0, -1, loc).to(i64, loc);
    const Tensor used = index_add(weight.new_zeros({weight.size(0)}, {}, loc), 0, rows,
                                  weight.new_ones({rows.numel()}, {}, loc), loc)
                            .unsqueeze(1, loc);
    const Tensor length = norm(weight, p, {1}, true, loc);
    const Tensor is_long = logical_and(gt(used, 0, loc), gt(length, max_norm, loc), loc);
    const Tensor factor = where(is_long, div(max_norm, add(length, 1e-7, loc), loc), 1, loc);
    weight.mul_(factor, loc);
}

} // namespace

// --- functions

EmbeddingBagMode embedding_bag_mode(Reduction reduction, Location loc) {
    if (reduction != Reduction::Sum && reduction != Reduction::Mean)
        throw StateError("EmbeddingBagOptions: a bag becomes a sum, a mean (kSum, kMean) or a maximum "
                         "(EmbeddingBagMode::Max), and no other reduction",
                         loc);
    return reduction == Reduction::Sum ? EmbeddingBagMode::Sum : EmbeddingBagMode::Mean;
}

namespace functional {

Tensor embedding(const Tensor &index, const Tensor &weight, const EmbeddingFuncOptions &options,
                 Location loc) {
    const std::optional<int64_t> padding =
        checked_padding(options.padding_idx(), weight.size(0, loc), "embedding", loc);
    if (options.max_norm()) {
        Tensor rows = weight;
        shorten(rows, index, *options.max_norm(), options.norm_type(), loc);
    }
    const Tensor vectors = lz::embedding(weight, index, loc);
    if (!padding)
        return vectors;
    const Tensor is_padding = eq(index, *padding, loc).unsqueeze(-1, loc);
    return where(is_padding, vectors.detach(loc), vectors, loc); // which learns nothing
}

namespace {

/// `vectors` are [bags, n, dim], of which `counts`, [bags, n] bool, says which count.
Tensor reduced(const Tensor &vectors, const Tensor &counts, const Tensor &weights, EmbeddingBagMode mode,
               Location loc) {
    const Tensor in_bag = counts.unsqueeze(-1, loc);
    if (mode == EmbeddingBagMode::Max) {
        constexpr double lowest = -std::numeric_limits<double>::infinity();
        const Tensor has_any = counts.any({1}, true, loc);
        if (vectors.size(1, loc) == 0)
            return vectors.sum({1}, false, std::nullopt, loc);
        // The gradient goes to the first of equals, as in PyTorch.
        return where(has_any, where(in_bag, vectors, lowest, loc).max(1, false, loc).values, 0, loc);
    }
    Tensor counted = where(in_bag, vectors, 0, loc);
    if (weights.defined())
        counted = mul(counted, weights.unsqueeze(-1, loc), loc);
    const Tensor sum = counted.sum({1}, false, std::nullopt, loc);
    if (mode == EmbeddingBagMode::Sum)
        return sum;
    const Tensor size = counts.to(vectors.dtype(), loc).sum({1}, true, std::nullopt, loc);
    return div(sum, maximum(size, 1, loc), loc);
}

void check_weights(const Tensor &index, const Tensor &weights, EmbeddingBagMode mode, Location loc) {
    if (!weights.defined())
        return;
    if (mode != EmbeddingBagMode::Sum)
        throw StateError("EmbeddingBag: weights of vectors are taken in the mode Sum only", loc);
    if (weights.sizes(loc) != index.sizes(loc))
        throw ShapeError(fmt::format("EmbeddingBag: there are {} weights for {} vectors", weights.numel(loc),
                                     index.numel(loc)),
                         loc);
}

} // namespace

Tensor embedding_bag(const Tensor &index, const Tensor &weight, const EmbeddingBagFuncOptions &options,
                     Location loc) {
    const std::optional<int64_t> padding =
        checked_padding(options.padding_idx(), weight.size(0, loc), "EmbeddingBag", loc);
    const Tensor &offsets = options.offsets(), &weights = options.per_sample_weights();
    check_weights(index, weights, options.mode(), loc);
    if (!offsets.defined()) {
        if (index.dim(loc) != 2)
            throw ShapeError(fmt::format("EmbeddingBag: the input has {} axes; without offsets it needs 2, "
                                         "with offsets 1",
                                         index.dim(loc)),
                             loc);
        const Tensor counts =
            padding ? ne(index, *padding, loc)
                    : ones(index.sizes(loc), {.dtype = boolean, .device = index.device(loc)}, loc);
        return reduced(lz::embedding(weight, index, loc), counts, weights, options.mode(), loc);
    }
    if (index.dim(loc) != 1 || offsets.dim(loc) != 1)
        throw ShapeError(fmt::format("EmbeddingBag: the input has {} axes and the offsets {}; both need 1",
                                     index.dim(loc), offsets.dim(loc)),
                         loc);
    const int64_t count = index.size(0, loc), marks = offsets.size(0, loc);
    const bool has_end = options.include_last_offset();
    const int64_t bags = marks - (has_end ? 1 : 0);
    const Tensor place = arange(count, {.device = index.device(loc)}, loc).unsqueeze(0, loc); // [1, n]
    const Tensor starts = offsets.narrow(0, 0, bags, loc).unsqueeze(1, loc);
    Tensor ends = offsets.narrow(0, 1, marks - 1, loc);
    if (!has_end)
        ends = cat({ends, offsets.new_full({1}, count, {}, loc)}, 0, loc);
    Tensor counts = logical_and(ge(place, starts, loc), lt(place, ends.unsqueeze(1, loc), loc), loc);
    if (padding)
        counts = logical_and(counts, ne(index, *padding, loc).unsqueeze(0, loc), loc);
    const Tensor vectors =
        lz::embedding(weight, index, loc).unsqueeze(0, loc).expand({bags, count, weight.size(1, loc)}, loc);
    return reduced(vectors, counts, weights.defined() ? weights.unsqueeze(0, loc) : weights, options.mode(),
                   loc);
}

} // namespace functional

// --- Embedding

EmbeddingImpl::EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim, Location loc)
    : EmbeddingImpl(EmbeddingOptions(num_embeddings, embedding_dim), loc) {}

EmbeddingImpl::EmbeddingImpl(const EmbeddingOptions &given, Location loc) : options(given) {
    detail::check_extent(options.num_embeddings(), "Embedding", "num_embeddings", loc);
    detail::check_extent(options.embedding_dim(), "Embedding", "embedding_dim", loc);
    options.padding_idx(checked_padding(options.padding_idx(), options.num_embeddings(), "Embedding", loc));
    const detail::Constructing here(loc);
    EmbeddingImpl::reset();
}

void EmbeddingImpl::reset() {
    weight = register_parameter("weight", new_weight(options.num_embeddings(), options.embedding_dim()));
    reset_parameters();
}

void EmbeddingImpl::reset_parameters() {
    fill_normal(weight, options.padding_idx());
}

Tensor EmbeddingImpl::forward(const Tensor &index, Location loc) {
    return functional::embedding(index, weight,
                                 functional::EmbeddingFuncOptions()
                                     .padding_idx(options.padding_idx())
                                     .max_norm(options.max_norm())
                                     .norm_type(options.norm_type()),
                                 loc);
}

std::string EmbeddingImpl::extra_repr() const {
    std::string out = fmt::format("{}, {}", options.num_embeddings(), options.embedding_dim());
    if (options.padding_idx())
        out += fmt::format(", padding_idx={}", *options.padding_idx());
    if (options.max_norm())
        out += ", max_norm=" + detail::text(*options.max_norm());
    if (options.norm_type() != 2)
        out += ", norm_type=" + detail::text(options.norm_type());
    return out;
}

Embedding Embedding::from_pretrained(const Tensor &weight, bool freeze, Location loc) {
    if (weight.dim(loc) != 2)
        throw ShapeError(fmt::format("from_pretrained: the weight has {} axes; it needs 2", weight.dim(loc)),
                         loc);
    Embedding made(EmbeddingOptions(weight.size(0), weight.size(1)), loc);
    made->weight.set_data(weight, loc);
    made->weight.requires_grad_(!freeze, loc);
    return made;
}

// --- EmbeddingBag

EmbeddingBagImpl::EmbeddingBagImpl(int64_t num_embeddings, int64_t embedding_dim, Location loc)
    : EmbeddingBagImpl(EmbeddingBagOptions(num_embeddings, embedding_dim), loc) {}

EmbeddingBagImpl::EmbeddingBagImpl(const EmbeddingBagOptions &given, Location loc) : options(given) {
    detail::check_extent(options.num_embeddings(), "EmbeddingBag", "num_embeddings", loc);
    detail::check_extent(options.embedding_dim(), "EmbeddingBag", "embedding_dim", loc);
    options.padding_idx(
        checked_padding(options.padding_idx(), options.num_embeddings(), "EmbeddingBag", loc));
    const detail::Constructing here(loc);
    EmbeddingBagImpl::reset();
}

void EmbeddingBagImpl::reset() {
    weight = register_parameter("weight", new_weight(options.num_embeddings(), options.embedding_dim()));
    reset_parameters();
}

void EmbeddingBagImpl::reset_parameters() {
    fill_normal(weight, options.padding_idx());
}

Tensor EmbeddingBagImpl::forward(const Tensor &index, Location loc) {
    return forward(index, {}, {}, loc);
}

Tensor EmbeddingBagImpl::forward(const Tensor &index, const Tensor &offsets, const Tensor &per_sample_weights,
                                 Location loc) {
    return functional::embedding_bag(index, weight,
                                     functional::EmbeddingBagFuncOptions()
                                         .offsets(offsets)
                                         .mode(options.mode())
                                         .per_sample_weights(per_sample_weights)
                                         .include_last_offset(options.include_last_offset())
                                         .padding_idx(options.padding_idx()),
                                     loc);
}

std::string EmbeddingBagImpl::extra_repr() const {
    const char *const names[] = {"sum", "mean", "max"};
    std::string out = fmt::format("{}, {}", options.num_embeddings(), options.embedding_dim());
    out += fmt::format(", mode='{}'", names[static_cast<int>(options.mode())]);
    return options.padding_idx() ? out + fmt::format(", padding_idx={}", *options.padding_idx()) : out;
}

} // namespace lz::nn
