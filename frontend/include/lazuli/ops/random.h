#pragma once
/// Random numbers: counter-based (Philox 4x32-10), so that one seed gives the same numbers on every device
/// (S63).

#include "lazuli/core/options.h"
#include "lazuli/tensor.h"

#include <atomic>

namespace lz {

/// A stream of random numbers: a seed and how far it has been used. Drawing advances it when it is recorded,
/// so the order of recording decides which numbers a tensor gets. Any thread may draw.
class LZ_API Generator {
public:
    /// Where a generator stands.
    struct State {
        /// As given to manual_seed.
        uint64_t seed = 0;
        uint64_t offset = 0; ///< in blocks of four words
        friend bool operator==(const State &, const State &) = default;
    };
    /// The seed unless one is given.
    static constexpr uint64_t kDefaultSeed = 67280421310721;

    /// At the beginning of the seed's stream.
    explicit Generator(uint64_t seed = kDefaultSeed) : seed_(seed) {}
    Generator(const Generator &) = delete;
    Generator &operator=(const Generator &) = delete;

    /// Starts again with this seed.
    void manual_seed(uint64_t seed) { set_state({seed, 0}); }
    /// The seed.
    uint64_t initial_seed() const { return seed_.load(std::memory_order_relaxed); }
    /// Where it stands: what is drawn from here on depends on nothing else.
    State get_state() const { return {initial_seed(), offset_.load(std::memory_order_relaxed)}; }
    /// Goes on from there.
    void set_state(const State &state) {
        seed_.store(state.seed, std::memory_order_relaxed);
        offset_.store(state.offset, std::memory_order_relaxed);
    }
    /// Takes `words` 32-bit words: the state at which they begin.
    State draw(int64_t words) {
        return {initial_seed(),
                offset_.fetch_add((static_cast<uint64_t>(words) + 3) / 4, std::memory_order_relaxed)};
    }

private:
    std::atomic<uint64_t> seed_;
    std::atomic<uint64_t> offset_{0};
};

/// The one that functions without a generator use.
LZ_API Generator &default_generator();
/// Seeds it.
LZ_API void manual_seed(uint64_t seed);
namespace cuda {
/// As lz::manual_seed: one seed gives the same numbers on every device (S63).
inline void manual_seed(uint64_t seed) {
    lz::manual_seed(seed);
}
/// The same.
inline void manual_seed_all(uint64_t seed) {
    lz::manual_seed(seed);
}
} // namespace cuda

/// Uniform in [0, 1).
LZ_API Tensor rand(const Sizes &sizes, const TensorOptions &options = {}, Location loc = Location::current());
LZ_API Tensor rand(const Sizes &sizes, Generator &generator, const TensorOptions &options = {},
                   Location loc = Location::current());
/// Normal with mean 0 and deviation 1.
LZ_API Tensor randn(const Sizes &sizes, const TensorOptions &options = {},
                    Location loc = Location::current());
LZ_API Tensor randn(const Sizes &sizes, Generator &generator, const TensorOptions &options = {},
                    Location loc = Location::current());
/// Integers (i64 unless told otherwise) in [low, high), which the dtype must have.
LZ_API Tensor randint(int64_t low, int64_t high, const Sizes &sizes, const TensorOptions &options = {},
                      Location loc = Location::current());
LZ_API Tensor randint(int64_t high, const Sizes &sizes, const TensorOptions &options = {},
                      Location loc = Location::current());
LZ_API Tensor randint(int64_t low, int64_t high, const Sizes &sizes, Generator &generator,
                      const TensorOptions &options = {}, Location loc = Location::current());
/// The numbers below n in random order, i64.
LZ_API Tensor randperm(int64_t n, const TensorOptions &options = {}, Location loc = Location::current());
LZ_API Tensor randperm(int64_t n, Generator &generator, const TensorOptions &options = {},
                       Location loc = Location::current());
/// 1 with the probability that each element says, else 0; or with probability p everywhere, in x's shape. An
/// element of 0 or less, or NaN, gives 0, and of 1 or more 1; a number p out of [0, 1] is an IndexError.
LZ_FUNCTION(Tensor bernoulli, probability, Location loc = Location::current());
LZ_FUNCTION(Tensor bernoulli, probability, Generator &generator, Location loc = Location::current());
LZ_FUNCTION(Tensor bernoulli, x, double p, Location loc = Location::current());
/// As `rand`, with the shape, dtype and device of x unless the options say otherwise.
LZ_API Tensor rand_like(const Tensor &x, const TensorOptions &options = {},
                        Location loc = Location::current());
/// As `randn`, with the shape, dtype and device of x unless the options say otherwise.
LZ_API Tensor randn_like(const Tensor &x, const TensorOptions &options = {},
                         Location loc = Location::current());

/// Normal with this mean and deviation: one of each element, which broadcast, or one number of all. Of
/// tensors it has the mean's dtype, or that of the only one, and no history (PyTorch's gradients are 0).
/// Throws DTypeError for tensors that are not of floats, IndexError for a negative deviation (of a tensor: a
/// StateError when it runs), ShapeError.
LZ_API Tensor normal(const Tensor &mean, double std = 1, Location loc = Location::current());
LZ_API Tensor normal(const Tensor &mean, double std, Generator &generator,
                     Location loc = Location::current());
LZ_API Tensor normal(double mean, const Tensor &std, Location loc = Location::current());
LZ_API Tensor normal(double mean, const Tensor &std, Generator &generator,
                     Location loc = Location::current());
LZ_API Tensor normal(const Tensor &mean, const Tensor &std, Location loc = Location::current());
LZ_API Tensor normal(const Tensor &mean, const Tensor &std, Generator &generator,
                     Location loc = Location::current());
LZ_API Tensor normal(double mean, double std, const Sizes &sizes, const TensorOptions &options = {},
                     Location loc = Location::current());
LZ_API Tensor normal(double mean, double std, const Sizes &sizes, Generator &generator,
                     const TensorOptions &options = {}, Location loc = Location::current());

LZ_OF_KIND(rand, (const Sizes &sizes), (sizes))
LZ_OF_KIND(randn, (const Sizes &sizes), (sizes))
LZ_OF_KIND(randint, (int64_t low, int64_t high, const Sizes &sizes), (low, high, sizes))
LZ_OF_KIND(randint, (int64_t high, const Sizes &sizes), (high, sizes))
LZ_OF_KIND(randperm, (int64_t n), (n))
LZ_OF_KIND(normal, (double mean, double std, const Sizes &sizes), (mean, std, sizes))
LZ_OF_KIND(rand_like, (const Tensor &x), (x))
LZ_OF_KIND(randn_like, (const Tensor &x), (x))

/// Positions drawn with the probabilities that the numbers of a row stand to each other in, i64: of [n] gives
/// [samples], of [m, n] gives [m, samples]. Without `replacement` each position is drawn at most once.
/// Numbers are 0 or more and finite, and not all 0; without replacement at least `samples` of a row are not
/// 0: else a StateError when it runs. Throws DTypeError for integers, ShapeError for other ranks and for more
/// samples than there are without replacement.
LZ_API Tensor multinomial(const Tensor &weights, int64_t samples, bool replacement = false,
                          Location loc = Location::current());
LZ_API Tensor multinomial(const Tensor &weights, int64_t samples, bool replacement, Generator &generator,
                          Location loc = Location::current());

} // namespace lz
