#pragma once
/// The op table as an enum with its facts, and the encoding of attributes.
///
/// Attributes are two flat runs of 64-bit words, so that recorder, lookup key, Graph and text share one form:
/// *structural* words are part of a program's structure, *runtime* words are not. In the order of the op's
/// attribute list each attribute appends to the runs:
///
///   | type   | structural marking               | runtime marking                       |
///   |--------|----------------------------------|---------------------------------------|
///   | Int    | one word                         | one runtime word                      |
///   | Ints   | length, then the entries         | length structural, entries runtime    |
///   | Scalar | one word                         | one runtime word                      |
///   | DType, Device | one word                  | (never runtime)                       |
///   | String | byte length, bytes in words, zero padded | (never runtime)               |
///
/// A Scalar word holds the bits of a double when the op's result dtype is a float, else an int64_t.
/// A Device word is kind * 256 + index.

#include "ir/location.h"
#include "ir/types/type.h"

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lz::ir {

class Failure;

enum class Op : uint8_t {
#define LZ_ELEMENTWISE(E, text, arity, rule, cost, kernel, fref, iref) E,
#include "ir/elementwise.def"
#define LZ_OP(E, ...) E,
#include "ir/ops.def"
};

enum class OpFamily : uint8_t {
    Elementwise,
    Maker,
    View,
    Update,
    Reduction,
    Scan,
    Contraction,
    Gather,
    Sort,
    Transfer,
    Call,
    Effect,
};

/// Dtype rules of elementwise rows. All operands (but Select's condition) have one dtype: promotion is the
/// frontend's, by explicit casts.
enum class ElementwiseRule : uint8_t {
    Any,       ///< any dtype -> the same
    Numeric,   ///< integers and floats -> the same
    Float,     ///< floats -> the same
    Integer,   ///< integers -> the same
    Bits,      ///< bool and integers -> the same
    Compare,   ///< any -> bool
    FloatTest, ///< floats -> bool
    Select,    ///< (bool, T, T) -> T
    None,      ///< not an elementwise row
};

enum class AttrType : uint8_t { Int, Ints, Scalar, DType, Device, String };
enum class Marking : uint8_t { Structural, Runtime };

struct AttrInfo {
    AttrType type;
    std::string_view name;
    Marking marking;
};

struct OpInfo {
    std::string_view name;
    OpFamily family;
    int min_operands;
    int max_operands; ///< -1: any number
    int results;      ///< -1: told by an attribute (Call)
    int cost;         ///< of one element, in units of an addition
    ElementwiseRule rule;
    std::span<const AttrInfo> attrs;
};

const OpInfo &info(Op op);
inline std::string_view name(Op op) {
    return info(op).name;
}
std::optional<Op> op_from_name(std::string_view text);
int num_ops();

constexpr bool is_elementwise_row(Op op) {
    return static_cast<int>(op) < static_cast<int>(Op::Cast);
}

/// The attributes of one node, read by position in the op's attribute list. A view: it owns nothing.
struct AttrView {
    Op op;
    std::span<const int64_t> structural;
    std::span<const int64_t> runtime;

    int64_t integer(int attr) const;
    std::span<const int64_t> ints(int attr) const;
    /// Index in `runtime` of the first word of a runtime attribute.
    size_t runtime_index(int attr) const;
    double scalar_as_double(int attr, DType dtype) const; ///< dtype of the op's result
    int64_t scalar_word(int attr) const;
    DType dtype(int attr) const { return static_cast<DType>(integer(attr)); }
    Device device(int attr) const;
    std::string_view string(int attr) const;
};

constexpr int64_t device_word(Device d) {
    return static_cast<int64_t>(d.kind) * 256 + d.index;
}
constexpr Device device_from_word(int64_t w) {
    return {static_cast<DeviceKind>(w / 256), static_cast<uint8_t>(w % 256)};
}
constexpr bool is_device_word(int64_t w) {
    return w == 0 || (w >= 256 && w < 512);
}
inline int64_t scalar_word(double v) {
    return std::bit_cast<int64_t>(v);
}
inline double scalar_double(int64_t w) {
    return std::bit_cast<double>(w);
}

/// Positions in the attribute lists of ops.def, for AttrView.
namespace attr {
inline constexpr int kCastDType = 0;
inline constexpr int kMakerDType = 0, kMakerShape = 1, kMakerDevice = 2, kMakerValue = 3; // Constant, Literal
inline constexpr int kIotaAxis = 3, kIotaStart = 4, kIotaStep = 5;
inline constexpr int kPhiloxShape = 0, kPhiloxDevice = 1, kPhiloxSeed = 2, kPhiloxOffset = 3;
inline constexpr int kShape = 0; // Reshape, Broadcast
inline constexpr int kAxes = 0;  // Permute, Flip, Reduce*
inline constexpr int kAxis = 0;  // Concat, Window, Arg*, Cum*, Gather, Scatter, Sort, TopK
inline constexpr int kSliceStarts = 0, kSliceSizes = 1, kSliceSteps = 2;
inline constexpr int kPadLow = 0, kPadHigh = 1;
inline constexpr int kWindowBegin = 1, kWindowCount = 2, kWindowSize = 3, kWindowStep = 4; // and kAxis
inline constexpr int kUpdateStarts = 0, kUpdateSteps = 1;
inline constexpr int kDotLhsBatch = 0, kDotRhsBatch = 1, kDotLhsContract = 2, kDotRhsContract = 3,
                     kDotDType = 4;
inline constexpr int kScatterReduce = 1;
inline constexpr int kSortDescending = 1, kTopKCount = 2; // Sort, TopK
inline constexpr int kTransferTo = 0;
inline constexpr int kEffectDevice = 0;
inline constexpr int kEventWord = 1; // RecordEvent, WaitEvent
inline constexpr int kWaitStreamOf = 1, kWaitStreamStream = 2;
inline constexpr int kCallbackWord = 1;
inline constexpr int kCallSymbol = 0, kCallResults = 1;
} // namespace attr

/// What the user called: the function that `loc` names, else the operation.
std::string_view called(Op op, const Location &loc);
/// The failure of a type rule, or of a step, with the name of what the user called before its message; a name
/// of the operation that stands there already gives way. A check of values (frontend/ops/check.h) has what it
/// says when it fails in place of a name, "multinomial: a weight is negative": that is the whole message
/// then, and the failure is of kind State.
Failure called_as(const Failure &failure, Op op, const Location &loc);

/// Number of results of an op with these attributes.
int num_results(const AttrView &attrs);

/// What is wrong with the words of a node (lengths, dtypes, devices against the op's schema), or an empty
/// string. AttrView's accessors and `infer_types` rely on words for which this is empty.
std::string attrs_error(const AttrView &attrs);

/// Walks the types in a call's `results` attribute: for each result dtype, device word, rank, extents.
class CallResults {
public:
    explicit CallResults(std::span<const int64_t> words) : words_(words) { read(); }
    bool done() const { return words_.empty(); }
    const TensorType &type() const { return type_; }
    void next() {
        words_ = words_.subspan(size_);
        read();
    }

private:
    void read();

    std::span<const int64_t> words_;
    size_t size_ = 0;
    TensorType type_;
};

} // namespace lz::ir
