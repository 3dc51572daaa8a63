#include "frontend/autograd/rows.h"

#include "frontend/autograd/formulas.h"

#include <numbers>

namespace lz::detail {
namespace {

constexpr uint32_t X = 1, Y = 2, Z = 4, OUT = Step::saved_result(0), OUT2 = Step::saved_result(1);

/// A value that the expression asked to keep, or nothing that it could use.
template <uint32_t kept, uint32_t bit>
auto kept_value(const RuleCall &call) {
    if constexpr ((kept & bit) != 0)
        return call.saved(bit);
    else
        return NotKept();
}

/// What has been gathered, for expressions that add to it.
template <Entry::Kind kind>
auto gathered(const RuleCall &call, size_t input) {
    if constexpr (kind == Entry::Kind::Into)
        return call.gathered(input);
    else
        return NotKept();
}

constexpr Row make_row(std::same_as<Entry> auto... entries) {
    return {{entries...}, sizeof...(entries)};
}

template <Op op>
struct GradientOf; // a primitive without a row does not compile: it has none in gradients.def

#define NONE Entry()
#define ZERO                                                                                                 \
    Entry {                                                                                                  \
        Entry::Kind::Zero, 0, nullptr                                                                        \
    }
#define LZ_EXPRESSION(kind, expression, ...)                                                                 \
    Entry {                                                                                                  \
        kind, (0u __VA_OPT__(| (__VA_ARGS__))),                                                              \
            []([[maybe_unused]] const RuleCall &a, [[maybe_unused]] size_t i) -> Value {                     \
                constexpr uint32_t kept = 0u __VA_OPT__(| (__VA_ARGS__));                                    \
                [[maybe_unused]] const Value g = a.g();                                                      \
                [[maybe_unused]] const auto x = kept_value<kept, X>(a);                                      \
                [[maybe_unused]] const auto y = kept_value<kept, Y>(a);                                      \
                [[maybe_unused]] const auto z = kept_value<kept, Z>(a);                                      \
                [[maybe_unused]] const auto out = kept_value<kept, OUT>(a);                                  \
                [[maybe_unused]] const auto out2 = kept_value<kept, OUT2>(a);                                \
                [[maybe_unused]] const auto acc = gathered<kind>(a, i);                                      \
                return expression;                                                                           \
            }                                                                                                \
    }
#define D(expression, ...) LZ_EXPRESSION(Entry::Kind::Expression, expression __VA_OPT__(, ) __VA_ARGS__)
#define INTO(expression, ...) LZ_EXPRESSION(Entry::Kind::Into, expression __VA_OPT__(, ) __VA_ARGS__)
#define LZ_GRADIENT(E, ...)                                                                                  \
    template <>                                                                                              \
    struct GradientOf<Op::E> {                                                                               \
        static constexpr Row row = make_row(__VA_ARGS__);                                                    \
    };
#include "frontend/autograd/gradients.def"

/// A row, which has an entry for each operand; one at least where there may be any number.
template <Op op, int operands>
constexpr const Row *checked() {
    constexpr size_t entries = GradientOf<op>::row.count;
    static_assert(operands < 0 ? entries > 0 : entries == static_cast<size_t>(operands),
                  "the row in gradients.def does not say of each operand what its gradient is");
    return &GradientOf<op>::row;
}

constexpr const Row *kRows[] = {
#define LZ_ELEMENTWISE(E, text, arity, ...) checked<Op::E, arity>(),
#include "ir/elementwise.def"
#define LZ_OP(E, text, family, min_operands, max_operands, ...) checked<Op::E, max_operands>(),
#include "ir/ops.def"
};

void run_row(RuleCall &call) {
    const Row &row = gradient_row(call.op());
    if (ir::info(call.op()).family == ir::OpFamily::Elementwise && call.op() != Op::Cast)
        call.compute_in_f32();
    for (size_t i = 0; i < call.num_inputs(); ++i) {
        const Entry &entry = row.of(i);
        if (!call.wanted(i) || !entry.function)
            continue;
        if (entry.kind == Entry::Kind::Into)
            call.set_gathered(i, entry.function(call, i));
        else
            call.give(i, entry.function(call, i));
    }
}

} // namespace

const Row &gradient_row(Op op) {
    return *kRows[static_cast<size_t>(op)];
}

constinit const Rule kRowRule{run_row};

} // namespace lz::detail
