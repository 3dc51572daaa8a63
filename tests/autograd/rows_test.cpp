// What the table of gradients makes impossible, and what steps keep.
#include "frontend/autograd/attach.h"
#include "frontend/autograd/rows.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

namespace {

using lz::Tensor;
using namespace lz::detail;

// A value that a row did not name has a type with which nothing can be written, so that such a row does not
// compile.
template <class T>
concept HasProduct = requires(const Value &g, const T &x) { g * x; };
template <class T>
concept HasQuotient = requires(const Value &g, const T &x) { x / g; };
template <class T>
concept HasExp = requires(const T &x) { exp(x); };
template <class T>
concept HasWhere = requires(const Value &g, const T &x) { where(x, g, 0); };
template <class T>
concept IsValue = requires(const T &x) { Value(x); };
static_assert(HasProduct<Value> && HasQuotient<Value> && HasExp<Value> && HasWhere<Value> && IsValue<Value>);
static_assert(!HasProduct<NotKept> && !HasQuotient<NotKept> && !HasExp<NotKept> && !HasWhere<NotKept> &&
              !IsValue<NotKept>);

TEST(Rows, EveryPrimitiveSaysOfEachOperandWhatItsGradientIs) {
    for (int i = 0; i < lz::ir::num_ops(); ++i) {
        const auto op = static_cast<Op>(i);
        const lz::ir::OpInfo &info = lz::ir::info(op);
        const Row &row = gradient_row(op);
        EXPECT_EQ(row.count, info.max_operands < 0 ? row.count : static_cast<size_t>(info.max_operands))
            << info.name;
        for (size_t k = 0; k < row.count; ++k) {
            const bool has =
                row.entries[k].kind == Entry::Kind::Expression || row.entries[k].kind == Entry::Kind::Into;
            EXPECT_EQ(has, row.entries[k].function != nullptr) << info.name;
            if (info.rule == lz::ir::ElementwiseRule::Compare || info.rule == lz::ir::ElementwiseRule::Bits) {
                EXPECT_EQ(row.entries[k].kind, Entry::Kind::None) << info.name;
            }
        }
    }
}

const Step *step_of(const Tensor &x) {
    return Access::cell(x)->history;
}

TEST(Rows, AValueIsKeptOnlyWhereAWantedGradientReadsIt) {
    Tensor x = lz::ones({4}, {.requires_grad = true}), w = lz::ones({4}, {.requires_grad = true});
    const Tensor c = lz::ones({4});
    EXPECT_EQ(step_of(x * w)->num_saved, 2);
    EXPECT_EQ(step_of(x * c)->num_saved, 1);
    EXPECT_EQ(step_of(x * c)->saved_mask, 2u) << "c, not x";
    EXPECT_EQ(step_of(x + w)->num_saved, 0);
    EXPECT_EQ(step_of(lz::exp(x))->saved_mask, Step::saved_result(0));
    EXPECT_EQ(step_of(lz::sin(x))->saved_mask, 1u);
    EXPECT_EQ(step_of(lz::gelu(x))->saved_mask, 1u);
    EXPECT_EQ(step_of(lz::relu(x))->saved_mask, Step::saved_result(0));
    EXPECT_EQ(step_of(lz::dropout(x))->num_saved, 0);
    EXPECT_EQ(step_of(lz::layer_norm(c, {4}, {}, x))->num_saved, 0) << "the bias needs nothing";
    EXPECT_EQ(step_of(lz::layer_norm(c, {4}, x))->saved_mask, 1u) << "c, not the weight";
    EXPECT_EQ(step_of(x > 0), nullptr);
    EXPECT_EQ(step_of(c * 2), nullptr);
}

TEST(Rows, StepsLieInTheMemoryOfNodes) {
    EXPECT_EQ(sizeof(Step), 64u) << "with two operands and the words of a product it fits the smallest class";
    const Tensor x = lz::ones({2, 2}, {.requires_grad = true});
    EXPECT_EQ(step_of(x * x)->size_class, 0);
    EXPECT_EQ(step_of(lz::matmul(x, x))->size_class, 0);
}

} // namespace
