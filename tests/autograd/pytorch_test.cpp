// Gradients beside those of PyTorch, which a script stored (inputs/make_pytorch_gradients.py).
#include "tests/support/files/data.h"

#include "check.h"

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

namespace {

using namespace lz::test;
using lz::Tensor;

/// The functions of the script, by its names.
const std::map<std::string, Function> &functions() {
    const Tensor labels = lz::tensor({2, 0, -100, 1}), rows = lz::tensor({2, 0, 2, 1}),
                 places = lz::tensor({{0, 2}, {1, 1}, {2, 0}}), paths = lz::tensor({{1, 1, 2}, {3, 2, 0}});
#define LZ_OF(name)                                                                                          \
    {                                                                                                        \
        #name, [](const Inputs &i) { return lz::name(i[0]); }                                                \
    }
#define LZ_OF_TWO(name)                                                                                      \
    {                                                                                                        \
        #name, [](const Inputs &i) { return lz::name(i[0], i[1]); }                                          \
    }
#define LZ_AS(name, expression)                                                                              \
    {                                                                                                        \
        #name, [=]([[maybe_unused]] const Inputs &i) { return expression; }                                  \
    }
    static const auto &all = *new std::map<std::string, Function>{
        LZ_OF(exp),
        LZ_OF(expm1),
        LZ_OF(log),
        LZ_OF(log1p),
        LZ_OF(log2),
        LZ_OF(sqrt),
        LZ_OF(rsqrt),
        LZ_OF(sin),
        LZ_OF(cos),
        LZ_OF(tan),
        LZ_OF(asin),
        LZ_OF(acos),
        LZ_OF(atan),
        LZ_OF(sinh),
        LZ_OF(cosh),
        LZ_OF(tanh),
        LZ_OF(erf),
        LZ_OF(sigmoid),
        LZ_OF(abs),
        LZ_OF(sign),
        LZ_OF(floor),
        LZ_OF(square),
        LZ_OF(reciprocal),
        LZ_OF(relu),
        LZ_OF(silu),
        LZ_OF(gelu),
        LZ_AS(gelu_tanh, lz::gelu(i[0], lz::Gelu::Tanh)),
        LZ_AS(softplus, lz::softplus(i[0], 2, 1.5)),
        LZ_AS(leaky_relu, lz::leaky_relu(i[0], 0.1)),
        LZ_AS(clamp, i[0].clamp(-1, 1)),
        LZ_AS(clamp_below, i[0].clamp(-1)),
        LZ_AS(clamp_at_tensors, lz::clamp(i[0], i[1], i[2])),
        LZ_AS(clamp_tensors, lz::clamp(i[0], i[1], i[2])),
        LZ_OF_TWO(add),
        LZ_OF_TWO(sub),
        LZ_OF_TWO(mul),
        LZ_OF_TWO(div),
        LZ_OF_TWO(pow),
        LZ_AS(pow_at_zero, lz::pow(i[0], i[1])),
        LZ_AS(pow_2, lz::pow(i[0], 2)),
        LZ_AS(pow_number, lz::pow(2.0, i[0])),
        LZ_OF_TWO(atan2),
        LZ_OF_TWO(maximum),
        LZ_OF_TWO(minimum),
        LZ_OF_TWO(fmod),
        LZ_OF_TWO(remainder),
        LZ_AS(where, lz::where(i[0] > 0, i[0] * i[1], i[1])),
        LZ_AS(lerp, lz::lerp(i[0], i[1], i[2])),
        LZ_AS(addcdiv, lz::addcdiv(i[0], i[1], i[2], 0.5)),
        LZ_AS(sum, i[0].sum(1)),
        LZ_OF(mean),
        LZ_AS(prod, i[0].prod(1)),
        LZ_AS(amax, i[0].amax(1)),
        LZ_OF(amin),
        LZ_AS(max, i[0].max(1).values),
        LZ_AS(var, i[0].var(1)),
        LZ_AS(std, i[0].std()),
        LZ_AS(norm, i[0].norm(2, 1)),
        LZ_AS(norm_3, i[0].norm(3, 1)),
        LZ_AS(norm_inf, i[0].norm(INFINITY, 1)),
        LZ_AS(logsumexp, i[0].logsumexp(1)),
        LZ_AS(cumsum, i[0].cumsum(1)),
        LZ_AS(cumprod, i[0].cumprod(1)),
        LZ_AS(softmax, i[0].softmax(1)),
        LZ_AS(log_softmax, i[0].log_softmax(0)),
        LZ_AS(layer_norm, lz::layer_norm(i[0], {4}, i[1], i[2])),
        LZ_AS(rms_norm, lz::rms_norm(i[0], {4}, i[1], 1e-5)),
        LZ_AS(cross_entropy, lz::cross_entropy(i[0], labels)),
        LZ_AS(cross_entropy_smooth, lz::cross_entropy(i[0], labels, {.label_smoothing = 0.2})),
        LZ_AS(cross_entropy_sum, lz::cross_entropy(i[0], labels, {.reduction = lz::Reduction::Sum})),
        LZ_AS(cross_entropy_probabilities, lz::cross_entropy(i[0], i[1], {.label_smoothing = 0.1})),
        LZ_AS(nll_loss, lz::nll_loss(i[0], labels)),
        LZ_OF_TWO(mse_loss),
        LZ_OF_TWO(matmul),
        LZ_AS(matmul_batches, lz::matmul(i[0], i[1])),
        LZ_AS(matmul_vector, lz::matmul(i[0], i[1])),
        LZ_AS(linear, lz::linear(i[0], i[1], i[2])),
        LZ_AS(einsum, lz::einsum("bij,kb->ijk", {i[0], i[1]})),
        LZ_AS(permute, i[0].permute({2, 0, 1}) * 2),
        LZ_AS(slice, i[0].at(lz::Slice(1, 5, 2)) * 3),
        LZ_AS(index, i[0].at({rows, 1})),
        LZ_AS(pad, lz::square(lz::pad(i[0], {1, 2, 0, 1}))),
        LZ_AS(cat, lz::square(lz::cat({i[0], i[1], i[0]}, 1))),
        LZ_AS(gather, i[0].gather(0, places)),
        LZ_AS(scatter_add, lz::square(i[0].scatter_add(0, places, i[1]))),
        LZ_AS(scatter, lz::square(i[0].scatter(0, places, i[1]))),
        LZ_AS(embedding, lz::embedding(i[0], rows)),
        LZ_AS(sort, i[0].sort(1, true).values),
        LZ_AS(topk, i[0].topk(2, 0).values),
        LZ_OF(tril),
        LZ_AS(expand, lz::square(i[0].expand({2, 4, 3}))),
        LZ_OF(erfc),
        LZ_OF(lgamma),
        LZ_OF_TWO(cdist),
        LZ_AS(cdist_1, lz::cdist(i[0], i[1], 1)),
        LZ_AS(cdist_3, lz::cdist(i[0], i[1], 3)),
        LZ_AS(cdist_products, lz::cdist(i[0], i[1], 2, 1)),
        LZ_AS(cdist_of_one_point, lz::cdist(i[0], i[1], 2, 1)),
        LZ_AS(cummax, i[0].cummax(1).values),
        LZ_AS(cummin, i[0].cummin(0).values),
        LZ_AS(quantile, i[0].quantile(lz::tensor({0.2, 0.5, 1.0}, lz::f64), 1)),
        LZ_AS(nanquantile, i[0].nanquantile(0.3)),
        LZ_AS(index_fill, lz::square(i[0].index_fill(1, lz::tensor({0, 2}), i[1]))),
        LZ_AS(index_copy, lz::square(i[0].index_copy(0, lz::tensor({2, 0}), i[1]))),
        LZ_AS(baddbmm, lz::baddbmm(i[0], i[1], i[2], 0.5, 2)),
        LZ_OF_TWO(kron),
        LZ_OF_TWO(tensordot),
        LZ_AS(pad_reflect, lz::square(lz::pad(i[0], {2, 1}, lz::kReflect))),
        LZ_AS(pad_replicate, lz::square(lz::pad(i[0], {2, 1}, lz::kReplicate))),
        LZ_AS(pad_circular, lz::square(lz::pad(i[0], {2, 1}, lz::kCircular))),
        LZ_AS(ctc_loss, lz::ctc_loss(i[0], paths, {6, 4}, {3, 2})),
        LZ_AS(ctc_loss_of_logits,
              lz::ctc_loss(i[0].log_softmax(2), paths, {6, 4}, {3, 2}, 0, lz::Reduction::Sum)),
        LZ_AS(ctc_loss_zero_infinity,
              lz::ctc_loss(i[0], paths, {2, 6}, {3, 2}, 0, lz::Reduction::Mean, true)),
    };
    return all;
}

std::vector<double> numbers_of(std::istringstream &line) {
    std::vector<double> out;
    for (std::string word; line >> word;)
        out.push_back(std::stod(word)); // `>>` does not read nan
    return out;
}

lz::Sizes sizes_of(const std::string &text) { // [2,3]
    lz::Sizes out;
    std::istringstream in(text.substr(1));
    for (int64_t extent = 0; in >> extent; in.ignore(1))
        out.push_back(extent);
    return out;
}

struct Stored {
    std::string name;
    Inputs inputs;
    std::vector<double> weights;
    std::vector<std::vector<double>> gradients;
};

std::vector<Stored> stored() {
    std::ifstream file(lz::test::test_data("/inputs/pytorch_gradients.txt"));
    std::vector<Stored> out;
    for (std::string text; std::getline(file, text);) {
        std::istringstream line(text);
        std::string kind, word;
        line >> kind;
        if (kind == "function") {
            line >> word;
            out.push_back({word, {}, {}, {}});
        } else if (kind == "input") {
            line >> word;
            out.back().inputs.push_back(
                lz::tensor<double>(numbers_of(line), sizes_of(word), {.requires_grad = true}));
        } else if (kind == "weights") {
            out.back().weights = numbers_of(line);
        } else {
            out.back().gradients.push_back(numbers_of(line));
        }
    }
    return out;
}

TEST(Gradients, AreThoseOfPyTorch) {
    const std::vector<Stored> all = stored();
    EXPECT_EQ(all.size(), functions().size());
    ASSERT_GE(all.size(), 60u);
    for (const Stored &one : all) {
        SCOPED_TRACE(one.name);
        const auto function = functions().find(one.name);
        ASSERT_NE(function, functions().end());
        const Tensor result = function->second(one.inputs);
        const Tensor weights = lz::tensor<double>(one.weights, result.sizes());
        (result * weights).sum().backward();
        for (size_t k = 0; k < one.inputs.size(); ++k) {
            const std::vector<double> found = one.inputs[k].grad().to_vector<double>();
            ASSERT_EQ(found.size(), one.gradients[k].size());
            for (size_t i = 0; i < found.size(); ++i) {
                const double expected = one.gradients[k][i];
                EXPECT_NEAR(found[i], expected, 1e-12 * std::max(1.0, std::fabs(expected)))
                    << "input " << k << ", element " << i;
            }
        }
    }
}

} // namespace
