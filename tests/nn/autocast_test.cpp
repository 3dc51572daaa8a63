// Autocast: the dtype of each function of its table, and gradients beside those of casts by hand.
#include "support.h"

#include <functional>
#include <thread>

namespace {

using namespace lz::test;
using lz::DType;
using lz::Tensor;
namespace nn = lz::nn;
namespace F = lz::nn::functional;

Tensor square_of(DType dtype) {
    return lz::full({2, 2}, 0.5, {.dtype = dtype});
}

enum class Kind { Half, Single, Widest, Same };
struct Row {
    const char *name;
    Kind kind;
    std::function<Tensor(const Tensor &)> call;
};

/// The functions of the table, PyTorch's lists (amp's op reference), and some that stand in none.
const std::vector<Row> &rows() {
    static const auto &all = *new std::vector<Row>{
        {"matmul", Kind::Half, [](const Tensor &x) { return lz::matmul(x, x); }},
        {"mm", Kind::Half, [](const Tensor &x) { return x.mm(x); }},
        {"mv", Kind::Half, [](const Tensor &x) { return lz::mv(x, x.select(0, 0)); }},
        {"bmm", Kind::Half, [](const Tensor &x) { return lz::bmm(x.unsqueeze(0), x.unsqueeze(0)); }},
        {"linear", Kind::Half, [](const Tensor &x) { return lz::linear(x, x, x.select(0, 0)); }},
        {"einsum", Kind::Half, [](const Tensor &x) { return lz::einsum("ij,jk->ik", {x, x}); }},
        {"addmm", Kind::Half, [](const Tensor &x) { return lz::addmm(x, x, x); }},
        {"addmv", Kind::Half, [](const Tensor &x) { return x.select(0, 0).addmv(x, x.select(0, 0)); }},
        {"addr", Kind::Half, [](const Tensor &x) { return x.addr(x.select(0, 0), x.select(0, 0)); }},
        {"baddbmm", Kind::Half, [](const Tensor &x) { return x.baddbmm(x.unsqueeze(0), x.unsqueeze(0)); }},
        {"addbmm", Kind::Half, [](const Tensor &x) { return x.addbmm(x.unsqueeze(0), x.unsqueeze(0)); }},
        {"exp", Kind::Single, [](const Tensor &x) { return lz::exp(x); }},
        {"expm1", Kind::Single, [](const Tensor &x) { return lz::expm1(x); }},
        {"log", Kind::Single, [](const Tensor &x) { return x.log(); }},
        {"log1p", Kind::Single, [](const Tensor &x) { return lz::log1p(x); }},
        {"log2", Kind::Single, [](const Tensor &x) { return lz::log2(x); }},
        {"log10", Kind::Single, [](const Tensor &x) { return x.log10(); }},
        {"tan", Kind::Single, [](const Tensor &x) { return lz::tan(x); }},
        {"asin", Kind::Single, [](const Tensor &x) { return lz::asin(x); }},
        {"acos", Kind::Single, [](const Tensor &x) { return lz::acos(x); }},
        {"sinh", Kind::Single, [](const Tensor &x) { return lz::sinh(x); }},
        {"cosh", Kind::Single, [](const Tensor &x) { return lz::cosh(x); }},
        {"rsqrt", Kind::Single, [](const Tensor &x) { return lz::rsqrt(x); }},
        {"reciprocal", Kind::Single, [](const Tensor &x) { return lz::reciprocal(x); }},
        {"pow", Kind::Single, [](const Tensor &x) { return lz::pow(x, 2); }},
        {"pow of two", Kind::Single, [](const Tensor &x) { return x.pow(x); }},
        {"sum", Kind::Single, [](const Tensor &x) { return x.sum(); }},
        {"prod", Kind::Single, [](const Tensor &x) { return x.prod(); }},
        {"norm", Kind::Single, [](const Tensor &x) { return x.norm(); }},
        {"cdist", Kind::Single, [](const Tensor &x) { return lz::cdist(x, x); }},
        {"cumsum", Kind::Single, [](const Tensor &x) { return x.cumsum(0); }},
        {"cumprod", Kind::Single, [](const Tensor &x) { return x.cumprod(0); }},
        {"softmax", Kind::Single, [](const Tensor &x) { return lz::softmax(x, 1); }},
        {"log_softmax", Kind::Single, [](const Tensor &x) { return x.log_softmax(1); }},
        {"softplus", Kind::Single, [](const Tensor &x) { return lz::softplus(x); }},
        {"layer_norm", Kind::Single, [](const Tensor &x) { return lz::layer_norm(x, {2}); }},
        {"rms_norm", Kind::Single, [](const Tensor &x) { return lz::rms_norm(x, {2}, x.select(0, 0)); }},
        {"mse_loss", Kind::Single, [](const Tensor &x) { return lz::mse_loss(x, x); }},
        {"nll_loss", Kind::Single, [](const Tensor &x) { return lz::nll_loss(x, lz::tensor({0, 1})); }},
        {"cross_entropy", Kind::Single,
         [](const Tensor &x) { return lz::cross_entropy(x, lz::tensor({0, 1})); }},
        {"cross_entropy with weights", Kind::Single,
         [](const Tensor &x) {
             return lz::cross_entropy(x, lz::tensor({0, 1}), {.weight = x.select(0, 0)});
         }},
        {"smooth_l1_loss", Kind::Single, [](const Tensor &x) { return F::smooth_l1_loss(x, x); }},
        {"binary_cross_entropy_with_logits", Kind::Single,
         [](const Tensor &x) { return F::binary_cross_entropy_with_logits(x, x); }},
        {"dot", Kind::Widest, [](const Tensor &x) { return lz::dot(x.flatten(), lz::full({4}, 1.0)); }},
        {"tensordot", Kind::Widest, [](const Tensor &x) { return lz::tensordot(x, lz::full({2, 2}, 1.0)); }},
        {"scatter_add", Kind::Widest,
         [](const Tensor &x) { return lz::scatter_add(x, 0, lz::tensor({{0, 0}}), lz::full({1, 2}, 1.0)); }},
        {"index_add", Kind::Widest,
         [](const Tensor &x) { return lz::index_add(x, 0, lz::tensor({0}), lz::full({1, 2}, 1.0)); }},
        {"add", Kind::Same, [](const Tensor &x) { return x + x; }},
        {"exp2", Kind::Same, [](const Tensor &x) { return lz::exp2(x); }},
        {"relu", Kind::Same, [](const Tensor &x) { return lz::relu(x); }},
        {"gelu", Kind::Same, [](const Tensor &x) { return lz::gelu(x); }},
        {"mean", Kind::Same, [](const Tensor &x) { return x.mean(); }},
        {"max", Kind::Same, [](const Tensor &x) { return x.amax(); }},
        {"sqrt", Kind::Same, [](const Tensor &x) { return lz::sqrt(x); }},
        {"std", Kind::Same, [](const Tensor &x) { return x.std(); }},
        {"cat", Kind::Same, [](const Tensor &x) { return lz::cat({x, x}); }},
    };
    return all;
}

TEST(Autocast, GivesEachFunctionTheDtypeOfItsRow) {
    for (const DType half : {lz::f16, lz::bf16})
        for (const DType dtype : {half, lz::f32})
            for (const Row &row : rows()) {
                SCOPED_TRACE(std::string(row.name) + " of " + std::string(lz::name(dtype)));
                const Tensor x = square_of(dtype);
                const lz::AutocastGuard autocast(half);
                const Tensor result = row.call(x);
                const DType expected = row.kind == Kind::Half   ? half
                                       : row.kind == Kind::Same ? dtype
                                                                : lz::f32;
                EXPECT_EQ(result.dtype(), expected);
                result.eval();
            }
}

TEST(Autocast, LeavesF64IntegersAndOtherKindsOfDevicesAlone) {
    const Tensor doubles = square_of(lz::f64), integers = lz::tensor({{1, 2}, {3, 4}});
    {
        const lz::AutocastGuard autocast(lz::bf16);
        EXPECT_EQ(lz::matmul(doubles, doubles).dtype(), lz::f64);
        EXPECT_EQ(lz::matmul(integers, integers).dtype(), lz::i64);
        EXPECT_EQ(integers.sum().dtype(), lz::i64);
        EXPECT_EQ(lz::exp(doubles).dtype(), lz::f64);
    }
    const Tensor here = square_of(lz::f32), there = here.to("cuda:1");
    {
        const lz::AutocastGuard autocast(lz::DeviceType::Cuda, lz::f16);
        EXPECT_EQ(lz::matmul(here, here).dtype(), lz::f32);
        EXPECT_EQ(lz::matmul(there, there).dtype(), lz::f16);
        EXPECT_FALSE(lz::is_autocast_enabled(lz::DeviceType::Cpu));
        const lz::AutocastGuard on_cpu(lz::DeviceType::Cpu, lz::bf16);
        EXPECT_EQ(lz::matmul(here, here).dtype(), lz::bf16);
        EXPECT_EQ(lz::matmul(there, there).dtype(), lz::f16);
        const lz::AutocastGuard off(lz::f16, false);
        EXPECT_EQ(lz::matmul(there, there).dtype(), lz::f32);
        std::thread([&] { EXPECT_FALSE(lz::is_autocast_enabled(lz::DeviceType::Cuda)); }).join();
    }
    EXPECT_EQ(lz::matmul(there, there).dtype(), lz::f32);
    const uint32_t line = __LINE__ + 1;
    const Caught error = caught<lz::DTypeError>([] { const lz::AutocastGuard wrong(lz::f32); });
    EXPECT_TRUE(error.has("autocast: the dtype is f32; it is f16 or bf16")) << error.what;
    EXPECT_EQ(error.line, line);
}

TEST(Autocast, InPlaceFormsKeepTheirDtypeAndErrorsTheirNames) {
    const lz::AutocastGuard autocast(lz::f16);
    Tensor x = square_of(lz::f16);
    x.exp_();
    EXPECT_EQ(x.dtype(), lz::f16);
    EXPECT_EQ(floats(x)[0], floats(lz::full({1}, std::exp(0.5)).to(lz::f16))[0]);
    x.pow_(2);
    EXPECT_EQ(x.dtype(), lz::f16);
    const uint32_t line = __LINE__ + 1;
    const Caught error = caught<lz::ShapeError>([] { lz::matmul(lz::ones({2, 3}), lz::ones({2, 3})); });
    EXPECT_TRUE(error.has("matmul: ")) << error.what;
    EXPECT_EQ(error.line, line);
}

TEST(Autocast, GradientsAreThoseOfTheCastsAndInTheParametersDtype) {
    lz::manual_seed(8);
    const Tensor x = lz::randn({4, 3}), classes = lz::tensor({1, 0, 1, 1});
    nn::Linear fc(3, 2);
    const auto gradients = [&](const Tensor &loss) {
        fc->zero_grad();
        loss.backward();
        EXPECT_EQ(loss.dtype(), lz::f32);
        EXPECT_EQ(fc->weight.grad().dtype(), lz::f32);
        std::vector<float> all = floats(fc->weight.grad());
        for (const float one : floats(fc->bias.grad()))
            all.push_back(one);
        all.push_back(loss.item<float>());
        return all;
    };
    const auto by_hand = [&] {
        const auto half = [](const Tensor &t) { return t.to(lz::bf16); };
        const Tensor y = lz::linear(half(x), half(fc->weight), half(fc->bias));
        return gradients(lz::cross_entropy(y.to(lz::f32), classes));
    };
    const auto automatic = [&](bool backward_inside) {
        Tensor loss;
        {
            const lz::AutocastGuard autocast(lz::bf16);
            const Tensor y = fc(x);
            EXPECT_EQ(y.dtype(), lz::bf16);
            loss = lz::cross_entropy(y, classes);
            if (backward_inside)
                return gradients(loss);
        }
        return gradients(loss);
    };
    const std::vector<float> expected = by_hand();
    EXPECT_EQ(automatic(false), expected);
    EXPECT_EQ(automatic(true), expected); // rules do not cast again
    // A checkpoint computes again as it was computed.
    Tensor loss;
    {
        const lz::AutocastGuard autocast(lz::bf16);
        const Tensor y = lz::autograd::checkpoint(
            [&](const lz::autograd::variable_list &v) { return lz::linear(v[0], v[1], v[2]); },
            {x, fc->weight, fc->bias});
        EXPECT_EQ(y.dtype(), lz::bf16);
        loss = lz::cross_entropy(y, classes);
    }
    EXPECT_EQ(gradients(loss), expected);
}

TEST(Autocast, EveryLayerTakesWhatAProductGives) {
    lz::manual_seed(11);
    const Tensor x = lz::randn({3, 4, 8}), flat = lz::randn({6, 8});
    const nn::Linear before(8, 8);
    const auto trains = [&](auto layer, const Tensor &input) {
        SCOPED_TRACE(layer->name());
        const lz::AutocastGuard autocast(lz::bf16);
        before->zero_grad();
        const auto first = [](const auto &result) -> Tensor {
            if constexpr (requires { std::get<0>(result); })
                return std::get<0>(result);
            else
                return result;
        };
        const Tensor half = before(input);
        ASSERT_EQ(half.dtype(), lz::bf16);
        const Tensor y = first(layer(half));
        lz::mse_loss(y, lz::ones_like(y)).backward();
        EXPECT_TRUE(before->weight.grad().isfinite().all().template item<bool>());
        EXPECT_EQ(before->weight.grad().dtype(), lz::f32);
        for (const Tensor &parameter : layer->parameters())
            EXPECT_EQ(parameter.grad().dtype(), lz::f32);
        for (const auto &[name, buffer] : layer->named_buffers())
            EXPECT_EQ(buffer.dtype(), name == "num_batches_tracked" ? lz::i64 : lz::f32) << name;
    };
    trains(nn::BatchNorm1d(4), x);
    trains(nn::BatchNorm1d(8), flat);
    trains(nn::GroupNorm(2, 4), x);
    trains(nn::LayerNorm(8), x);
    trains(nn::RMSNorm(8), x);
    trains(nn::RNN(8, 4), x);
    trains(nn::GRU(8, 4), x);
    trains(nn::LSTM(8, 4), x);
    trains(nn::GRUCell(8, 4), flat);
    trains(nn::LSTMCell(8, 4), flat);
    trains(nn::PReLU(), x);
    trains(nn::Softplus(), x);
    trains(nn::Mish(), x);
    trains(nn::Dropout(0.5), x);
    trains(nn::Softmax(-1), x);
    // Of two inputs, and of none of floats.
    const lz::AutocastGuard autocast(lz::bf16);
    const nn::Bilinear bilinear(8, 8, 2);
    bilinear(before(flat), flat).sum().backward();
    EXPECT_EQ(bilinear->weight.grad().dtype(), lz::f32);
    const nn::EmbeddingBag bag(5, 3);
    bag(lz::tensor({{0, 1}, {2, 4}})).sum().backward();
    EXPECT_EQ(bag->weight.grad().dtype(), lz::f32);
    const nn::MultiheadAttention attention(8, 2);
    const Tensor y = before(x);
    EXPECT_EQ(std::get<0>(attention(y, y, y)).dtype(), lz::bf16);
}

TEST(Autocast, LayersOfF32TrainInHalf) {
    lz::manual_seed(9);
    const Tensor x = lz::randn({5, 2, 8});
    const lz::AutocastGuard autocast(lz::bf16);
    const nn::TransformerEncoderLayer layer(
        nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0));
    const nn::LSTM lstm(8, 4);
    const Tensor y = std::get<0>(lstm(layer(x)));
    const Tensor loss = F::l1_loss(y, lz::zeros_like(y));
    EXPECT_EQ(loss.dtype(), lz::f32);
    loss.backward();
    for (const Tensor &parameter : layer->parameters()) {
        ASSERT_TRUE(parameter.grad().defined());
        EXPECT_EQ(parameter.grad().dtype(), lz::f32);
        EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
    }
}

} // namespace
