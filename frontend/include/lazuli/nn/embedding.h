#pragma once
/// Vectors that are looked up by number.

#include "lazuli/nn/module_holder.h"

#include <optional>

namespace lz {
namespace nn {

/// What Embedding is made of.
struct EmbeddingOptions {
    /// So many vectors of that many numbers.
    EmbeddingOptions(int64_t num_embeddings, int64_t embedding_dim)
        : num_embeddings_(num_embeddings), embedding_dim_(embedding_dim) {}
    /// How many vectors there are.
    LZ_OPTION(int64_t, num_embeddings, 0);
    /// Their extent.
    LZ_OPTION(int64_t, embedding_dim, 0);
    /// The vector of this number begins as 0 and is not learned; negative numbers count from the end.
    LZ_OPTION(std::optional<int64_t>, padding_idx, std::nullopt);
    /// Vectors that are looked up and are longer are shortened to it, in place.
    LZ_OPTION(std::optional<double>, max_norm, std::nullopt);
    /// The p of that length.
    LZ_OPTION(double, norm_type, 2);
};

namespace functional {

/// What embedding is told.
struct EmbeddingFuncOptions {
    /// The vector of this number is not learned; negative numbers count from the end.
    LZ_OPTION(std::optional<int64_t>, padding_idx, std::nullopt);
    /// Vectors that are looked up and are longer are shortened to it, in `weight` itself.
    LZ_OPTION(std::optional<double>, max_norm, std::nullopt);
    /// The p of that length.
    LZ_OPTION(double, norm_type, 2);
};
/// Rows of `weight`, [count, extent], one for each integer of `index`: [..., extent]. The order of both is
/// that of PyTorch's function; lz::embedding has the other one. Throws IndexError for a padding_idx out of
/// range.
LZ_API Tensor embedding(const Tensor &index, const Tensor &weight, const EmbeddingFuncOptions &options = {},
                        Location loc = Location::current());

} // namespace functional

/// Vectors that are looked up by number.
class LZ_API EmbeddingImpl : public Cloneable<EmbeddingImpl> {
public:
    /// Throws ShapeError for a negative extent.
    EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim, Location loc = Location::current());
    /// The same by options. Throws IndexError for a padding_idx out of range, too.
    explicit EmbeddingImpl(const EmbeddingOptions &options, Location loc = Location::current());
    void reset() override;
    /// New random values: normal with mean 0 and deviation 1.
    void reset_parameters();
    /// Integers of any shape give [..., embedding_dim].
    Tensor forward(const Tensor &index, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    EmbeddingOptions options;
    /// [num_embeddings, embedding_dim]
    Tensor weight;
};

/// Holds an EmbeddingImpl.
class Embedding : public ModuleHolder<EmbeddingImpl> {
public:
    using ModuleHolder<EmbeddingImpl>::ModuleHolder;
    /// What it holds.
    using Impl = EmbeddingImpl;
    /// With these vectors, [num_embeddings, embedding_dim], which are learned unless `freeze`. Throws
    /// ShapeError for another rank.
    LZ_API static Embedding from_pretrained(const Tensor &weight, bool freeze = true,
                                            Location loc = Location::current());
};

/// What an EmbeddingBag makes of the vectors of a bag.
enum class EmbeddingBagMode : uint8_t { Sum, Mean, Max };
/// That of a reduction, kSum or kMean. Throws StateError for another one.
LZ_API EmbeddingBagMode embedding_bag_mode(Reduction reduction, Location loc = Location::current());

namespace functional {

/// What embedding_bag is told.
struct EmbeddingBagFuncOptions {
    /// Where bags begin, [bags]; left out where the index has a row for each bag.
    LZ_OPTION(Tensor, offsets, {});
    /// What a bag becomes.
    LZ_OPTION(EmbeddingBagMode, mode, EmbeddingBagMode::Mean);
    /// The same in LibTorch's words: kSum or kMean. Throws StateError for another reduction.
    EmbeddingBagFuncOptions &mode(Reduction reduction, Location loc = Location::current()) {
        return mode(embedding_bag_mode(reduction, loc));
    }
    /// What each vector counts, in the shape of the index: in mode Sum.
    LZ_OPTION(Tensor, per_sample_weights, {});
    /// Whether the last offset is the end of the last bag.
    LZ_OPTION(bool, include_last_offset, false);
    /// Entries of this number are left out of their bags; negative numbers count from the end.
    LZ_OPTION(std::optional<int64_t>, padding_idx, std::nullopt);
};
/// Sums, means or maxima of rows of `weight`, as EmbeddingBag. Throws as that.
LZ_API Tensor embedding_bag(const Tensor &index, const Tensor &weight,
                            const EmbeddingBagFuncOptions &options = {}, Location loc = Location::current());

} // namespace functional

/// What EmbeddingBag is made of.
struct EmbeddingBagOptions {
    /// So many vectors of that many numbers.
    EmbeddingBagOptions(int64_t num_embeddings, int64_t embedding_dim)
        : num_embeddings_(num_embeddings), embedding_dim_(embedding_dim) {}
    /// How many vectors there are.
    LZ_OPTION(int64_t, num_embeddings, 0);
    /// Their extent.
    LZ_OPTION(int64_t, embedding_dim, 0);
    /// What a bag becomes.
    LZ_OPTION(EmbeddingBagMode, mode, EmbeddingBagMode::Mean);
    /// The same in LibTorch's words: kSum or kMean. Throws StateError for another reduction.
    EmbeddingBagOptions &mode(Reduction reduction, Location loc = Location::current()) {
        return mode(embedding_bag_mode(reduction, loc));
    }
    /// Whether the last offset is the end of the last bag.
    LZ_OPTION(bool, include_last_offset, false);
    /// Entries of this number are left out of their bags; negative numbers count from the end.
    LZ_OPTION(std::optional<int64_t>, padding_idx, std::nullopt);
};

/// Sums, means or maxima of vectors that are looked up. An empty bag gives 0.
class LZ_API EmbeddingBagImpl : public Cloneable<EmbeddingBagImpl> {
public:
    /// Throws ShapeError for a negative extent.
    EmbeddingBagImpl(int64_t num_embeddings, int64_t embedding_dim, Location loc = Location::current());
    /// The same by options. Throws IndexError for a padding_idx out of range, too.
    explicit EmbeddingBagImpl(const EmbeddingBagOptions &options, Location loc = Location::current());
    void reset() override;
    /// New random values: normal with mean 0 and deviation 1.
    void reset_parameters();
    /// Integers of [bags, n] give [bags, embedding_dim].
    Tensor forward(const Tensor &index, Location loc = Location::current());
    /// Integers of [n], of which bag b begins at offsets[b] and ends at the next one's beginning. In mode Sum
    /// each vector may have a weight. Throws ShapeError, and StateError for weights in another mode.
    Tensor forward(const Tensor &index, const Tensor &offsets, const Tensor &per_sample_weights = {},
                   Location loc = Location::current());
    /// The same without weights.
    Tensor forward(const Tensor &index, const Tensor &offsets, Location loc) {
        return forward(index, offsets, {}, loc);
    }
    std::string extra_repr() const override;

    /// As given.
    EmbeddingBagOptions options;
    /// [num_embeddings, embedding_dim]
    Tensor weight;
};
/// Holds an EmbeddingBagImpl.
LZ_MODULE(EmbeddingBag);

} // namespace nn
} // namespace lz
