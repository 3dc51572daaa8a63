#include "lazuli/nn/attention.h"

#include "frontend/nn/layers/parameters.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace lz::nn {

using detail::text;

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// bool [queries, keys]: whether key j is not behind query i.
Tensor causal(int64_t queries, int64_t keys, const Device &device, Location loc) {
    const Tensor i = arange(queries, {.device = device}, loc).unsqueeze(1, loc);
    return ge(i, arange(keys, {.device = device}, loc).unsqueeze(0, loc), loc);
}

/// Scores of which those that the mask tells (bool: true; floats: added -infinity) do not take part.
Tensor without(const Tensor &scores, const Tensor &mask, const char *what, Location loc) {
    if (mask.dtype(loc) == boolean)
        return masked_fill(scores, mask, kNever, loc);
    if (!is_floating_point(mask.dtype(loc)))
        throw DTypeError(fmt::format("MultiheadAttention: {} holds {}; it needs bool or floats", what,
                                     lz::name(mask.dtype(loc))),
                         loc);
    return add(scores, mask.to(scores.dtype(), loc), loc);
}

void fill_by_xavier(Tensor &weight) {
    const double sum = static_cast<double>(weight.size(0) + weight.size(-1));
    detail::fill_uniform(weight, sum > 0 ? std::sqrt(6 / sum) : 0);
}

} // namespace

Tensor functional::scaled_dot_product_attention(const Tensor &query, const Tensor &key, const Tensor &value,
                                                const Tensor &attn_mask, double dropout_p, bool is_causal,
                                                std::optional<double> scale, Location loc) {
    if (attn_mask.defined() && is_causal)
        throw StateError("scaled_dot_product_attention: is_causal is itself a mask, and attn_mask is another",
                         loc);
    for (const auto &[of, name] : {std::pair{&query, "query"}, {&key, "key"}, {&value, "value"}})
        if (of->dim(loc) < 2)
            throw ShapeError(
                fmt::format("scaled_dot_product_attention: the {} is {}; it needs 2 axes or more, "
                            "positions and features",
                            name, text(of->sizes(loc))),
                loc);
    const int64_t extent = query.size(-1, loc);
    if (key.size(-1, loc) != extent)
        throw ShapeError(
            fmt::format("scaled_dot_product_attention: the query is {} and the key {}; their last "
                        "axes have to be the same",
                        text(query.sizes(loc)), text(key.sizes(loc))),
            loc);
    if (value.size(-2, loc) != key.size(-2, loc))
        throw ShapeError(
            fmt::format("scaled_dot_product_attention: the key is {} and the value {}; they need "
                        "the same number of positions, their last axes but one",
                        text(key.sizes(loc)), text(value.sizes(loc))),
            loc);
    const double factor = scale.value_or(detail::one_by_root(extent));
    Tensor scores = mul(matmul(query, key.transpose(-2, -1, loc), loc), factor, loc);
    if (is_causal)
        scores = where(causal(query.size(-2, loc), key.size(-2, loc), query.device(loc), loc), scores, kNever,
                       loc);
    else if (attn_mask.defined() && attn_mask.dtype(loc) == boolean)
        scores = where(attn_mask, scores, kNever, loc);
    else if (attn_mask.defined())
        scores = add(scores, attn_mask, loc);
    const Tensor weights = softmax(scores, -1, std::nullopt, loc);
    return matmul(dropout_p > 0 ? dropout(weights, dropout_p, true, loc) : weights, value, loc);
}

// --- MultiheadAttention

MultiheadAttentionImpl::MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads, Location loc)
    : MultiheadAttentionImpl(MultiheadAttentionOptions(embed_dim, num_heads), loc) {}

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions &given, Location loc)
    : options(given) {
    detail::check_extent(options.embed_dim(), "MultiheadAttention", "embed_dim", loc);
    if (options.num_heads() < 1 || options.embed_dim() % options.num_heads() != 0)
        throw ShapeError(fmt::format("MultiheadAttention: embed_dim, {}, is not divided by {} heads",
                                     options.embed_dim(), options.num_heads()),
                         loc);
    const detail::Constructing here(loc);
    MultiheadAttentionImpl::reset();
}

void MultiheadAttentionImpl::reset() {
    const int64_t extent = options.embed_dim();
    const int64_t keys = options.kdim().value_or(extent), values = options.vdim().value_or(extent);
    const bool one = keys == extent && values == extent;
    const auto make = [&](const char *name, const Sizes &sizes, bool there) {
        return register_parameter(name, there ? empty(sizes) : Tensor());
    };
    in_proj_weight = make("in_proj_weight", {3 * extent, extent}, one);
    q_proj_weight = make("q_proj_weight", {extent, extent}, !one);
    k_proj_weight = make("k_proj_weight", {extent, keys}, !one);
    v_proj_weight = make("v_proj_weight", {extent, values}, !one);
    in_proj_bias = make("in_proj_bias", {3 * extent}, options.bias());
    bias_k = make("bias_k", {1, 1, extent}, options.add_bias_kv());
    bias_v = make("bias_v", {1, 1, extent}, options.add_bias_kv());
    out_proj = register_module("out_proj", Linear(extent, extent, options.bias()));
    reset_parameters();
}

void MultiheadAttentionImpl::reset_parameters() {
    for (Tensor *const weight : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight})
        if (weight->defined())
            fill_by_xavier(*weight);
    detail::fill(in_proj_bias, 0);
    detail::fill(out_proj->bias, 0);
    const NoGradGuard no_grad;
    for (Tensor *const bias : {&bias_k, &bias_v})
        if (bias->defined())
            bias->normal_(0, std::sqrt(2.0 / static_cast<double>(1 + options.embed_dim())),
                          detail::Constructing::line());
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const Tensor &query, const Tensor &key,
                                                           const Tensor &value,
                                                           const Tensor &key_padding_mask, bool need_weights,
                                                           const Tensor &attn_mask, bool average_attn_weights,
                                                           bool is_causal, Location loc) {
    const int64_t rank = query.dim(loc), extent = options.embed_dim(), heads = options.num_heads();
    if ((rank != 2 && rank != 3) || key.dim(loc) != rank || value.dim(loc) != rank)
        throw ShapeError(fmt::format("MultiheadAttention: query, key and value have {}, {} and {} axes; all "
                                     "need 2, or all 3",
                                     rank, key.dim(loc), value.dim(loc)),
                         loc);
    // [n, length, extent] from here on.
    const bool batched = rank == 3, turned = batched && !options.batch_first();
    const auto rows = [&](const Tensor &x) {
        return !batched ? x.unsqueeze(0, loc) : turned ? x.transpose(0, 1, loc) : x;
    };
    Tensor q, k, v;
    if (in_proj_weight.defined() && query.same_tensor(key) && query.same_tensor(value)) {
        const std::vector<Tensor> all =
            linear(rows(query), in_proj_weight, in_proj_bias, loc).chunk(3, -1, loc);
        q = all[0], k = all[1], v = all[2];
    } else {
        const std::vector<Tensor> w = in_proj_weight.defined()
                                          ? in_proj_weight.chunk(3, 0, loc)
                                          : std::vector{q_proj_weight, k_proj_weight, v_proj_weight};
        const std::vector<Tensor> b =
            in_proj_bias.defined() ? in_proj_bias.chunk(3, 0, loc) : std::vector<Tensor>(3);
        q = linear(rows(query), w[0], b[0], loc);
        k = linear(rows(key), w[1], b[1], loc);
        v = linear(rows(value), w[2], b[2], loc);
    }
    const int64_t n = q.size(0), length = q.size(1);
    int64_t more = 0; // keys behind those given
    if (bias_k.defined()) {
        k = cat({k, bias_k.expand({n, 1, extent}, loc)}, 1, loc);
        v = cat({v, bias_v.expand({n, 1, extent}, loc)}, 1, loc);
        ++more;
    }
    if (options.add_zero_attn()) {
        k = pad(k, {0, 0, 0, 1}, 0, loc);
        v = pad(v, {0, 0, 0, 1}, 0, loc);
        ++more;
    }
    const auto by_head = [&](const Tensor &x) {
        return x.reshape({n, x.size(1), heads, extent / heads}, loc).transpose(1, 2, loc);
    };
    const int64_t keys = k.size(1);
    Tensor scores = matmul(mul(by_head(q), detail::one_by_root(extent / heads), loc),
                           by_head(k).transpose(-2, -1, loc), loc); // [n, heads, length, keys]
    const auto with_more = [&](const Tensor &mask) {
        return more == 0 ? mask : pad(mask, {0, more}, 0, loc);
    };
    if (attn_mask.defined()) {
        const Sizes one = {length, keys - more}, each = {n * heads, length, keys - more};
        if (attn_mask.sizes(loc) != one && attn_mask.sizes(loc) != each)
            throw ShapeError(fmt::format("MultiheadAttention: attn_mask is {}; it needs {} or {}",
                                         text(attn_mask.sizes(loc)), text(one), text(each)),
                             loc);
        Tensor mask = with_more(attn_mask);
        if (mask.dim() == 3)
            mask = mask.reshape({n, heads, length, keys}, loc);
        scores = without(scores, mask, "attn_mask", loc);
    } else if (is_causal) {
        const Tensor later = logical_not(causal(length, keys - more, query.device(loc), loc), loc);
        scores = without(scores, with_more(later), "the causal mask", loc);
    }
    if (key_padding_mask.defined()) {
        const Sizes sizes = batched ? Sizes{n, keys - more} : Sizes{keys - more};
        if (key_padding_mask.sizes(loc) != sizes)
            throw ShapeError(fmt::format("MultiheadAttention: key_padding_mask is {}; it needs {}",
                                         text(key_padding_mask.sizes(loc)), text(sizes)),
                             loc);
        scores = without(scores, with_more(key_padding_mask).reshape({n, 1, 1, keys}, loc),
                         "key_padding_mask", loc);
    }
    const Tensor weights =
        dropout(softmax(scores, -1, std::nullopt, loc), options.dropout(), is_training(), loc);
    Tensor y = matmul(weights, by_head(v), loc).transpose(1, 2, loc).reshape({n, length, extent}, loc);
    y = out_proj->forward(y, loc);
    if (!batched || turned)
        y = batched ? y.transpose(0, 1, loc) : y.squeeze({0}, loc);
    if (!need_weights)
        return {y, Tensor()};
    const Tensor shown = average_attn_weights ? weights.mean({1}, false, std::nullopt, loc) : weights;
    return {y, batched ? shown : shown.squeeze({0}, loc)};
}

// --- TransformerEncoderLayer

TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(int64_t d_model, int64_t nhead, Location loc)
    : TransformerEncoderLayerImpl(TransformerEncoderLayerOptions(d_model, nhead), loc) {}

TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(const TransformerEncoderLayerOptions &given,
                                                         Location loc)
    : options(given) {
    if (options.activation() != "relu" && options.activation() != "gelu")
        throw StateError("TransformerEncoderLayer: there is no activation \"" + options.activation() +
                             "\"; there are \"relu\" and \"gelu\"",
                         loc);
    const detail::Constructing here(loc);
    TransformerEncoderLayerImpl::reset();
}

void TransformerEncoderLayerImpl::reset() {
    const int64_t extent = options.d_model();
    const Location line = detail::Constructing::line();
    const LayerNormOptions norm =
        LayerNormOptions({extent}).eps(options.layer_norm_eps()).bias(options.bias());
    self_attn =
        register_module("self_attn", MultiheadAttention(MultiheadAttentionOptions(extent, options.nhead())
                                                            .dropout(options.dropout())
                                                            .bias(options.bias())
                                                            .batch_first(options.batch_first()),
                                                        line));
    linear1 = register_module("linear1", Linear(extent, options.dim_feedforward(), options.bias(), line));
    dropout = register_module("dropout", Dropout(options.dropout(), line));
    linear2 = register_module("linear2", Linear(options.dim_feedforward(), extent, options.bias(), line));
    norm1 = register_module("norm1", LayerNorm(norm, line));
    norm2 = register_module("norm2", LayerNorm(norm, line));
    dropout1 = register_module("dropout1", Dropout(options.dropout(), line));
    dropout2 = register_module("dropout2", Dropout(options.dropout(), line));
}

Tensor TransformerEncoderLayerImpl::attended(const Tensor &x, const Tensor &mask, const Tensor &padding,
                                             bool is_causal, Location loc) {
    return dropout1(std::get<0>(self_attn->forward(x, x, x, padding, false, mask, true, is_causal, loc)),
                    loc);
}

Tensor TransformerEncoderLayerImpl::fed_forward(const Tensor &x, Location loc) {
    Tensor inner = linear1(x, loc);
    inner =
        options.activation() == "gelu" ? gelu(std::move(inner), Gelu::Erf, loc) : relu(std::move(inner), loc);
    return dropout2(linear2(dropout(inner, loc), loc), loc);
}

Tensor TransformerEncoderLayerImpl::forward(const Tensor &src, const Tensor &src_mask,
                                            const Tensor &src_key_padding_mask, bool is_causal,
                                            Location loc) {
    if (options.norm_first()) {
        const Tensor x =
            add(src, attended(norm1(src, loc), src_mask, src_key_padding_mask, is_causal, loc), loc);
        return add(x, fed_forward(norm2(x, loc), loc), loc);
    }
    const Tensor x = norm1(add(src, attended(src, src_mask, src_key_padding_mask, is_causal, loc), loc), loc);
    return norm2(add(x, fed_forward(x, loc), loc), loc);
}

// --- TransformerEncoder

TransformerEncoderOptions::TransformerEncoderOptions(TransformerEncoderLayer encoder_layer,
                                                     int64_t num_layers)
    : encoder_layer_(std::move(encoder_layer)), num_layers_(num_layers) {}

TransformerEncoderOptions::TransformerEncoderOptions(const TransformerEncoderLayerOptions &layer,
                                                     int64_t num_layers, Location loc)
    : encoder_layer_(TransformerEncoderLayer(layer, loc)), num_layers_(num_layers) {}

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerEncoderLayerOptions &layer,
                                               int64_t num_layers, Location loc)
    : TransformerEncoderImpl(TransformerEncoderOptions(layer, num_layers, loc), loc) {}

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerEncoderLayer &layer, int64_t num_layers,
                                               const LayerNorm &given, Location loc) {
    if (num_layers < 0)
        throw IndexError(fmt::format("TransformerEncoder: num_layers is {}; it is 0 or more", num_layers),
                         loc);
    layers = register_module("layers", ModuleList());
    for (int64_t i = 0; i < num_layers; ++i)
        layers->push_back(layer->clone(std::nullopt, loc), loc);
    if (!given.is_empty())
        norm = register_module("norm", given);
}

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerEncoderOptions &options, Location loc)
    : TransformerEncoderImpl(
          options.encoder_layer(), options.num_layers(),
          options.norm().is_empty() ? LayerNorm(nullptr) : options.norm().get<LayerNorm>(loc), loc) {}

void TransformerEncoderImpl::reset() { // of a copy, which holds the layers of the other one
    layers = register_module("layers", std::dynamic_pointer_cast<ModuleListImpl>(layers->clone()));
    if (!norm.is_empty())
        norm = register_module("norm", std::dynamic_pointer_cast<LayerNormImpl>(norm->clone()));
}

Tensor TransformerEncoderImpl::forward(const Tensor &src, const Tensor &mask,
                                       const Tensor &src_key_padding_mask, bool is_causal, Location loc) {
    Tensor x = src;
    for (const std::shared_ptr<Module> &layer : *layers)
        x = call_module(static_cast<TransformerEncoderLayerImpl &>(*layer), loc, x, mask,
                        src_key_padding_mask, is_causal);
    return norm.is_empty() ? x : norm(x, loc);
}

} // namespace lz::nn
