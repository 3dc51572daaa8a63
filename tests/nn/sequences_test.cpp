// Sequences of different lengths through recurrent networks, and samples of categories.
#include "support.h"
#include "tests/support/caught.h"

#include <cmath>

namespace {

using namespace lz::test;
using lz::Tensor;
namespace nn = lz::nn;
namespace F = lz::nn::functional;
namespace rnn = lz::nn::utils::rnn;

std::vector<Tensor> sequences() {
    lz::manual_seed(21);
    return {lz::randn({2, 3}), lz::randn({5, 3}), lz::randn({1, 3}), lz::randn({4, 3})};
}

void expect_close(const Tensor &found, const Tensor &expected) {
    ASSERT_EQ(found.sizes(), expected.sizes());
    EXPECT_TRUE(lz::allclose(found, expected, 1e-5, 1e-6)) << found << expected;
}

/// Each sequence goes through the network as if it were alone, and what backward leaves is the same.
template <class Network, class Forward>
void as_if_alone(Network network, Forward &&states_of, const char *name) {
    SCOPED_TRACE(name);
    const std::vector<Tensor> given = sequences();
    const auto [packed, states] = network->forward_with_packed_input(rnn::pack_sequence(given, false));
    const auto [padded, lengths] = rnn::pad_packed_sequence(packed, true);
    EXPECT_EQ(lengths.template to_vector<int64_t>(), (std::vector<int64_t>{2, 5, 1, 4}));
    const std::vector<Tensor> last = states_of(states);
    padded.square().sum().backward();
    std::vector<Tensor> gradients;
    for (const Tensor &parameter : network->parameters())
        gradients.push_back(parameter.grad().clone());
    network->zero_grad();
    Tensor total = lz::zeros({});
    for (size_t k = 0; k < given.size(); ++k) {
        const auto index = static_cast<int64_t>(k);
        const Tensor one = network->options.batch_first() ? given[k].unsqueeze(0) : given[k].unsqueeze(1);
        const auto [output, state] = network->forward(one);
        const Tensor alone = output.flatten(0, 1);
        expect_close(padded.select(0, index).narrow(0, 0, given[k].size(0)), alone);
        const std::vector<Tensor> ends = states_of(state);
        for (size_t s = 0; s < ends.size(); ++s)
            expect_close(last[s].narrow(1, index, 1), ends[s]);
        total = total + alone.square().sum();
    }
    total.backward();
    for (size_t k = 0; k < gradients.size(); ++k)
        expect_close(gradients[k], network->parameters()[k].grad());
}

TEST(Sequences, GoThroughRecurrentNetworksAsIfEachWereAlone) {
    const auto one = [](const Tensor &h) { return std::vector<Tensor>{h}; };
    const auto two = [](const std::tuple<Tensor, Tensor> &both) {
        return std::vector<Tensor>{std::get<0>(both), std::get<1>(both)};
    };
    as_if_alone(nn::RNN(nn::RNNOptions(3, 4)), one, "RNN");
    as_if_alone(nn::GRU(nn::GRUOptions(3, 4).num_layers(2).bidirectional(true)), one, "GRU");
    as_if_alone(nn::LSTM(nn::LSTMOptions(3, 4)), two, "LSTM");
    as_if_alone(nn::LSTM(nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true).batch_first(true)), two,
                "LSTM in both directions");
}

TEST(Sequences, TakeTheirFirstStatesInTheirOwnOrder) {
    const std::vector<Tensor> given = sequences();
    const Tensor h0 = lz::randn({1, 4, 4});
    nn::GRU network(3, 4);
    const auto [packed, last] = network->forward_with_packed_input(rnn::pack_sequence(given, false), h0);
    for (size_t k = 0; k < given.size(); ++k) {
        const auto index = static_cast<int64_t>(k);
        const auto [output, state] = network->forward(given[k].unsqueeze(1), h0.narrow(1, index, 1));
        expect_close(last.narrow(1, index, 1), state);
    }
}

TEST(Sequences, RefuseWhatDoesNotFit) {
    const Tensor x = lz::zeros({3, 2, 4});
    const Caught longer = caught<lz::ShapeError>([&] { rnn::pack_padded_sequence(x, {4, 1}); });
    EXPECT_TRUE(longer.has("a length is 4") && longer.line == __LINE__ - 1) << longer.what;
    const Caught order = caught<lz::StateError>([&] { rnn::pack_padded_sequence(x, {1, 3}); });
    EXPECT_TRUE(order.has("do not come longest first") && order.line == __LINE__ - 1) << order.what;
    const Caught none = caught<lz::StateError>([] { rnn::pad_sequence({}); });
    EXPECT_TRUE(none.has("pad_sequence: there is no sequence") && none.line == __LINE__ - 1) << none.what;
    const Caught rest =
        caught<lz::ShapeError>([] { rnn::pad_sequence({lz::zeros({2, 3}), lz::zeros({2, 4})}); });
    EXPECT_TRUE(rest.has("but for the first axis") && rest.line == __LINE__ - 1) << rest.what;
    const Caught sizes =
        caught<lz::ShapeError>([] { rnn::PackedSequence(lz::zeros({3, 2}), lz::tensor({1, 2})); });
    EXPECT_TRUE(sizes.has("PackedSequence: the batch sizes [1, 2]") && sizes.line == __LINE__ - 1)
        << sizes.what;
    const rnn::PackedSequence packed = rnn::pack_padded_sequence(x, {3, 2});
    EXPECT_EQ(packed.lengths(), lz::Sizes({3, 2}));
    const Caught total = caught<lz::ShapeError>([&] { rnn::pad_packed_sequence(packed, false, 0, 2); });
    EXPECT_TRUE(total.has("the total length is 2") && total.line == __LINE__ - 1) << total.what;
    EXPECT_EQ(packed.to(lz::f64).data().dtype(), lz::f64);
}

TEST(Sequences, SamplesOfCategoriesHaveTheirProbabilities) {
    lz::manual_seed(4);
    const Tensor p = lz::tensor({0.1, 0.2, 0.7}), logits = p.log().expand({20000, 3}).clone();
    const Tensor hard = F::gumbel_softmax(logits, F::GumbelSoftmaxFuncOptions().hard(true).dim(-1));
    EXPECT_TRUE(lz::equal(hard.sum(1), lz::ones({20000})));
    // Five deviations of sqrt(p (1 - p) / 20000).
    EXPECT_TRUE(lz::allclose(hard.mean(0), p, 0, 0.0165)) << hard.mean(0);
    const Tensor soft = F::gumbel_softmax(logits, 0.5);
    EXPECT_TRUE(lz::allclose(soft.sum(1), lz::ones({20000}), 0, 1e-5));
    EXPECT_TRUE(((soft > 0) & (soft <= 1)).all().item<bool>());
    // The gradient of a hard sample is that of the soft one.
    Tensor x = lz::zeros({1, 3}).requires_grad_(), y = lz::zeros({1, 3}).requires_grad_();
    const Tensor weights = lz::tensor({{1.0, 2.0, 3.0}});
    lz::manual_seed(8);
    (F::gumbel_softmax(x, 1, true) * weights).sum().backward();
    lz::manual_seed(8);
    (F::gumbel_softmax(y, 1, false) * weights).sum().backward();
    EXPECT_TRUE(lz::allclose(x.grad(), y.grad()));
    const Caught tau = caught<lz::StateError>([&] { F::gumbel_softmax(x, 0.0); });
    EXPECT_TRUE(tau.has("gumbel_softmax: tau is 0") && tau.line == __LINE__ - 1) << tau.what;
}

} // namespace
