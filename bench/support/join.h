#pragma once
/// Joins that bench_joins measures: which function, how many parts of what shape, and what the parts are.

#include <cstdint>
#include <utility>
#include <vector>

namespace lz::bench {

struct Join {
    enum class Parts : uint8_t {
        Stored,     ///< dense in memory
        Arithmetic, ///< of stored tensors by turns: times 2, plus 1, its square
        Transposed, ///< of stored matrices: the last two axes change places
        Stepped,    ///< every second element along the last axis of stored tensors
    };
    bool stack;
    int64_t axis;
    int64_t parts;
    std::vector<int64_t> shape; ///< of a part
    Parts of;

    int64_t bytes() const { ///< of the result
        int64_t n = parts * 4;
        for (const int64_t extent : shape)
            n *= extent;
        return n;
    }
    /// The shape of what is stored for a part.
    std::vector<int64_t> stored_shape() const {
        std::vector<int64_t> stored = shape;
        if (of == Parts::Transposed)
            std::swap(stored[stored.size() - 1], stored[stored.size() - 2]);
        if (of == Parts::Stepped)
            stored.back() *= 2;
        return stored;
    }
};

} // namespace lz::bench
