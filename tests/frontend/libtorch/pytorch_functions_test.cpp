// Functions beside those of PyTorch, whose results a script stored (inputs/make_pytorch_functions.py).
#include "tests/support/files/data.h"
#include "tests/support/tensor_values.h"

#include <lazuli/nn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

namespace {

using namespace lz::test;
using lz::DType;
using lz::Tensor;
namespace F = lz::nn::functional;
namespace rnn = lz::nn::utils::rnn;

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors &)>;

Tensors results_of(const std::tuple<Tensor, Tensor, Tensor> &three) {
    return {std::get<0>(three), std::get<1>(three), std::get<2>(three)};
}
Tensors results_of(const std::tuple<Tensor, Tensor> &two) {
    return {std::get<0>(two), std::get<1>(two)};
}
Tensors results_of(const Tensor &one) {
    return {one};
}
Tensors results_of(const rnn::PackedSequence &packed) {
    Tensors out = {packed.data(), packed.batch_sizes()};
    if (packed.sorted_indices().defined()) {
        out.push_back(packed.sorted_indices());
        out.push_back(packed.unsorted_indices());
    }
    return out;
}
Tensor diagonal_filled(const Tensor &x, const lz::Scalar &value, bool wrap = false) {
    Tensor y = x.clone();
    y.fill_diagonal_(value, wrap);
    return y;
}
constexpr double kInf = std::numeric_limits<double>::infinity();

/// The functions of the script, by its names. One that ends in `_*` is that of all names that begin so.
const std::map<std::string, Function> &functions() {
#define LZ_AS(name, ...)                                                                                     \
    {                                                                                                        \
        name, [](const Tensors &i) -> Tensors { return results_of(__VA_ARGS__); }                            \
    }
    static const auto &table = *new std::map<std::string, Function>{
        LZ_AS("unique_*", lz::unique(i[0], true, true, true)),
        LZ_AS("unique_rows", lz::unique(i[0], true, true, true, 0)),
        LZ_AS("unique_columns", i[0].unique_dim(-1, true, true, true)),
        LZ_AS("unique_cubes", lz::unique_dim(i[0], 1, true, true, true)),
        LZ_AS("unique_consecutive_*", lz::unique_consecutive(i[0], true, true)),
        LZ_AS("unique_consecutive_rows", i[0].unique_consecutive(true, true, 0)),
        LZ_AS("bincount", lz::bincount(i[0])),
        LZ_AS("bincount_u8", i[0].bincount({}, 6)),
        LZ_AS("bincount_none", lz::bincount(i[0], {}, 3)),
        LZ_AS("bincount_*", lz::bincount(i[0], i[1])),
        LZ_AS("histc", lz::histc(i[0], 4, -1, 1)),
        LZ_AS("histc_of_its_own_range", i[0].histc(3)),
        LZ_AS("histc_of_one_number", lz::histc(i[0], 4)),
        LZ_AS("histc_of_none", lz::histc(i[0], 3)),
        LZ_AS("cdist_0.0", lz::cdist(i[0], i[1], 0)),
        LZ_AS("cdist_1.0", lz::cdist(i[0], i[1], 1)),
        LZ_AS("cdist_1.5", lz::cdist(i[0], i[1], 1.5)),
        LZ_AS("cdist_3.0", lz::cdist(i[0], i[1], 3)),
        LZ_AS("cdist_inf", lz::cdist(i[0], i[1], kInf)),
        LZ_AS("cdist_products_of_batches", lz::cdist(i[0], i[1], 2, 1)),
        LZ_AS("cdist_*", lz::cdist(i[0], i[1])),
        LZ_AS("pad_reflect", F::pad(i[0], F::PadFuncOptions({1, 2}).mode(lz::kReflect))),
        LZ_AS("pad_replicate", F::pad(i[0], F::PadFuncOptions({1, 2}).mode(lz::kReplicate))),
        LZ_AS("pad_circular", F::pad(i[0], F::PadFuncOptions({1, 2}).mode(lz::kCircular))),
        LZ_AS("pad_two_axes_reflect", F::pad(i[0], F::PadFuncOptions({2, 1, 1, 2}).mode(lz::kReflect))),
        LZ_AS("pad_two_axes_replicate", F::pad(i[0], F::PadFuncOptions({2, 1, 1, 2}).mode(lz::kReplicate))),
        LZ_AS("pad_two_axes_circular", F::pad(i[0], F::PadFuncOptions({2, 1, 1, 2}).mode(lz::kCircular))),
        LZ_AS("pad_cut_reflect", lz::pad(i[0], {-1, 2}, lz::kReflect)),
        LZ_AS("pad_cut_replicate", lz::pad(i[0], {-1, 2}, lz::kReplicate)),
        LZ_AS("pad_cut_circular", lz::pad(i[0], {-1, 2}, lz::kCircular)),
        LZ_AS("pad_constant", F::pad(i[0], F::PadFuncOptions({1, 0, 0, 1}).mode(lz::kConstant).value(7))),
        LZ_AS("addmv", i[0].addmv(i[1], i[2], 0.5, 2)),
        LZ_AS("addr", i[0].addr(i[1], i[2], 2, 3)),
        LZ_AS("baddbmm", lz::baddbmm(i[0], i[1], i[2], 0.5, 2)),
        LZ_AS("baddbmm_ints", i[0].baddbmm(i[1], i[2], 2, 3)),
        LZ_AS("baddbmm_of_nan", lz::baddbmm(i[0], i[1], i[2], 0)),
        LZ_AS("addbmm", i[0].addbmm(i[1], i[2], 2)),
        LZ_AS("kron", i[0].kron(i[1])),
        LZ_AS("kron_*", lz::kron(i[0], i[1])),
        LZ_AS("tensordot", lz::tensordot(i[0], i[1], {2, 0}, {0, 1})),
        LZ_AS("tensordot_of_last", lz::tensordot(i[0], i[1])),
        LZ_AS("tensordot_outer", lz::tensordot(i[0], i[1], 0)),
        LZ_AS("tensordot_of_one", lz::tensordot(i[0], i[1], {1}, {0})),
        LZ_AS("var_mean", lz::var_mean(i[0], 1)),
        LZ_AS("var_mean_of_all", lz::var_mean(i[0], false)),
        LZ_AS("std_mean", lz::std_mean(i[0], {0, 2}, 0, true)),
        LZ_AS("var_biased", i[0].var(false)),
        LZ_AS("std_unbiased", lz::std(i[0], true)),
        LZ_AS("erfc_*", lz::erfc(i[0])),
        LZ_AS("lgamma_*", i[0].lgamma()),
        LZ_AS("digamma_*", lz::digamma(i[0])),
        LZ_AS("searchsorted_False", lz::searchsorted(i[0], i[1])),
        LZ_AS("searchsorted_True", lz::searchsorted(i[0], i[1], false, false, "right")),
        LZ_AS("searchsorted_rows_False", lz::searchsorted(i[0], i[1], true)),
        LZ_AS("searchsorted_rows_True", lz::searchsorted(i[0], i[1], true, true)),
        LZ_AS("searchsorted_sorter", lz::searchsorted(i[0], i[1], false, false, std::nullopt, i[2])),
        LZ_AS("searchsorted_number", lz::searchsorted(i[0], 3.5)),
        LZ_AS("searchsorted_*", lz::searchsorted(i[0], i[1])),
        LZ_AS("bucketize_False", lz::bucketize(i[0], i[1])),
        LZ_AS("bucketize_True", lz::bucketize(i[0], i[1], false, true)),
        LZ_AS("quantile_linear", lz::quantile(i[0], i[1], 1)),
        LZ_AS("quantile_lower", lz::quantile(i[0], i[1], 1, false, "lower")),
        LZ_AS("quantile_higher", lz::quantile(i[0], i[1], 1, false, "higher")),
        LZ_AS("quantile_midpoint", lz::quantile(i[0], i[1], 1, false, "midpoint")),
        LZ_AS("quantile_nearest", i[0].quantile(i[1], 1, false, "nearest")),
        LZ_AS("nanquantile_linear", lz::nanquantile(i[0], 0.4, 1, true)),
        LZ_AS("nanquantile_lower", lz::nanquantile(i[0], 0.4, 1, true, "lower")),
        LZ_AS("nanquantile_higher", lz::nanquantile(i[0], 0.4, 1, true, "higher")),
        LZ_AS("nanquantile_midpoint", lz::nanquantile(i[0], 0.4, 1, true, "midpoint")),
        LZ_AS("nanquantile_nearest", i[0].nanquantile(0.4, 1, true, "nearest")),
        LZ_AS("quantile_of_nan", lz::quantile(i[0], 0.5, 1)),
        LZ_AS("quantile_of_all", lz::quantile(i[0], i[1], std::nullopt, true)),
        LZ_AS("quantile_of_number", lz::quantile(i[0], 0.5)),
        LZ_AS("quantile_number_of_row", i[0].quantile(0.25)),
        LZ_AS("quantile_first_axis", lz::quantile(i[0], i[1], 0, true)),
        LZ_AS("index_fill", i[0].index_fill(1, i[1], -1)),
        LZ_AS("index_fill_ints", lz::index_fill(i[0], 0, i[1], 7)),
        LZ_AS("index_fill_tensor", i[0].index_fill(-2, i[1], i[2])),
        LZ_AS("index_fill_*", lz::index_fill(i[0], 0, i[1], 5)),
        LZ_AS("index_copy", i[0].index_copy(1, i[1], i[2])),
        LZ_AS("index_copy_*", lz::index_copy(i[0], 0, i[1], i[2])),
        LZ_AS("fill_diagonal", diagonal_filled(i[0], 5)),
        LZ_AS("fill_diagonal_tall", diagonal_filled(i[0], 5)),
        LZ_AS("fill_diagonal_wrapped", diagonal_filled(i[0], 5, true)),
        LZ_AS("fill_diagonal_wide_wrapped", diagonal_filled(i[0], 5, true)),
        LZ_AS("fill_diagonal_cube", diagonal_filled(i[0], true)),
        LZ_AS("cummax_odd", i[0].cummax(1)),
        LZ_AS("cummax_columns", lz::cummax(i[0], -2)),
        LZ_AS("cummax_none", lz::cummax(i[0], 1)),
        LZ_AS("cummax_*", lz::cummax(i[0], 0)),
        LZ_AS("cummin_odd", i[0].cummin(1)),
        LZ_AS("cummin_columns", lz::cummin(i[0], -2)),
        LZ_AS("cummin_none", lz::cummin(i[0], 1)),
        LZ_AS("cummin_*", lz::cummin(i[0], 0)),
        LZ_AS("ctc_loss_none", lz::ctc_loss(i[0], i[1], i[2], i[3], 0, lz::kNone)),
        LZ_AS("ctc_loss_mean", lz::ctc_loss(i[0], i[1], {6, 4}, {3, 2})),
        LZ_AS("ctc_loss_sum",
              F::ctc_loss(i[0], i[1], i[2], i[3], F::CTCLossFuncOptions().reduction(lz::kSum))),
        LZ_AS("ctc_loss_concatenated", lz::ctc_loss(i[0], i[1], i[2], i[3], 3)),
        LZ_AS("ctc_loss_zero_infinity",
              lz::nn::CTCLoss(lz::nn::CTCLossOptions().zero_infinity(true))(i[0], i[1], i[2], i[3])),
        LZ_AS("ctc_loss_*", lz::ctc_loss(i[0], i[1], i[2], i[3], 0, lz::kNone)),
        LZ_AS("pad_sequence", rnn::pad_sequence(i, false, -1)),
        LZ_AS("pad_sequence_batch_first", rnn::pad_sequence({i[0], i[1], i[2]}, true)),
        LZ_AS("pad_sequence_left", rnn::pad_sequence(i, true, 0, "left")),
        LZ_AS("pack_sequence", rnn::pack_sequence(i, false)),
        LZ_AS("pack_padded_sequence", rnn::pack_padded_sequence(i[0], i[1], true, false)),
        LZ_AS("pack_padded_sequence_sorted", rnn::pack_padded_sequence(i[0], i[1])),
        LZ_AS("pad_packed_sequence",
              rnn::pad_packed_sequence(rnn::pack_padded_sequence(i[0], i[1], false, false), false, 9, 6)),
    };
#undef LZ_AS
    return table;
}

const Function *function_of(const std::string &name) {
    const auto &table = functions();
    if (const auto found = table.find(name); found != table.end())
        return &found->second;
    for (size_t end = name.rfind('_'); end != std::string::npos && end > 0; end = name.rfind('_', end - 1))
        if (const auto found = table.find(name.substr(0, end) + "_*"); found != table.end())
            return &found->second;
    return nullptr;
}

/// `f32 [2,3] values`
Tensor tensor_of(std::istringstream &line) {
    std::string dtype, extents;
    line >> dtype >> extents;
    lz::Sizes sizes;
    std::istringstream in(extents.substr(1));
    for (int64_t extent = 0; in >> extent; in.ignore(1))
        sizes.push_back(extent);
    Values values;
    for (std::string word; line >> word;)
        values.push_back(std::stod(word)); // `>>` does not read nan
    for (const DType known :
         {lz::boolean, lz::u8, lz::i8, lz::i16, lz::i32, lz::i64, lz::f16, lz::bf16, lz::f32, lz::f64})
        if (dtype == lz::name(known))
            return lz::tensor(values, sizes, {.dtype = lz::f64}).to(known);
    ADD_FAILURE() << "dtype " << dtype;
    return {};
}

/// Of what rounds differently: relative to the number, or to 1.
double tolerance_of(DType dtype) {
    return dtype == lz::f64    ? 1e-13
           : dtype == lz::f32  ? 3e-6
           : dtype == lz::f16  ? 2e-3
           : dtype == lz::bf16 ? 1e-2
                               : 0;
}

void expect_same(const Tensor &found, const Tensor &expected) {
    ASSERT_TRUE(found.defined());
    EXPECT_EQ(found.sizes(), expected.sizes());
    ASSERT_EQ(found.dtype(), expected.dtype());
    const Values is = values(found), should = values(expected);
    ASSERT_EQ(is.size(), should.size());
    for (size_t k = 0; k < is.size(); ++k) {
        if (std::isnan(should[k]))
            EXPECT_TRUE(std::isnan(is[k])) << "element " << k << " is " << is[k];
        else if (std::isinf(should[k]))
            EXPECT_EQ(is[k], should[k]) << "element " << k;
        else
            EXPECT_NEAR(is[k], should[k], tolerance_of(found.dtype()) * std::max(1.0, std::fabs(should[k])))
                << "element " << k;
    }
}

TEST(LibTorchFunctionsOfPyTorch, GiveWhatItGives) {
    std::ifstream file(lz::test::test_data("/inputs/pytorch_functions.txt"));
    ASSERT_TRUE(file) << "inputs/pytorch_functions.txt is not there";
    struct Case {
        std::string name;
        Tensors inputs, outputs;
    };
    std::vector<Case> cases;
    for (std::string text; std::getline(file, text);) {
        std::istringstream line(text);
        std::string word;
        line >> word;
        if (word == "case") {
            line >> word;
            cases.push_back({word, {}, {}});
        } else {
            (word == "input" ? cases.back().inputs : cases.back().outputs).push_back(tensor_of(line));
        }
    }
    EXPECT_GE(cases.size(), 150U);
    for (const Case &c : cases) {
        SCOPED_TRACE(c.name);
        const Function *const function = function_of(c.name);
        ASSERT_TRUE(function) << "no function of this name";
        const Tensors found = (*function)(c.inputs);
        ASSERT_EQ(found.size(), c.outputs.size());
        for (size_t k = 0; k < found.size(); ++k)
            expect_same(found[k], c.outputs[k]);
    }
}

} // namespace
