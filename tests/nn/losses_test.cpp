// Losses beside those of PyTorch, which a script stored (inputs/make_pytorch_losses.py): values and
// gradients; and what is refused.
#include "tests/support/files/data.h"

#include "stored.h"
#include "support.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>

namespace {

using namespace lz::test;
using lz::Reduction;
using lz::Tensor;
namespace nn = lz::nn;
namespace F = lz::nn::functional;
using Inputs = std::vector<Tensor>;

struct Made {
    std::shared_ptr<nn::Module> module;
    std::function<Tensor(const Inputs &)> call;
};

template <class Holder>
Made made(const Holder &holder) {
    return {holder.ptr(), [holder](const Inputs &i) {
                if constexpr (requires { holder->forward(i[0], i[1], i[2]); })
                    return holder(i[0], i[1], i[2]);
                else
                    return holder(i[0], i[1]);
            }};
}

/// The losses of the script, by its names.
std::map<std::string, Made> losses() {
    const Tensor weight = lz::tensor({0.5, 2.0, 1.0, 0.25, 3.0}), of_images = lz::tensor({0.5, 2.0, 1.5});
    const auto cross_entropy = [](nn::CrossEntropyLossOptions options) {
        return made(nn::CrossEntropyLoss(options));
    };
    const nn::CrossEntropyLossOptions plain, weighted = nn::CrossEntropyLossOptions().weight(weight),
                                             image = nn::CrossEntropyLossOptions().weight(of_images);
    const auto none = [](auto options) { return options.reduction("none"); };
    const auto sum = [](auto options) { return options.reduction("sum"); };
    return {
        {"l1", made(nn::L1Loss())},
        {"l1_none", made(nn::L1Loss(Reduction::None))},
        {"mse", made(nn::MSELoss())},
        {"mse_sum", made(nn::MSELoss(Reduction::Sum))},
        {"mse_none", made(nn::MSELoss(Reduction::None))},
        {"smooth_l1", made(nn::SmoothL1Loss())},
        {"smooth_l1_beta", made(nn::SmoothL1Loss(nn::SmoothL1LossOptions().beta(0.5).reduction("none")))},
        {"smooth_l1_of_beta_0", made(nn::SmoothL1Loss(sum(nn::SmoothL1LossOptions().beta(0))))},
        {"huber", made(nn::HuberLoss())},
        {"huber_delta", made(nn::HuberLoss(none(nn::HuberLossOptions().delta(0.5))))},
        {"cross_entropy", cross_entropy(plain)},
        {"cross_entropy_weight", cross_entropy(weighted)},
        {"cross_entropy_weight_sum", cross_entropy(sum(weighted))},
        {"cross_entropy_weight_none",
         cross_entropy(none(nn::CrossEntropyLossOptions().weight(weight).ignore_index(2)))},
        {"cross_entropy_weight_smooth",
         cross_entropy(nn::CrossEntropyLossOptions().weight(weight).label_smoothing(0.2))},
        {"cross_entropy_weight_smooth_none",
         cross_entropy(none(nn::CrossEntropyLossOptions().weight(weight).label_smoothing(0.2)))},
        {"cross_entropy_smooth", cross_entropy(nn::CrossEntropyLossOptions().label_smoothing(0.3))},
        {"cross_entropy_probabilities", cross_entropy(weighted)},
        {"cross_entropy_probabilities_smooth",
         cross_entropy(sum(nn::CrossEntropyLossOptions().weight(weight).label_smoothing(0.2)))},
        {"cross_entropy_probabilities_none", cross_entropy(none(plain))},
        {"cross_entropy_images",
         cross_entropy(nn::CrossEntropyLossOptions().weight(of_images).label_smoothing(0.1))},
        {"cross_entropy_images_none", cross_entropy(none(image))},
        {"cross_entropy_one_sample", cross_entropy(weighted)},
        {"nll", made(nn::NLLLoss())},
        {"nll_weight", made(nn::NLLLoss(nn::NLLLossOptions().weight(weight)))},
        {"nll_weight_sum", made(nn::NLLLoss(sum(nn::NLLLossOptions().weight(weight).ignore_index(0))))},
        {"nll_images", made(nn::NLLLoss(none(nn::NLLLossOptions().weight(of_images))))},
        {"bce", made(nn::BCELoss())},
        {"bce_bounds", made(nn::BCELoss(none(nn::BCELossOptions())))},
        {"bce_weight", made(nn::BCELoss(sum(nn::BCELossOptions().weight(lz::tensor({0.5, 1.0, 2.0, 0.0})))))},
        {"bce_logits", made(nn::BCEWithLogitsLoss())},
        {"bce_logits_wide", made(nn::BCEWithLogitsLoss(none(nn::BCEWithLogitsLossOptions())))},
        {"bce_logits_weights",
         made(nn::BCEWithLogitsLoss(none(nn::BCEWithLogitsLossOptions()
                                             .weight(lz::tensor({{0.5}, {2.0}}))
                                             .pos_weight(lz::tensor({1.0, 3.0, 0.5, 2.0})))))},
        {"kl_div", made(nn::KLDivLoss())},
        {"kl_div_batchmean", made(nn::KLDivLoss(nn::KLDivLossOptions().reduction("batchmean")))},
        {"kl_div_of_zeros", made(nn::KLDivLoss(sum(nn::KLDivLossOptions())))},
        {"kl_div_log", made(nn::KLDivLoss(none(nn::KLDivLossOptions().log_target(true))))},
        {"cosine", made(nn::CosineEmbeddingLoss(nn::CosineEmbeddingLossOptions().margin(0.1)))},
        {"cosine_none", made(nn::CosineEmbeddingLoss(none(nn::CosineEmbeddingLossOptions())))},
        {"cosine_of_one", made(nn::CosineEmbeddingLoss())},
        {"triplet", made(nn::TripletMarginLoss())},
        {"triplet_swap",
         made(nn::TripletMarginLoss(sum(nn::TripletMarginLossOptions().margin(2).p(1).swap(true))))},
        {"triplet_3", made(nn::TripletMarginLoss(none(nn::TripletMarginLossOptions().p(3).eps(1e-3))))},
        {"margin_ranking", made(nn::MarginRankingLoss(nn::MarginRankingLossOptions().margin(0.5)))},
        {"margin_ranking_none", made(nn::MarginRankingLoss(none(nn::MarginRankingLossOptions())))},
        {"hinge", made(nn::HingeEmbeddingLoss())},
        {"hinge_none", made(nn::HingeEmbeddingLoss(none(nn::HingeEmbeddingLossOptions().margin(0.5))))},
        {"soft_margin", made(nn::SoftMarginLoss())},
        {"soft_margin_wide", made(nn::SoftMarginLoss(Reduction::None))},
        {"poisson", made(nn::PoissonNLLLoss())},
        {"poisson_full", made(nn::PoissonNLLLoss(none(nn::PoissonNLLLossOptions().full(true))))},
        {"poisson_rates",
         made(nn::PoissonNLLLoss(sum(nn::PoissonNLLLossOptions().log_input(false).eps(1e-4))))},
        {"gaussian", made(nn::GaussianNLLLoss())},
        {"gaussian_one", made(nn::GaussianNLLLoss(nn::GaussianNLLLossOptions().full(true)))},
        {"gaussian_row", made(nn::GaussianNLLLoss(none(nn::GaussianNLLLossOptions().eps(0.5))))},
    };
}

struct StoredLoss {
    std::string name, prints;
    Inputs inputs;
    Tensor output;
    std::vector<double> weights;
    std::vector<std::pair<size_t, std::vector<double>>> gradients;
};

std::vector<StoredLoss> stored() {
    std::ifstream file(lz::test::test_data("/inputs/pytorch_losses.txt"));
    std::vector<StoredLoss> out;
    for (std::string text; std::getline(file, text);) {
        std::istringstream line(text);
        std::string kind, word;
        line >> kind;
        if (kind == "loss") {
            line >> word;
            out.emplace_back().name = word;
        } else if (kind == "prints") {
            line >> out.back().prints;
        } else if (kind == "input") {
            out.back().inputs.push_back(tensor_of(line).to(lz::get_default_device()).requires_grad_());
        } else if (kind == "constant") {
            out.back().inputs.push_back(tensor_of(line).to(lz::get_default_device()));
        } else if (kind == "integers") {
            out.back().inputs.push_back(tensor_of(line).to(lz::get_default_device(), lz::i64));
        } else if (kind == "output") {
            out.back().output = tensor_of(line);
        } else if (kind == "weights") {
            out.back().weights = numbers_of(line);
        } else {
            size_t of = 0;
            line >> of;
            out.back().gradients.emplace_back(of, numbers_of(line));
        }
    }
    return out;
}

TEST(Losses, AreThoseOfPyTorch) {
    const lz::DefaultDTypeGuard doubles(lz::f64);
    const std::map<std::string, Made> all = losses();
    const std::vector<StoredLoss> references = stored();
    EXPECT_EQ(references.size(), all.size());
    ASSERT_GE(references.size(), 55u);
    for (const StoredLoss &stored : references) {
        SCOPED_TRACE(stored.name);
        ASSERT_TRUE(all.contains(stored.name));
        const Made &loss = all.at(stored.name);
        EXPECT_EQ(loss.module->str(), stored.prints);
        const Tensor result = loss.call(stored.inputs);
        ASSERT_EQ(result.sizes(), stored.output.sizes());
        EXPECT_EQ(result.dtype(), lz::f64);
        (result * lz::tensor<double>(stored.weights, result.sizes())).sum().backward();
        expect_near(result, stored.output.to_vector<double>());
        ASSERT_GE(stored.gradients.size(), 1u);
        for (const auto &[of, expected] : stored.gradients) {
            SCOPED_TRACE("gradient of input " + std::to_string(of));
            expect_near(stored.inputs[of].grad(), expected);
        }
    }
}

TEST(Losses, OfHalfTypesAreComputedInF32AndRoundedOnce) {
    const Tensor x = lz::tensor({3.0, 0.125}, {.dtype = lz::f16}),
                 y = lz::tensor({1.0, 1.0}, {.dtype = lz::f16});
    const Tensor loss = F::huber_loss(x, y);
    EXPECT_EQ(loss.dtype(), lz::f16);
    EXPECT_EQ(floats(loss), floats(F::huber_loss(x.to(lz::f32), y.to(lz::f32)).to(lz::f16)));
    EXPECT_EQ(F::l1_loss(x, y.to(lz::f32)).dtype(), lz::f32);
    // 1000 squares of 20 add up to more than f16 has; their mean does not.
    const Tensor many = lz::full({1000}, 20.0, {.dtype = lz::f16});
    EXPECT_EQ(F::smooth_l1_loss(many, lz::zeros_like(many), Reduction::Mean, 100).item<float>(), 2);
}

TEST(Losses, LengthsOfCosinesAreThoseOfWhatIsBroadcast) {
    const Tensor a = lz::tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}), b = lz::tensor({{2.0}, {3.0}}),
                 c = lz::tensor({1.0, 0.0, 2.0});
    // PyTorch 2.15.
    expect_near(F::cosine_similarity(a, b, 1), {0.9258201, 0.98692757}, 1e-6);
    expect_near(F::cosine_similarity(a, c, 0), {0.8574929, 0, 0.9486833}, 1e-6);
    expect_near(F::cosine_similarity(a, c.view({1, 3}), 0), {0.8574929, 0, 0.9486833}, 1e-6);
    expect_near(F::cosine_similarity(a, c, 1), {0.836659968, 0.815435529}, 1e-6);
}

TEST(Losses, GradientsOfInfiniteDifferencesAreThoseOfTheirSide) {
    const double inf = std::numeric_limits<double>::infinity();
    for (const bool huber : {true, false}) {
        Tensor x = lz::tensor({inf, -inf, 3.0, 0.5, -1.0}).requires_grad_();
        const Tensor zero = lz::zeros({5});
        const Tensor losses =
            huber ? F::huber_loss(x, zero, Reduction::None) : F::smooth_l1_loss(x, zero, Reduction::None);
        losses.sum().backward();
        EXPECT_EQ(floats(x.grad()), (std::vector<float>{1, -1, 1, 0.5, -1}));
        EXPECT_EQ(floats(losses.detach()).at(2), 2.5F);
        EXPECT_EQ(floats(losses.detach()).at(0), std::numeric_limits<float>::infinity());
    }
    EXPECT_EQ(F::huber_loss(lz::tensor({4.0}), lz::zeros({1}), Reduction::Sum, inf).item<double>(), 8);
}

TEST(Losses, WeightsOfClassesCountInGradientsOfGradients) {
    const lz::DefaultDTypeGuard doubles(lz::f64);
    const Tensor x = lz::tensor({{0.5, -1.0, 0.25}, {1.5, 0.0, -0.5}}, {.requires_grad = true});
    const Tensor classes = lz::tensor({2, 0});
    const Tensor weight = lz::tensor({0.5, 2.0, 3.0});
    // Each row's Hessian is w (diag(p) - p p^T) / (w_1 + w_2).
    const Tensor hessian =
        lz::hessian([&](const Tensor &v) { return lz::cross_entropy(v, classes, {.weight = weight}); }, x);
    const Tensor p = lz::softmax(x.detach(), 1);
    for (int64_t row = 0; row < 2; ++row) {
        const double w = row == 0 ? 3.0 / 3.5 : 0.5 / 3.5;
        const Tensor of_row = p.select(0, row);
        const Tensor expected = (lz::eye(3) * of_row - lz::outer(of_row, of_row)) * w;
        EXPECT_TRUE(hessian.at({row, lz::Slice(), row}).allclose(expected, 1e-10, 1e-12));
        EXPECT_EQ(hessian.at({row, lz::Slice(), 1 - row}).abs().max().item<double>(), 0);
    }
}

/// The second derivative along two directions, against the difference of first ones.
TEST(Losses, HaveGradientsOfGradients) {
    const lz::DefaultDTypeGuard doubles(lz::f64);
    const std::map<std::string, Made> all = losses();
    int differentiated = 0;
    for (const StoredLoss &stored : stored()) {
        SCOPED_TRACE(stored.name);
        // Those without a reduction have bounds and corners among their inputs, where slopes jump.
        const bool has_corners = stored.output.dim() != 0 && stored.name != "mse_none";
        if (has_corners || stored.name == "smooth_l1_of_beta_0")
            continue;
        const Made &loss = all.at(stored.name);
        lz::manual_seed(13);
        const Tensor v = lz::randn_like(stored.inputs[0].detach());
        const Tensor u = lz::randn_like(stored.inputs[0].detach());
        Inputs inputs = stored.inputs;
        const auto slope = [&](const Tensor &x) {
            inputs[0] = x;
            const Tensor value = loss.call(inputs).sum();
            return (lz::autograd::grad({value}, {x}, {}, true, true)[0] * v).sum();
        };
        const Tensor at = stored.inputs[0].detach();
        const auto leaf = [](const Tensor &x) { return x.detach().requires_grad_(); };
        const Tensor x = leaf(at);
        const Tensor first = slope(x);
        double found = 0;
        if (first.requires_grad()) {
            const Tensor second = lz::autograd::grad({first}, {x}, {}, {}, false, true)[0];
            found = second.defined() ? (second * u).sum().item<double>() : 0;
        }
        constexpr double h = 1e-5;
        const double above = slope(leaf(at + u * h)).item<double>();
        const double below = slope(leaf(at - u * h)).item<double>();
        const double expected = (above - below) / (2 * h);
        EXPECT_NEAR(found, expected, 1e-6 * std::max(1.0, std::fabs(expected)));
        differentiated += found != 0;
    }
    EXPECT_GE(differentiated, 25);
}

/// The loss is what the user called, and not what it is made of.
TEST(Losses, AreNamedAndNotWhatTheyAreMadeOf) {
    const Tensor x = lz::rand({4, 5}), y = lz::rand({3, 7}), v = lz::rand({4});
    const std::vector<std::pair<std::string, std::function<Tensor()>>> calls = {
        {"l1_loss", [&] { return F::l1_loss(x, y); }},
        {"smooth_l1_loss", [&] { return F::smooth_l1_loss(x, y); }},
        {"smooth_l1_loss", [&] { return F::smooth_l1_loss(x, y, Reduction::Mean, 0); }},
        {"huber_loss", [&] { return F::huber_loss(x, y); }},
        {"kl_div", [&] { return F::kl_div(x, y); }},
        {"cosine_embedding_loss", [&] { return F::cosine_embedding_loss(x, y, v); }},
        {"triplet_margin_loss", [&] { return F::triplet_margin_loss(x, y, x); }},
        {"margin_ranking_loss", [&] { return F::margin_ranking_loss(x, y, x); }},
        {"hinge_embedding_loss", [&] { return F::hinge_embedding_loss(x, y); }},
        {"soft_margin_loss", [&] { return F::soft_margin_loss(x, y); }},
        {"poisson_nll_loss", [&] { return F::poisson_nll_loss(x, y); }},
        {"gaussian_nll_loss", [&] { return F::gaussian_nll_loss(x, y, x); }},
        {"cosine_similarity", [&] { return F::cosine_similarity(x, y); }},
        {"pairwise_distance", [&] { return F::pairwise_distance(x, y); }},
        {"binary_cross_entropy", [&] { return F::binary_cross_entropy(x, x, y); }},
        {"binary_cross_entropy_with_logits", [&] { return F::binary_cross_entropy_with_logits(x, x, y); }},
    };
    for (const auto &[name, call] : calls) {
        const Caught error = caught<lz::ShapeError>(call);
        EXPECT_TRUE(error.what.starts_with(name + ":") && error.has("do not broadcast"))
            << name << " says: " << error.what;
    }
}

TEST(Losses, RefuseWhatDoesNotFit) {
    const Tensor x = lz::randn({4, 3}), classes = lz::tensor({0, 1, 2, 1});
    const auto refuses = [](auto error, std::initializer_list<const char *> words, auto &&call) {
        const Caught found = caught<typename decltype(error)::type>(call);
        for (const char *word : words)
            EXPECT_TRUE(found.has(word)) << found.what << " lacks " << word;
    };
    const std::type_identity<lz::ShapeError> shape;
    const std::type_identity<lz::StateError> state;
    const std::type_identity<lz::DTypeError> dtype;
    refuses(shape, {"cross_entropy: the weight has shape [2]", "[4,3]", "[3]"},
            [&] { lz::cross_entropy(x, classes, {.weight = lz::ones({2})}); });
    refuses(dtype, {"nll_loss: the weight must be of floats"},
            [&] { lz::nll_loss(x, classes, {.weight = lz::tensor({1, 2, 3})}); });
    refuses(shape, {"binary_cross_entropy: the input has shape [4,3], the target [4]"},
            [&] { F::binary_cross_entropy(x, lz::ones({4})); });
    refuses(shape, {"binary_cross_entropy_with_logits", "[3,4]"},
            [&] { nn::BCEWithLogitsLoss()(x, lz::ones({3, 4})); });
    refuses(shape, {"l1_loss", "[4,3]", "[5]"}, [&] { F::l1_loss(x, lz::ones({5})); });
    refuses(shape, {"cosine_embedding_loss", "2 and 2 axes, the target 2"},
            [&] { F::cosine_embedding_loss(x, x, x); });
    refuses(shape, {"triplet_margin_loss", "2 and 1 axes"},
            [&] { F::triplet_margin_loss(x, x, x.select(0, 0)); });
    refuses(shape, {"margin_ranking_loss", "2 and 1 axes"},
            [&] { F::margin_ranking_loss(x, x, x.select(0, 0)); });
    refuses(shape, {"gaussian_nll_loss", "[4,3]", "the variance [3]"},
            [&] { F::gaussian_nll_loss(x, x, lz::ones({3})); });
    refuses(shape, {"kl_div", "BatchMean"},
            [] { F::kl_div(lz::tensor(0.5), lz::tensor(0.5), Reduction::BatchMean); });
    refuses(dtype, {"l1_loss", "none of its inputs is of floats"}, [&] { F::l1_loss(classes, classes); });
    refuses(state, {"smooth_l1_loss: beta is -1"}, [&] { F::smooth_l1_loss(x, x, Reduction::Mean, -1); });
    refuses(state, {"huber_loss: delta is 0"}, [&] { F::huber_loss(x, x, Reduction::Mean, 0); });
    refuses(state, {"triplet_margin_loss: the margin is -1"}, [&] { F::triplet_margin_loss(x, x, x, -1); });
    refuses(state, {"gaussian_nll_loss: eps is 0"}, [&] { F::gaussian_nll_loss(x, x, x, false, 0); });
    refuses(state, {"the reduction \"avg\" is unknown", "\"mean\""},
            [] { nn::L1LossOptions().reduction("avg"); });
    refuses(state, {"l1_loss: the reduction BatchMean is known to kl_div alone"},
            [&] { F::l1_loss(x, x, Reduction::BatchMean); });
    refuses(state, {"huber_loss: the reduction 9 is unknown"},
            [&] { F::huber_loss(x, x, static_cast<Reduction>(9)); });
    refuses(state, {"mse_loss: the reduction BatchMean"}, [&] { lz::mse_loss(x, x, Reduction::BatchMean); });
    refuses(state, {"cross_entropy: the reduction 9 is unknown"},
            [&] { lz::cross_entropy(x, classes, {.reduction = static_cast<Reduction>(9)}); });
}

TEST(Losses, WhatIsNoProbabilityIsTheLineOfTheLoss) {
    const double nan = std::nan("");
    const Tensor right = lz::tensor({0.0, 0.25, 1.0}), goal = lz::tensor({1.0, 0.0, 0.5});
    for (const double wrong : {-0.1, 1.0001, nan, HUGE_VAL})
        for (const bool in_target : {false, true}) {
            const Tensor bad = lz::tensor({0.5, wrong, 1.0});
            const Tensor x = (in_target ? right : bad).detach().requires_grad_();
            const Tensor &target = in_target ? bad : goal;
            const uint32_t line = __LINE__ + 1;
            const Tensor loss = F::binary_cross_entropy(x, target);
            loss.backward();
            const Tensor gradient = x.grad();
            // Whichever is read first says it, and neither can be read.
            const Caught error = caught<lz::StateError>([&] { floats(gradient); });
            EXPECT_TRUE(error.what.starts_with(
                in_target
                    ? "binary_cross_entropy: an element of the target is not in [0, 1], at "
                    : "binary_cross_entropy: an element of the input is not in [0, 1]; the loss of logits is "
                      "binary_cross_entropy_with_logits, at "))
                << error.what;
            EXPECT_EQ(error.line, line) << error.what;
            EXPECT_THROW(loss.item<float>(), lz::StateError);
        }
    expect_near(F::binary_cross_entropy(right, goal, {}, Reduction::None), {100, -std::log(0.75), 50}, 1e-6);
    // As elsewhere: independent work is computed, and a GPU's failure is found at its sync.
    for (const lz::Device device : {lz::Device::cpu(), lz::Device::cuda(0)}) {
        const Tensor other = lz::ones({2}, {.device = device}) + 1;
        const Tensor bad = F::binary_cross_entropy(lz::full({2}, 2.0, {.device = device}),
                                                   lz::zeros({2}, {.device = device}));
        EXPECT_TRUE(caught<lz::StateError>([&] { bad.item<float>(); }).has("is not in [0, 1]"));
        EXPECT_EQ(floats(other), (std::vector<float>{2, 2}));
    }
}

TEST(Losses, LabelsOutOfRangeAreTheLineOfTheLoss) {
    for (const int64_t wrong : {3, -1}) {
        const Tensor x = lz::randn({2, 3}), classes = lz::tensor({int64_t{0}, wrong});
        for (const Tensor &weight : {Tensor(), lz::ones({3})}) {
            const nn::CrossEntropyLoss loss(nn::CrossEntropyLossOptions().weight(weight));
            const nn::NLLLoss nll(nn::NLLLossOptions().weight(weight));
            const uint32_t line = __LINE__ + 1;
            const Caught error = caught<lz::IndexError>([&] { loss(x, classes).item<float>(); });
            EXPECT_TRUE(error.has(std::to_string(wrong).c_str()) && error.has("cross_entropy")) << error.what;
            EXPECT_EQ(error.line, line);
            EXPECT_TRUE(caught<lz::IndexError>([&] { nll(x, classes).item<float>(); }).has("nll_loss"));
        }
    }
}

/// Who never reads the loss is told, too, and no parameter has moved.
TEST(Losses, LabelsOutOfRangeFailTheStep) {
    for (const int64_t wrong : {3, -1})
        for (const double smoothing : {0.0, 0.1}) {
            const Tensor x = lz::randn({2, 4}), classes = lz::tensor({int64_t{0}, wrong});
            Tensor w = lz::randn({3, 4}).requires_grad_();
            const std::vector<float> before = w.detach().to_vector<float>();
            F::cross_entropy(lz::linear(x, w), classes, {.label_smoothing = smoothing}).backward();
            {
                const lz::NoGradGuard no_grad;
                w.sub_(w.grad() * 0.1);
            }
            EXPECT_TRUE(caught<lz::IndexError>([&] { lz::sync(); }).has("cross_entropy")) << wrong;
            EXPECT_EQ(w.detach().to_vector<float>(), before) << wrong;
            Tensor scores = lz::randn({2, 3}).requires_grad_();
            F::nll_loss(scores, classes).backward();
            EXPECT_TRUE(
                caught<lz::IndexError>([&] { (void)scores.grad().sum().item<float>(); }).has("nll_loss"));
        }
}

TEST(Semantics, S72_losses_are_functions_and_modules) {
    const Tensor x = lz::randn({4, 3}), y = lz::randn({4, 3});
    EXPECT_EQ(nn::SmoothL1Loss()(x, y).item<float>(), F::smooth_l1_loss(x, y).item<float>());
    EXPECT_EQ(nn::MSELoss()(x, y).item<float>(), F::mse_loss(x, y).item<float>());
}

TEST(Semantics, S73_a_criterions_weight_is_a_buffer_that_moves_with_it) {
    const Tensor weight = lz::tensor({0.5, 2.0, 1.0});
    nn::CrossEntropyLoss criterion(nn::CrossEntropyLossOptions().weight(weight));
    EXPECT_EQ(criterion->named_buffers().keys(), (std::vector<std::string>{"weight"}));
    EXPECT_EQ(criterion->state_dict().keys(), (std::vector<std::string>{"weight"}));
    EXPECT_TRUE(criterion->parameters().empty());
    const Tensor x = lz::randn({4, 3}), target = lz::tensor({0, 2, 1, 1});
    const float on_cpu = criterion(x, target).item<float>();
    const Tensor there = x.to("cuda:0"), target_there = target.to("cuda:0");
    const uint32_t line = __LINE__ + 1;
    const Caught error = caught<lz::DeviceError>([&] { criterion(there, target_there).item<float>(); });
    EXPECT_TRUE(error.has("cross_entropy") && error.has("cuda:0") && error.has("cpu")) << error.what;
    EXPECT_EQ(error.line, line);
    criterion->to("cuda:0");
    EXPECT_EQ(criterion(there, target_there).item<float>(), on_cpu); // S29
    EXPECT_EQ(weight.device(), lz::Device::cpu());                   // the user's own
    criterion->cpu();
    criterion->cuda();
    EXPECT_EQ(criterion->weight.device(), lz::Device::cuda(0));
    // The others with weights.
    nn::BCEWithLogitsLoss logits(nn::BCEWithLogitsLossOptions().pos_weight(weight).weight(weight));
    logits->cuda();
    EXPECT_EQ(logits(there, there).device(), lz::Device::cuda(0));
    EXPECT_EQ(logits->state_dict().keys(), (std::vector<std::string>{"weight", "pos_weight"}));
    // A clone's weight is its own.
    const auto copy =
        std::dynamic_pointer_cast<nn::CrossEntropyLossImpl>(criterion->clone(lz::Device::cpu()));
    EXPECT_EQ(copy->weight.device(), lz::Device::cpu());
    EXPECT_EQ(criterion->weight.device(), lz::Device::cuda(0));
    EXPECT_EQ(copy->forward(x, target).item<float>(), on_cpu);
}

} // namespace
