#pragma once
/// Attention, and transformers' encoders.

#include "lazuli/nn/activation.h"
#include "lazuli/nn/containers.h"
#include "lazuli/nn/dropout.h"
#include "lazuli/nn/linear.h"
#include "lazuli/nn/normalization.h"

#include <optional>
#include <tuple>

namespace lz {
namespace nn {

namespace functional {

/// softmax(q k^T * scale + mask) v over the last two axes; axes before them broadcast. A mask of bool says
/// who takes part, one of floats is added. With `is_causal` position i attends to positions up to i. `scale`
/// is 1 / sqrt(extent of q's last axis) unless given. Throws StateError for a mask beside `is_causal`,
/// and ShapeError for fewer than two axes, queries and keys of other lengths, and other numbers of keys and
/// values.
LZ_API Tensor scaled_dot_product_attention(const Tensor &query, const Tensor &key, const Tensor &value,
                                           const Tensor &attn_mask = {}, double dropout_p = 0,
                                           bool is_causal = false, std::optional<double> scale = std::nullopt,
                                           Location loc = Location::current());

} // namespace functional

/// What MultiheadAttention is made of.
struct MultiheadAttentionOptions {
    /// So many heads.
    MultiheadAttentionOptions(int64_t embed_dim, int64_t num_heads)
        : embed_dim_(embed_dim), num_heads_(num_heads) {}
    /// Extent of queries and results.
    LZ_OPTION(int64_t, embed_dim, 0);
    /// How many heads it is divided among.
    LZ_OPTION(int64_t, num_heads, 1);
    /// Of the weights, in training.
    LZ_OPTION(double, dropout, 0);
    /// Whether the projections have biases.
    LZ_OPTION(bool, bias, true);
    /// Whether a learned key and value stands behind those given.
    LZ_OPTION(bool, add_bias_kv, false);
    /// Whether a key and value of 0 stands behind those given.
    LZ_OPTION(bool, add_zero_attn, false);
    /// Extent of keys, if it is another one.
    LZ_OPTION(std::optional<int64_t>, kdim, std::nullopt);
    /// Extent of values, if it is another one.
    LZ_OPTION(std::optional<int64_t>, vdim, std::nullopt);
    /// Whether inputs and results are [n, length, ...] and not [length, n, ...].
    LZ_OPTION(bool, batch_first, false);
};

/// Attention of several heads (Vaswani et al. 2017).
class LZ_API MultiheadAttentionImpl : public Cloneable<MultiheadAttentionImpl> {
public:
    /// Throws ShapeError where the heads do not divide embed_dim.
    MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads, Location loc = Location::current());
    /// The same by options.
    explicit MultiheadAttentionImpl(const MultiheadAttentionOptions &options,
                                    Location loc = Location::current());
    void reset() override;
    /// New random values: the projections uniform by Xavier (Glorot and Bengio 2010), biases 0.
    void reset_parameters();
    /// Queries [length, n, embed_dim], or [length, embed_dim], attend to keys and values. Gives the result,
    /// and the weights, [n, length, keys], if `need_weights`: the heads' mean, or [n, heads, length, keys].
    /// Masks are true (or -infinity, to be added) where a key does not take part: `key_padding_mask` [n,
    /// keys], `attn_mask` [length, keys] or [n * heads, length, keys]. With `is_causal` and without
    /// `attn_mask` position i attends to positions up to i. Throws ShapeError, DTypeError.
    std::tuple<Tensor, Tensor> forward(const Tensor &query, const Tensor &key, const Tensor &value,
                                       const Tensor &key_padding_mask = {}, bool need_weights = true,
                                       const Tensor &attn_mask = {}, bool average_attn_weights = true,
                                       bool is_causal = false, Location loc = Location::current());
    /// Without masks.
    std::tuple<Tensor, Tensor> forward(const Tensor &query, const Tensor &key, const Tensor &value,
                                       Location loc) {
        return forward(query, key, value, {}, true, {}, true, false, loc);
    }

    /// As given.
    MultiheadAttentionOptions options;
    /// [3 * embed_dim, embed_dim]; empty where keys or values have an extent of their own.
    Tensor in_proj_weight;
    /// [embed_dim, embed_dim], where in_proj_weight is empty.
    Tensor q_proj_weight;
    /// [embed_dim, kdim], where in_proj_weight is empty.
    Tensor k_proj_weight;
    /// [embed_dim, vdim], where in_proj_weight is empty.
    Tensor v_proj_weight;
    /// [3 * embed_dim]; empty where there is none.
    Tensor in_proj_bias;
    /// [1, 1, embed_dim]; empty where there is none.
    Tensor bias_k;
    /// [1, 1, embed_dim]; empty where there is none.
    Tensor bias_v;
    /// What the heads' results go through.
    Linear out_proj = nullptr;
};
/// Holds a MultiheadAttentionImpl.
LZ_MODULE(MultiheadAttention);

/// What TransformerEncoderLayer is made of.
struct TransformerEncoderLayerOptions {
    /// So many heads.
    TransformerEncoderLayerOptions(int64_t d_model, int64_t nhead) : d_model_(d_model), nhead_(nhead) {}
    /// Extent of inputs and results.
    LZ_OPTION(int64_t, d_model, 0);
    /// How many heads attend.
    LZ_OPTION(int64_t, nhead, 1);
    /// Extent between the two linear layers.
    LZ_OPTION(int64_t, dim_feedforward, 2048);
    /// In training.
    LZ_OPTION(double, dropout, 0.1);
    /// Between the two linear layers: "relu" or "gelu".
    LZ_OPTION(std::string, activation, "relu");
    /// Added to variances.
    LZ_OPTION(double, layer_norm_eps, 1e-5);
    /// Whether inputs and results are [n, length, d_model] and not [length, n, d_model].
    LZ_OPTION(bool, batch_first, false);
    /// Whether norms come before attention and linear layers, and not after them.
    LZ_OPTION(bool, norm_first, false);
    /// Whether linear layers and norms have biases.
    LZ_OPTION(bool, bias, true);
};

/// Attention to itself and two linear layers, each with dropout, residual and norm.
class LZ_API TransformerEncoderLayerImpl : public Cloneable<TransformerEncoderLayerImpl> {
public:
    /// Of so many heads.
    TransformerEncoderLayerImpl(int64_t d_model, int64_t nhead, Location loc = Location::current());
    /// By options. Throws StateError for an activation that there is not.
    explicit TransformerEncoderLayerImpl(const TransformerEncoderLayerOptions &options,
                                         Location loc = Location::current());
    void reset() override;
    /// [length, n, d_model]; the same shape. Masks as MultiheadAttention's.
    Tensor forward(const Tensor &src, const Tensor &src_mask = {}, const Tensor &src_key_padding_mask = {},
                   bool is_causal = false, Location loc = Location::current());
    /// Without masks.
    Tensor forward(const Tensor &src, Location loc) { return forward(src, {}, {}, false, loc); }
    /// With one mask.
    Tensor forward(const Tensor &src, const Tensor &src_mask, Location loc) {
        return forward(src, src_mask, {}, false, loc);
    }

    /// As given.
    TransformerEncoderLayerOptions options;
    /// The attention.
    MultiheadAttention self_attn = nullptr;
    /// The first of the linear layers.
    Linear linear1 = nullptr;
    /// Between the linear layers.
    Dropout dropout = nullptr;
    /// The second of the linear layers.
    Linear linear2 = nullptr;
    /// Of the attention.
    LayerNorm norm1 = nullptr;
    /// Of the linear layers.
    LayerNorm norm2 = nullptr;
    /// Behind the attention.
    Dropout dropout1 = nullptr;
    /// Behind the linear layers.
    Dropout dropout2 = nullptr;

private:
    Tensor attended(const Tensor &x, const Tensor &mask, const Tensor &padding, bool is_causal, Location loc);
    Tensor fed_forward(const Tensor &x, Location loc);
};
/// Holds a TransformerEncoderLayerImpl.
LZ_MODULE(TransformerEncoderLayer);

/// What TransformerEncoder is made of.
struct TransformerEncoderOptions {
    /// So many clones of the layer.
    LZ_API TransformerEncoderOptions(TransformerEncoderLayer encoder_layer, int64_t num_layers);
    /// So many layers of these options, which begin with the same values.
    LZ_API TransformerEncoderOptions(const TransformerEncoderLayerOptions &layer, int64_t num_layers,
                                     Location loc = Location::current());
    /// What is cloned.
    LZ_OPTION(TransformerEncoderLayer, encoder_layer, nullptr);
    /// How many there are.
    LZ_OPTION(int64_t, num_layers, 0);
    /// Behind them: a LayerNorm, or none.
    LZ_OPTION(AnyModule, norm, {});
};

/// Encoder layers one after the other.
class LZ_API TransformerEncoderImpl : public Cloneable<TransformerEncoderImpl> {
public:
    /// `num_layers` clones of the layer, and a norm behind them if one is given.
    TransformerEncoderImpl(const TransformerEncoderLayer &layer, int64_t num_layers,
                           const LayerNorm &norm = nullptr, Location loc = Location::current());
    /// The same by options. Throws StateError for a norm that is no LayerNorm.
    explicit TransformerEncoderImpl(const TransformerEncoderOptions &options,
                                    Location loc = Location::current());
    /// Of options of the layers.
    TransformerEncoderImpl(const TransformerEncoderLayerOptions &layer, int64_t num_layers,
                           Location loc = Location::current());
    void reset() override;
    /// [length, n, d_model]; the same shape. Masks as MultiheadAttention's.
    Tensor forward(const Tensor &src, const Tensor &mask = {}, const Tensor &src_key_padding_mask = {},
                   bool is_causal = false, Location loc = Location::current());
    /// Without masks.
    Tensor forward(const Tensor &src, Location loc) { return forward(src, {}, {}, false, loc); }
    /// With one mask.
    Tensor forward(const Tensor &src, const Tensor &mask, Location loc) {
        return forward(src, mask, {}, false, loc);
    }

    /// The layers.
    ModuleList layers = nullptr;
    /// Behind them; may be none.
    LayerNorm norm = nullptr;
};
/// Holds a TransformerEncoderImpl.
LZ_MODULE(TransformerEncoder);

} // namespace nn
} // namespace lz
