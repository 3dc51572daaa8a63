#pragma once
/// Recurrent networks, and their cells.

#include "lazuli/nn/module_holder.h"
#include "lazuli/nn/packed_sequence.h"

#include <optional>
#include <tuple>

namespace lz {
namespace nn {

/// What LSTM and GRU are made of.
struct RecurrentOptions {
    /// Of inputs and states of these extents.
    RecurrentOptions(int64_t input_size, int64_t hidden_size)
        : input_size_(input_size), hidden_size_(hidden_size) {}
    /// Extent of the input's last axis.
    LZ_OPTION(int64_t, input_size, 0);
    /// Extent of the state.
    LZ_OPTION(int64_t, hidden_size, 0);
    /// How many there are, each of which reads what the one before it gives.
    LZ_OPTION(int64_t, num_layers, 1);
    /// Whether there are biases.
    LZ_OPTION(bool, bias, true);
    /// Whether inputs and outputs are [n, steps, ...] and not [steps, n, ...].
    LZ_OPTION(bool, batch_first, false);
    /// In training, of what layers but the last give.
    LZ_OPTION(double, dropout, 0);
    /// Whether each layer reads the sequence from its end, too.
    LZ_OPTION(bool, bidirectional, false);
    /// Of an RNN: "tanh" or "relu".
    LZ_OPTION(std::string, nonlinearity, "tanh");
};
/// What RNN is made of.
using RNNOptions = RecurrentOptions;
/// What LSTM is made of.
using LSTMOptions = RecurrentOptions;
/// What GRU is made of.
using GRUOptions = RecurrentOptions;

/// What recurrent networks have in common. Parameters are called as in PyTorch: weight_ih_l0, weight_hh_l0,
/// bias_ih_l0, bias_hh_l0, weight_ih_l0_reverse, ...
class LZ_API RNNBase : public Module {
public:
    /// New random values: uniform within 1 / sqrt(hidden_size).
    void reset_parameters();
    /// Nothing: how the parameters lie in memory is the compiler's.
    void flatten_parameters() {}
    /// As PyTorch prints it.
    std::string extra_repr() const override;

    /// As given.
    RecurrentOptions options;

protected:
    /// What a step is.
    enum class Kind : uint8_t { Tanh, Relu, Lstm, Gru };
    /// What a run gives; c only of an LSTM.
    struct Run {
        Tensor output, h, c;
    };
    /// Throws ShapeError for a negative extent, IndexError for no layers and for a probability out of
    /// [0, 1], StateError for a nonlinearity that there is not.
    RNNBase(const RecurrentOptions &options, Kind kind, Location loc);
    /// Through all layers and steps. Throws ShapeError.
    Run run(const Tensor &x, const Tensor &h0, const Tensor &c0, Location loc) {
        return run(x, h0, c0, {}, options.batch_first(), loc);
    }
    /// The same of packed sequences, each as far as it goes; the output are packed rows.
    Run run(const utils::rnn::PackedSequence &x, const Tensor &h0, const Tensor &c0, Location loc);
    /// A module of its own with the same values.
    void copy_from(const RNNBase &other, const OptionalDevice &device, Location loc) {
        finish_clone(other, device, loc);
    }

private:
    /// `lengths`, i64[n, 1] or empty: behind them states stay.
    Run run(const Tensor &x, const Tensor &h0, const Tensor &c0, const Tensor &lengths, bool batch_first,
            Location loc);

    Kind kind_;
    std::vector<Tensor> parameters_in_order_; ///< w_ih, w_hh, b_ih, b_hh of each layer and direction
};

/// Base of recurrent networks that can be cloned.
template <class Derived>
class RNNOfKind : public RNNBase {
public:
    /// A module of its own with the same values.
    std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                  Location loc = Location::current()) const override {
        auto copy = std::make_shared<Derived>(options, loc);
        copy->copy_from(*this, device, loc);
        return copy;
    }

protected:
    using RNNBase::RNNBase;
};

/// h' = tanh(W_ih x + b_ih + W_hh h + b_hh) at each step.
class LZ_API RNNImpl : public RNNOfKind<RNNImpl> {
public:
    /// Of inputs and states of these extents.
    RNNImpl(int64_t input_size, int64_t hidden_size, Location loc = Location::current());
    /// By options.
    explicit RNNImpl(const RNNOptions &options, Location loc = Location::current());
    /// [steps, n, input_size], or [steps, input_size], and the first states, [layers * directions, n,
    /// hidden_size] (0 if left out), give all states of the last layer and the last ones of all layers.
    std::tuple<Tensor, Tensor> forward(const Tensor &x, const Tensor &h0 = {},
                                       Location loc = Location::current());
    /// From states of 0.
    std::tuple<Tensor, Tensor> forward(const Tensor &x, Location loc) { return forward(x, {}, loc); }
    /// Of packed sequences, which gives packed outputs, and the states where each sequence ends. First and
    /// last states are in the order before packing.
    std::tuple<utils::rnn::PackedSequence, Tensor>
    forward_with_packed_input(const utils::rnn::PackedSequence &x, const Tensor &h0 = {},
                              Location loc = Location::current());
};
/// Holds an RNNImpl.
LZ_MODULE(RNN);

/// Gated recurrent units (Cho et al. 2014), as PyTorch and cuDNN have them.
class LZ_API GRUImpl : public RNNOfKind<GRUImpl> {
public:
    /// Of inputs and states of these extents.
    GRUImpl(int64_t input_size, int64_t hidden_size, Location loc = Location::current());
    /// By options.
    explicit GRUImpl(const GRUOptions &options, Location loc = Location::current());
    /// As RNN's.
    std::tuple<Tensor, Tensor> forward(const Tensor &x, const Tensor &h0 = {},
                                       Location loc = Location::current());
    /// From states of 0.
    std::tuple<Tensor, Tensor> forward(const Tensor &x, Location loc) { return forward(x, {}, loc); }
    /// Of packed sequences, which gives packed outputs, and the states where each sequence ends. First and
    /// last states are in the order before packing.
    std::tuple<utils::rnn::PackedSequence, Tensor>
    forward_with_packed_input(const utils::rnn::PackedSequence &x, const Tensor &h0 = {},
                              Location loc = Location::current());
};
/// Holds a GRUImpl.
LZ_MODULE(GRU);

/// Long short-term memory (Hochreiter and Schmidhuber 1997; with forget gates).
class LZ_API LSTMImpl : public RNNOfKind<LSTMImpl> {
public:
    /// The first or last h and c.
    using States = std::tuple<Tensor, Tensor>;
    /// Of inputs and states of these extents.
    LSTMImpl(int64_t input_size, int64_t hidden_size, Location loc = Location::current());
    /// By options.
    explicit LSTMImpl(const LSTMOptions &options, Location loc = Location::current());
    /// As RNN's, with c beside each h.
    std::tuple<Tensor, States> forward(const Tensor &x, const std::optional<States> &first = {},
                                       Location loc = Location::current());
    /// From states of 0.
    std::tuple<Tensor, States> forward(const Tensor &x, Location loc) {
        return forward(x, std::nullopt, loc);
    }
    /// As RNN's, with c beside each h.
    std::tuple<utils::rnn::PackedSequence, States>
    forward_with_packed_input(const utils::rnn::PackedSequence &x, const std::optional<States> &first = {},
                              Location loc = Location::current());
};
/// Holds an LSTMImpl.
LZ_MODULE(LSTM);

/// What cells are made of.
struct CellOptions {
    /// Of inputs and states of these extents.
    CellOptions(int64_t input_size, int64_t hidden_size)
        : input_size_(input_size), hidden_size_(hidden_size) {}
    /// Extent of the input's last axis.
    LZ_OPTION(int64_t, input_size, 0);
    /// Extent of the state.
    LZ_OPTION(int64_t, hidden_size, 0);
    /// Whether there are biases.
    LZ_OPTION(bool, bias, true);
    /// Of an RNNCell: "tanh" or "relu".
    LZ_OPTION(std::string, nonlinearity, "tanh");
};
/// What RNNCell is made of.
using RNNCellOptions = CellOptions;
/// What GRUCell is made of.
using GRUCellOptions = CellOptions;
/// What LSTMCell is made of.
using LSTMCellOptions = CellOptions;

/// What cells have in common.
class LZ_API CellBase : public Module {
public:
    /// New random values: uniform within 1 / sqrt(hidden_size).
    void reset_parameters();
    /// As PyTorch prints it.
    std::string extra_repr() const override;

    /// As given.
    CellOptions options;
    /// [gates * hidden_size, input_size]
    Tensor weight_ih;
    /// [gates * hidden_size, hidden_size]
    Tensor weight_hh;
    /// [gates * hidden_size]; empty where there is none.
    Tensor bias_ih;
    /// [gates * hidden_size]; empty where there is none.
    Tensor bias_hh;

protected:
    /// Throws ShapeError for a negative extent, StateError for a nonlinearity that there is not.
    CellBase(const CellOptions &options, int64_t gates, Location loc);
    /// The state, or 0. Throws ShapeError for input or state of another shape.
    Tensor checked(const Tensor &x, const Tensor &state, Location loc) const;
    /// A module of its own with the same values.
    void copy_from(const CellBase &other, const OptionalDevice &device, Location loc) {
        finish_clone(other, device, loc);
    }
};

/// Base of cells that can be cloned.
template <class Derived>
class CellOfKind : public CellBase {
public:
    /// A module of its own with the same values.
    std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                  Location loc = Location::current()) const override {
        auto copy = std::make_shared<Derived>(options, loc);
        copy->copy_from(*this, device, loc);
        return copy;
    }

protected:
    using CellBase::CellBase;
};

/// One step of an RNN.
class LZ_API RNNCellImpl : public CellOfKind<RNNCellImpl> {
public:
    /// Of inputs and states of these extents.
    RNNCellImpl(int64_t input_size, int64_t hidden_size, Location loc = Location::current());
    /// By options.
    explicit RNNCellImpl(const CellOptions &options, Location loc = Location::current());
    /// [n, input_size] or [input_size], and the state (0 if left out), give the next one.
    Tensor forward(const Tensor &x, const Tensor &h = {}, Location loc = Location::current());
    /// From a state of 0.
    Tensor forward(const Tensor &x, Location loc) { return forward(x, {}, loc); }
};
/// Holds an RNNCellImpl.
LZ_MODULE(RNNCell);

/// One step of a GRU.
class LZ_API GRUCellImpl : public CellOfKind<GRUCellImpl> {
public:
    /// Of inputs and states of these extents.
    GRUCellImpl(int64_t input_size, int64_t hidden_size, Location loc = Location::current());
    /// By options.
    explicit GRUCellImpl(const CellOptions &options, Location loc = Location::current());
    /// As RNNCell's.
    Tensor forward(const Tensor &x, const Tensor &h = {}, Location loc = Location::current());
    /// From a state of 0.
    Tensor forward(const Tensor &x, Location loc) { return forward(x, {}, loc); }
};
/// Holds a GRUCellImpl.
LZ_MODULE(GRUCell);

/// One step of an LSTM.
class LZ_API LSTMCellImpl : public CellOfKind<LSTMCellImpl> {
public:
    /// h and c.
    using States = std::tuple<Tensor, Tensor>;
    /// Of inputs and states of these extents.
    LSTMCellImpl(int64_t input_size, int64_t hidden_size, Location loc = Location::current());
    /// By options.
    explicit LSTMCellImpl(const CellOptions &options, Location loc = Location::current());
    /// As RNNCell's, with c beside h.
    States forward(const Tensor &x, const std::optional<States> &states = {},
                   Location loc = Location::current());
    /// From states of 0.
    States forward(const Tensor &x, Location loc) { return forward(x, std::nullopt, loc); }
};
/// Holds an LSTMCellImpl.
LZ_MODULE(LSTMCell);

} // namespace nn
} // namespace lz
