#pragma once
/// Random verified graphs over the whole op table, for round trips of the text form and for comparing
/// compiled code with the interpreter. One seed gives one graph on every machine.
///
/// Values are safe by construction: indices are in range, integer divisors are not zero, floats stay inside
/// the domain of each function and far from overflow (a `clamp` of minimum and maximum is put before where
/// they would not). What jumps (comparison, rounding, sorting, conversion to integers) reads only values that
/// every right implementation computes to the same bits, so that the tolerance of each result is known: see
/// RandomGraph::tolerance.

#include "ir/graph/graph.h"

#include <bitset>
#include <cstdint>
#include <vector>

namespace lz::test {

using OpSet = std::bitset<256>;
OpSet no_ops();
/// Every op that the interpreter can run: all but `call` and the effects.
OpSet runnable_ops();
OpSet ops_of(ir::OpFamily family);
OpSet ops_of(std::initializer_list<ir::Op> ops);

struct RandomGraphOptions {
    int max_nodes = 12;
    int max_rank = 4;
    int64_t max_extent = 6;
    /// Of what is drawn, and terms of any product. No value has more than twice as many, axes of extent 0
    /// counted as if it were 1.
    int64_t max_elements = 600;
    bool zero_size = true; ///< some extents are 0
    /// What is drawn. Leaves, clamps, index arithmetic and transfers that make an op safe are added whatever
    /// this says.
    OpSet ops = runnable_ops();
    std::vector<ir::DType> dtypes{};           ///< empty: all
    std::vector<ir::Device> devices{ir::kCpu}; ///< operands are brought to one device by explicit transfers
    int gpus = 0;                              ///< not 0: `devices` is the CPU and so many GPUs
    /// Some 0-dim CPU values stand beside operands of GPUs as they are (S07).
    bool cpu_scalars = false;
    /// Some operands stay where they are: graphs for TransferMode::Automatic, or for GPUs that are peers.
    bool mixed_devices = false;
    int streams = 0;          ///< some nodes get one of so many user's streams
    int32_t first_stream = 0; ///< the least of their numbers
    int effects = 0;          ///< percent of effects of the user's between nodes, besides those of `ops`
    int updates = 0;          ///< percent of update_slice besides those of `ops`
    int casts = 0;            ///< percent of float operands that come from another float type (autocast)
    int borders = 0;          ///< percent of stencils besides those of `ops`: sums of rolls, padded or not
    int pairs = 0;            ///< percent of pairs of short vectors besides those of `ops`, and sums of them
    int products = 0;         ///< percent of products of windows besides those of `ops`
    bool faults = false;      ///< integer divisors may be zero, indices out of range
    /// Some float parameters hold infinities, NaN, -0, subnormals and the greatest numbers. Tolerances then
    /// hold where the expected value is finite and no larger than 2 to the half of the dtype's greatest
    /// exponent.
    bool special_values = false;
};

struct RandomGraph {
    ir::Graph
        graph; ///< every parameter has data (`materialize_param`); every node a location and a recorded index
    /// For each result the absolute difference that right implementations may have: 0 means equal bits (but
    /// for the sign and payload of NaN). Rounding is bounded by 2 ULP for each inexact function and by any
    /// order of summation.
    std::vector<double> tolerance;
};

RandomGraph random_graph(uint64_t seed, const RandomGraphOptions &options = {});

/// A small, fast, portable generator of random numbers (the standard's distributions differ between
/// libraries).
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next();
    /// Uniform in [0, n), n > 0.
    int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
    int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
    bool chance(int percent) { return below(100) < percent; }
    template <class T>
    const T &pick(const std::vector<T> &from) {
        return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
    }

private:
    uint64_t state_;
};

} // namespace lz::test
