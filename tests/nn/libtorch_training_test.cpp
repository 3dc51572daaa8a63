// More programs as LibTorch's users have them, but for the namespace: the polynomial of its examples, the
// custom function of PyTorch's tutorial, a language model with an LSTM, a variational autoencoder, weights
// that are copied by name, and what loops of training do besides. Numbers are PyTorch's.
#include "support.h"

#include <lazuli/io.h>
#include <lazuli/optim.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace torch = lz; // NOLINT
namespace nn = torch::nn;
namespace F = torch::nn::functional;
#define TORCH_MODULE LZ_MODULE

namespace {

using namespace lz::test;

// --- examples/cpp/regression

constexpr int POLY_DEGREE = 4;

torch::Tensor make_features(torch::Tensor x) {
    x = x.unsqueeze(1);
    std::vector<torch::Tensor> xs;
    for (int64_t i = 0; i < POLY_DEGREE; ++i)
        xs.push_back(x.pow(i + 1));
    return torch::cat(xs, 1);
}
torch::Tensor f(torch::Tensor x, torch::Tensor W_target, torch::Tensor b_target) {
    return x.mm(W_target) + b_target.item();
}

TEST(LibTorchTraining, Regression) {
    torch::manual_seed(4);
    auto W_target = torch::randn({POLY_DEGREE, 1});
    auto b_target = torch::randn(1);
    auto fc = nn::Linear(W_target.size(0), 1);
    torch::optim::SGD optim(fc->parameters(), .1);
    float loss = 0;
    int64_t batch_idx = 0;
    while (++batch_idx < 600) {
        auto batch_x = make_features(torch::rand(32) * 2 - 1);
        auto batch_y = f(batch_x, W_target, b_target);
        optim.zero_grad();
        auto output = F::smooth_l1_loss(fc(batch_x), batch_y);
        loss = output.item<float>();
        output.backward();
        optim.step();
        if (loss < 1e-3f)
            break;
    }
    EXPECT_LT(loss, 3e-2f);
    EXPECT_TRUE(torch::allclose(fc->bias, b_target, /*rtol=*/0, /*atol=*/0.3));
}

// --- PyTorch's tutorial "Defining new autograd functions"

class LegendrePolynomial3 : public torch::autograd::Function<LegendrePolynomial3> {
public:
    static torch::Tensor forward(torch::autograd::AutogradContext *ctx, torch::Tensor input) {
        ctx->save_for_backward({input});
        return 0.5 * (5 * input.pow(3) - 3 * input);
    }
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext *ctx,
                                                 torch::autograd::tensor_list grad_outputs) {
        auto saved = ctx->get_saved_variables();
        auto input = saved[0];
        return {grad_outputs[0] * 1.5 * (5 * input.pow(2) - 1)};
    }
};

TEST(LibTorchTraining, APolynomialByAFunctionOfOnesOwn) {
    const auto options = torch::TensorOptions().dtype(torch::kFloat64);
    auto x = torch::linspace(-M_PI, M_PI, 2000, options);
    auto y = torch::sin(x);
    auto a = torch::full({}, 0.0, options.requires_grad(true));
    auto b = torch::full({}, -1.0, options.requires_grad(true));
    auto c = torch::full({}, 0.0, options.requires_grad(true));
    auto d = torch::full({}, 0.3, options.requires_grad(true));
    double learning_rate = 5e-6, last = 0;
    for (int t = 0; t < 300; ++t) {
        auto y_pred = a + b * LegendrePolynomial3::apply(c + d * x);
        auto loss = (y_pred - y).pow(2).sum();
        last = loss.item<double>();
        loss.backward();
        torch::NoGradGuard no_grad;
        for (torch::Tensor *p : {&a, &b, &c, &d}) {
            *p -= learning_rate * p->grad();
            p->mutable_grad() = {};
        }
    }
    EXPECT_NEAR(last, 100.70256811844635, 1e-9);
    EXPECT_NEAR(b.item<double>(), -1.5471194744606818, 1e-12);
    EXPECT_NEAR(d.item<double>(), 0.24978572945985966, 1e-13);
    EXPECT_NEAR(a.item<double>(), 0, 1e-12);
    EXPECT_NEAR(c.item<double>(), 0, 1e-12);
}

// --- examples/word_language_model

struct RNNModelImpl : nn::Module {
    RNNModelImpl(int64_t ntoken, int64_t ninp, int64_t nhid, int64_t nlayers, double dropout)
        : ntoken(ntoken), nhid(nhid), nlayers(nlayers), drop(dropout), encoder(ntoken, ninp),
          rnn(nn::LSTMOptions(ninp, nhid).num_layers(nlayers).dropout(dropout)), decoder(nhid, ntoken) {
        register_module("drop", drop);
        register_module("encoder", encoder);
        register_module("rnn", rnn);
        register_module("decoder", decoder);
        init_weights();
    }
    void init_weights() {
        const double initrange = 0.1;
        nn::init::uniform_(encoder->weight, -initrange, initrange);
        nn::init::zeros_(decoder->bias);
        decoder->weight.data().uniform_(-initrange, initrange);
    }
    std::tuple<torch::Tensor, std::tuple<torch::Tensor, torch::Tensor>>
    forward(torch::Tensor input, std::tuple<torch::Tensor, torch::Tensor> hidden) {
        auto emb = drop(encoder(input));
        auto [output, new_hidden] = rnn(emb, hidden);
        output = drop(output);
        auto decoded = decoder(output);
        decoded = decoded.view({-1, ntoken});
        return {torch::log_softmax(decoded, 1), new_hidden};
    }
    std::tuple<torch::Tensor, torch::Tensor> init_hidden(int64_t bsz) {
        auto weight = parameters()[0];
        return {weight.new_zeros({nlayers, bsz, nhid}), weight.new_zeros({nlayers, bsz, nhid})};
    }
    int64_t ntoken, nhid, nlayers;
    nn::Dropout drop;
    nn::Embedding encoder;
    nn::LSTM rnn;
    nn::Linear decoder;
};
TORCH_MODULE(RNNModel);

TEST(LibTorchTraining, ALanguageModelWithAnLstm) {
    torch::manual_seed(5);
    const int64_t bptt = 8, batch_size = 4, ntokens = 6;
    // Each token says the next one.
    auto data = (torch::arange(bptt * 6 + 1).unsqueeze(1) + torch::arange(batch_size)).remainder(ntokens);
    RNNModel model(ntokens, 16, 16, 2, 0.1);
    model->train();
    const double lr = 2;
    double first = 0, loss_value = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
        auto hidden = model->init_hidden(batch_size);
        for (int64_t i = 0; i < data.size(0) - 1; i += bptt) {
            auto source = data.slice(0, i, i + bptt);
            auto targets = data.slice(0, i + 1, i + 1 + bptt).reshape(-1);
            model->zero_grad();
            hidden = {std::get<0>(hidden).detach(), std::get<1>(hidden).detach()};
            torch::Tensor output;
            std::tie(output, hidden) = model(source, hidden);
            auto loss = torch::nll_loss(output, targets);
            loss.backward();
            torch::nn::utils::clip_grad_norm_(model->parameters(), 0.25);
            for (auto &p : model->parameters())
                p.data().add_(p.grad(), -lr);
            loss_value = loss.item<float>();
            if (first == 0)
                first = loss_value;
        }
    }
    EXPECT_NEAR(first, std::log(6), 0.1);
    EXPECT_NEAR(loss_value, std::log(6), 0.2);
}

TEST(LibTorchTraining, GradientsOfAnLstmAreClippedAsInPyTorch) {
    nn::LSTM lstm(nn::LSTMOptions(3, 4).num_layers(2));
    lstm->to(torch::kDouble);
    {
        torch::NoGradGuard no_grad;
        int64_t i = 0;
        for (torch::Tensor &p : lstm->parameters())
            p.copy_(torch::sin(torch::arange(p.numel(), torch::kDouble) + i++).view_as(p) * 0.5);
    }
    auto x = torch::cos(torch::arange(5 * 2 * 3, torch::kDouble)).view({5, 2, 3});
    auto [out, states] = lstm(x);
    auto [h, c] = states;
    auto loss = (out * out).sum() + h.sum() - c.sum();
    loss.backward();
    const auto norm = nn::utils::clip_grad_norm_(lstm->parameters(), 0.25);
    EXPECT_NEAR(loss.item<double>(), 5.237025386859268, 1e-12);
    EXPECT_NEAR(norm.item<double>(), 9.031694861146823, 1e-11);
    const auto named = lstm->named_parameters();
    EXPECT_NEAR(named["weight_hh_l0"].grad()[3][1].item<double>(), 0.0005225564625253961, 1e-14);
    EXPECT_NEAR(named["bias_ih_l1"].grad()[7].item<double>(), 0.026112130454191376, 1e-13);
}

// --- a variational autoencoder, as in examples/vae

struct VAEOutput {
    torch::Tensor reconstruction, mu, log_var;
};

class VAEImpl : public nn::Module {
public:
    VAEImpl(int64_t image_size, int64_t h_dim, int64_t z_dim)
        : fc1(image_size, h_dim), fc2(h_dim, z_dim), fc3(h_dim, z_dim), fc4(z_dim, h_dim),
          fc5(h_dim, image_size) {
        register_module("fc1", fc1);
        register_module("fc2", fc2);
        register_module("fc3", fc3);
        register_module("fc4", fc4);
        register_module("fc5", fc5);
    }
    std::pair<torch::Tensor, torch::Tensor> encode(torch::Tensor x) {
        auto h = F::relu(fc1->forward(x));
        return {fc2->forward(h), fc3->forward(h)};
    }
    torch::Tensor reparameterize(torch::Tensor mu, torch::Tensor log_var) {
        if (is_training()) {
            auto std = log_var.div(2).exp();
            auto eps = torch::randn_like(std);
            return eps.mul(std).add(mu);
        }
        return mu;
    }
    torch::Tensor decode(torch::Tensor z) {
        auto h = F::relu(fc4->forward(z));
        return torch::sigmoid(fc5->forward(h));
    }
    VAEOutput forward(torch::Tensor x) {
        auto encode_output = encode(x);
        auto z = reparameterize(encode_output.first, encode_output.second);
        return {decode(z), encode_output.first, encode_output.second};
    }

private:
    nn::Linear fc1, fc2, fc3, fc4, fc5;
};
TORCH_MODULE(VAE);

TEST(LibTorchTraining, AVariationalAutoencoder) {
    torch::manual_seed(6);
    VAE model(16, 12, 2);
    model->to(torch::kCPU);
    auto data = (torch::rand({64, 1}) * torch::linspace(0, 1, 16).unsqueeze(0)).clamp(0, 1);
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
    torch::optim::StepLR scheduler(optimizer, 3, 0.5);
    std::vector<double> rates, losses;
    for (int epoch = 0; epoch < 8; ++epoch) {
        for (int i = 0; i < 5; ++i) {
            auto output = model->forward(data);
            auto reconstruction_loss = F::binary_cross_entropy(
                output.reconstruction, data, F::BinaryCrossEntropyFuncOptions().reduction(torch::kSum));
            auto kl_divergence =
                -0.5 * torch::sum(1 + output.log_var - output.mu.pow(2) - output.log_var.exp());
            auto loss = reconstruction_loss + kl_divergence;
            optimizer.zero_grad();
            loss.backward();
            optimizer.step();
            losses.push_back(loss.item<double>());
        }
        scheduler.step();
        rates.push_back(optimizer.param_groups()[0].options().get_lr());
    }
    EXPECT_LT(losses.back(), losses.front() * 0.95);
    const std::vector<double> expected = {1e-2, 1e-2, 5e-3, 5e-3, 5e-3, 2.5e-3, 2.5e-3, 2.5e-3};
    for (size_t i = 0; i < rates.size(); ++i)
        EXPECT_DOUBLE_EQ(rates[i], expected[i]);
    for (auto &param_group : optimizer.param_groups())
        static_cast<torch::optim::AdamOptions &>(param_group.options()).lr(1e-4);
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 1e-4);
}

// --- copying weights by name, as answers in the forum do

TEST(LibTorchTraining, WeightsAreCopiedByName) {
    const auto make = [] {
        return nn::Sequential(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Functional(torch::relu),
                              nn::Linear(4, 2));
    };
    auto net = make(), trained = make();
    trained->eval();
    net->eval();
    nn::init::constant_(trained->at<nn::BatchNorm1dImpl>(1).running_mean, 0.5);
    auto new_params = trained->named_parameters();
    auto params = net->named_parameters(true /*recurse*/);
    auto buffers = net->named_buffers(true /*recurse*/);
    torch::NoGradGuard no_grad;
    for (auto &val : new_params) {
        auto name = val.key();
        auto *t = params.find(name);
        if (t != nullptr)
            t->copy_(val.value());
    }
    for (auto &val : trained->named_buffers())
        buffers[val.key()].copy_(*val);
    auto x = torch::randn({5, 3});
    EXPECT_TRUE(torch::equal(net(x), trained(x)));
    // And through a file that Python reads, too.
    const std::string path =
        (std::filesystem::temp_directory_path() / ("lazuli-" + std::to_string(getpid()) + ".pt")).string();
    torch::save(trained, path);
    auto loaded = make();
    torch::load(loaded, path);
    loaded->eval();
    std::filesystem::remove(path);
    EXPECT_TRUE(torch::equal(loaded(x), trained(x)));
}

// --- what else there is in loops of training

void init_weights(nn::Module &m) {
    if (auto *linear = m.as<nn::Linear>()) {
        nn::init::xavier_uniform_(linear->weight, nn::init::calculate_gain(torch::kReLU));
        nn::init::constant_(linear->bias, 0.01);
    }
}

TEST(LibTorchTraining, ModulesAreInitializedFrozenAndCloned) {
    torch::manual_seed(7);
    nn::Sequential net(nn::Linear(6, 5), nn::Functional(torch::tanh), nn::Linear(5, 2));
    net->apply(init_weights);
    EXPECT_TRUE(torch::equal(net->named_parameters()["0.bias"], torch::full({5}, 0.01)));
    // The first layer is kept as it is.
    for (auto &p : net[0]->parameters())
        p.set_requires_grad(false);
    std::vector<torch::Tensor> trained;
    for (auto &p : net->parameters())
        if (p.requires_grad())
            trained.push_back(p);
    EXPECT_EQ(trained.size(), 2u);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(trained, std::make_unique<torch::optim::AdamWOptions>(1e-2));
    torch::optim::AdamW optimizer(groups, torch::optim::AdamWOptions(1));
    auto copy = std::dynamic_pointer_cast<nn::SequentialImpl>(net->clone());
    auto x = torch::randn({7, 6});
    auto target = torch::randint(/*high=*/2, {7}, torch::kLong);
    double first = 0, last = 0;
    int calls = 0;
    auto handle =
        net[2]->register_forward_hook([&](nn::Module &, const torch::Tensor &, const torch::Tensor &output) {
            ++calls;
            EXPECT_EQ(output.size(1), 2);
        });
    for (int i = 0; i < 60; ++i) {
        optimizer.zero_grad();
        auto loss = F::cross_entropy(net(x), target);
        loss.backward();
        optimizer.step();
        last = loss.item().toDouble();
        if (i == 0)
            first = last;
    }
    handle.remove();
    EXPECT_EQ(calls, 60);
    EXPECT_LT(last, first * 0.9);
    EXPECT_TRUE(torch::equal(net->named_parameters()["0.weight"], copy->named_parameters()["0.weight"]));
    EXPECT_FALSE(torch::equal(net->named_parameters()["2.weight"], copy->named_parameters()["2.weight"]));
    // Accuracy, as loops print it.
    net->eval();
    torch::NoGradGuard no_grad;
    auto prediction = std::get<1>(torch::max(net(x), 1));
    auto correct = prediction.eq(target).sum().item<int64_t>();
    std::ostringstream out;
    out << "Accuracy: " << static_cast<double>(correct) / static_cast<double>(target.size(0)) << std::endl;
    EXPECT_GT(correct, 4);
}

// --- the policy gradient of examples/reinforcement_learning

TEST(LibTorchTraining, APolicyGradient) {
    torch::manual_seed(8);
    nn::Sequential policy(nn::Linear(4, 16), nn::Dropout(0.1), nn::ReLU(), nn::Linear(16, 2));
    torch::optim::Adam optimizer(policy->parameters(), torch::optim::AdamOptions(3e-2));
    double late = 0;
    for (int episode = 0; episode < 40; ++episode) {
        std::vector<torch::Tensor> log_probs;
        std::vector<float> rewards;
        for (int t = 0; t < 8; ++t) {
            auto state = torch::randn({1, 4});
            auto probs = F::softmax(policy(state), F::SoftmaxFuncOptions(1));
            auto action = torch::multinomial(probs, 1);
            log_probs.push_back(probs.gather(1, action).log().squeeze());
            const bool is_right = (state[0][0].item<float>() > 0) == (action.item<int64_t>() == 1);
            rewards.push_back(is_right ? 1.0f : -1.0f);
        }
        auto returns = torch::tensor(rewards);
        auto policy_loss = -(torch::stack(log_probs) * returns).sum();
        optimizer.zero_grad();
        policy_loss.backward();
        optimizer.step();
        if (episode >= 20)
            late += returns.mean().item<double>() / 20;
    }
    EXPECT_GT(late, 0.2);
}

} // namespace
