#pragma once
/// Index maps: where in a value an access falls, as a function of a kernel's axes. `lower_clusters` pulls
/// values through views by rewriting maps; most maps stay affine and become offset and strides of a load.
///
///     out[i, j] = transpose(slice(x))[i, j]   =>   x at [start + 2 * j, i]
///
/// Numbers in a map are those of the graph at hand. They never enter the Kernel: they end up as arguments.

#include "ir/op.h"
#include "ir/program/program.h"
#include "ir/types/type.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace lz::passes {

inline constexpr int kMaxAxes = 16;
using ExprId = uint32_t;
inline constexpr ExprId kNoExpr = UINT32_MAX;

/// constant + runtime words + sum of coefficient * axis + sum of coefficient * (an i64 expression of the
/// kernel).
struct Index {
    struct Term {
        ExprId value;
        int64_t coefficient;
        friend bool operator==(const Term &, const Term &) = default;
    };
    int64_t constant = 0;
    std::array<int64_t, kMaxAxes> axes{};
    std::vector<ir::ArgSpec::Term> words;
    std::vector<Term> terms;

    static Index axis(int a, int64_t coefficient = 1);
    bool affine() const { return terms.empty(); }
    /// this += scale * other
    void add(const Index &other, int64_t scale);
    friend bool operator==(const Index &a, const Index &b);
};

/// One Index a dimension of the value.
using IndexMap = std::vector<Index>;

/// Makes i64 expressions for the parts of maps that are not affine.
class IndexValues {
public:
    virtual ~IndexValues() = default;
    virtual ExprId quotient(const Index &index, int64_t divisor) = 0;  ///< index >= 0
    virtual ExprId remainder(const Index &index, int64_t divisor) = 0; ///< index >= 0
    /// The index whose quotient or remainder by `divisor` the expression is, or nullptr.
    virtual const Index *divided(ExprId value, int64_t divisor, bool remainder) const = 0;
};

/// Element number in a dense value of this shape. Quotients and remainders of one index are put together
/// again.
Index linearize(const IndexMap &map, const ir::Shape &shape, const IndexValues *values);
/// Likewise among the dimensions [begin, end) of the shape alone, and nothing is put together.
Index linearize(const IndexMap &map, const ir::Shape &shape, int begin, int end);
/// Dimensions of a dense value from its element number; `extents` are those of the axes.
IndexMap delinearize(const Index &linear, const ir::Shape &shape, std::span<const int64_t> extents,
                     IndexValues &values);

/// Calls group(r, r_end, o, o_end) for the dimensions of a reshape's result and operand, which have elements,
/// in groups of equal products; only groups of several are taken apart, or put together. Unit dimensions that
/// have no partner stand alone, and are in none.
template <class F>
void each_reshape_group(const ir::Shape &result, const ir::Shape &operand, F group) {
    int r = 0, o = 0;
    while (r < result.rank() || o < operand.rank()) {
        const int r0 = r, o0 = o;
        if (r < result.rank() && result[r] == 1 && (o >= operand.rank() || operand[o] != 1)) {
            ++r;
            continue;
        }
        if (o < operand.rank() && operand[o] == 1 && (r >= result.rank() || result[r] != 1)) {
            ++o;
            continue;
        }
        int64_t rp = result[r++], op = operand[o++];
        while (rp != op) {
            if (rp < op)
                rp *= result[r++];
            else
                op *= operand[o++];
        }
        group(r0, r, o0, o);
    }
}

/// The operand's map for a reshape whose result has shape `result` and is read at `map`.
IndexMap through_reshape(const IndexMap &map, const ir::Shape &result, const ir::Shape &operand,
                         std::span<const int64_t> extents, IndexValues &values);
IndexMap through_permute(const IndexMap &map, std::span<const int64_t> axes);
IndexMap through_broadcast(const IndexMap &map, const ir::Shape &operand);
/// `first_word`: position in the graph's runtime words of the first start. A slice of a whole axis starts at
/// 0, whatever the word will be.
IndexMap through_slice(const IndexMap &map, const ir::Shape &slice, const ir::Shape &operand,
                       uint32_t first_word, std::span<const int64_t> steps);
/// `window`: the node's attributes.
IndexMap through_window(const IndexMap &map, const ir::AttrView &window);
IndexMap through_flip(const IndexMap &map, std::span<const int64_t> axes, const ir::Shape &operand);

} // namespace lz::passes
