#include "lazuli/nn/rnn.h"

#include "frontend/nn/layers/parameters.h"

#include <fmt/format.h>

namespace lz::nn {

using detail::text;

namespace {

/// x's part of the gates, and the state's.
struct Gates {
    Tensor of_input, of_state;
};

Tensor rnn_step(const Gates &gates, bool relu, Location loc) {
    Tensor sum = add(gates.of_input, gates.of_state, loc);
    return relu ? lz::relu(std::move(sum), loc) : tanh(std::move(sum), loc);
}

std::tuple<Tensor, Tensor> lstm_step(const Gates &gates, const Tensor &c, Location loc) {
    const std::vector<Tensor> g = add(gates.of_input, gates.of_state, loc).chunk(4, -1, loc);
    const Tensor kept = mul(sigmoid(g[1], loc), c, loc);
    const Tensor taken = mul(sigmoid(g[0], loc), tanh(g[2], loc), loc);
    const Tensor next = add(kept, taken, loc);
    return {mul(sigmoid(g[3], loc), tanh(next, loc), loc), next};
}

Tensor gru_step(const Gates &gates, const Tensor &h, Location loc) {
    const std::vector<Tensor> x = gates.of_input.chunk(3, -1, loc), s = gates.of_state.chunk(3, -1, loc);
    const Tensor reset = sigmoid(add(x[0], s[0], loc), loc), keep = sigmoid(add(x[1], s[1], loc), loc);
    const Tensor fresh = tanh(add(x[2], mul(reset, s[2], loc), loc), loc);
    return add(fresh, mul(keep, sub(h, fresh, loc), loc), loc);
}

void check_nonlinearity(const std::string &name, const char *layer, Location loc) {
    if (name != "tanh" && name != "relu")
        throw StateError(
            fmt::format("{}: there is no nonlinearity \"{}\"; there are \"tanh\" and \"relu\"", layer, name),
            loc);
}

} // namespace

// --- networks

RNNBase::RNNBase(const RecurrentOptions &given, Kind kind, Location loc) : options(given), kind_(kind) {
    const char *const layer = kind == Kind::Lstm ? "LSTM" : kind == Kind::Gru ? "GRU" : "RNN";
    detail::check_extent(options.input_size(), layer, "input_size", loc);
    detail::check_extent(options.hidden_size(), layer, "hidden_size", loc);
    check_nonlinearity(options.nonlinearity(), layer, loc);
    if (options.num_layers() < 1)
        throw IndexError(fmt::format("{}: num_layers is {}; it is 1 or more", layer, options.num_layers()),
                         loc);
    if (!(options.dropout() >= 0 && options.dropout() <= 1))
        throw IndexError(fmt::format("{}: dropout is {}; it is out of [0, 1]", layer, options.dropout()),
                         loc);
    const detail::Constructing here(loc);
    const int64_t gates = kind == Kind::Lstm ? 4 : kind == Kind::Gru ? 3 : 1;
    const int64_t hidden = options.hidden_size(), directions = options.bidirectional() ? 2 : 1;
    for (int64_t k = 0; k < options.num_layers(); ++k)
        for (int64_t d = 0; d < directions; ++d) {
            const std::string suffix = fmt::format("_l{}{}", k, d == 1 ? "_reverse" : "");
            const int64_t in = k == 0 ? options.input_size() : hidden * directions;
            const auto make = [&](const char *name, const Sizes &sizes, bool there) {
                parameters_in_order_.push_back(
                    register_parameter(name + suffix, there ? empty(sizes) : Tensor()));
            };
            make("weight_ih", {gates * hidden, in}, true);
            make("weight_hh", {gates * hidden, hidden}, true);
            make("bias_ih", {gates * hidden}, options.bias());
            make("bias_hh", {gates * hidden}, options.bias());
        }
    reset_parameters();
}

void RNNBase::reset_parameters() {
    const double bound = detail::one_by_root(options.hidden_size());
    for (Tensor &parameter : parameters_in_order_)
        detail::fill_uniform(parameter, bound);
}

namespace {

void check_state(const Tensor &state, const Sizes &sizes, const char *what, const std::string &layer,
                 Location loc) {
    if (state.sizes(loc) != sizes)
        throw ShapeError(
            fmt::format("{}: {} is {}; it needs {}", layer, what, text(state.sizes(loc)), text(sizes)), loc);
}

} // namespace

RNNBase::Run RNNBase::run(const utils::rnn::PackedSequence &x, const Tensor &h0, const Tensor &c0,
                          Location loc) {
    // Every step is computed of all sequences, so that all are one kernel; the states of those that have
    // ended stay what they were.
    const utils::rnn::PackedSequence in_order(x.data(), x.step_sizes(), Sizes(), loc);
    auto [padded, lengths] = utils::rnn::pad_packed_sequence(in_order, false, 0, std::nullopt, loc);
    const auto permuted = [&](const Tensor &state, const Tensor &order) {
        return state.defined() && order.defined() ? state.index_select(1, order, loc) : state;
    };
    const Tensor until = lengths.unsqueeze(1, loc).to(padded.device(loc), loc);
    Run all =
        run(padded, permuted(h0, x.sorted_indices()), permuted(c0, x.sorted_indices()), until, false, loc);
    const Sizes &sizes = x.step_sizes();
    std::vector<int64_t> rows;
    for (size_t t = 0; t < sizes.size(); ++t)
        for (int64_t k = 0; k < sizes[t]; ++k)
            rows.push_back(static_cast<int64_t>(t) * sizes[0] + k);
    const Tensor taken = tensor(rows, {.device = padded.device(loc)}, loc);
    return {all.output.flatten(0, 1, loc).index_select(0, taken, loc), permuted(all.h, x.unsorted_indices()),
            permuted(all.c, x.unsorted_indices())};
}

RNNBase::Run RNNBase::run(const Tensor &x, const Tensor &h0, const Tensor &c0, const Tensor &lengths,
                          bool batch_first, Location loc) {
    const int64_t rank = x.dim(loc), hidden = options.hidden_size();
    if ((rank != 2 && rank != 3) || x.size(-1) != options.input_size())
        throw ShapeError(fmt::format("{}: the input is {}; it needs 2 or 3 axes, the last of extent {}",
                                     name(), text(x.sizes(loc)), options.input_size()),
                         loc);
    const bool batched = rank == 3, turned = batched && batch_first;
    Tensor in = !batched ? x.unsqueeze(1, loc) : turned ? x.transpose(0, 1, loc) : x;
    const int64_t steps = in.size(0), n = in.size(1);
    if (steps == 0)
        throw ShapeError(name() + ": the sequence has no steps", loc);
    const int64_t directions = options.bidirectional() ? 2 : 1, runs = options.num_layers() * directions;
    const Sizes state_sizes = batched ? Sizes{runs, n, hidden} : Sizes{runs, hidden};
    const auto state = [&](const Tensor &given, const char *what) {
        if (!given.defined())
            return x.new_zeros({runs, n, hidden}, {}, loc);
        check_state(given, state_sizes, what, name(), loc);
        return batched ? given : given.unsqueeze(1, loc);
    };
    const Tensor first_h = state(h0, "h_0");
    const Tensor first_c = kind_ == Kind::Lstm ? state(c0, "c_0") : Tensor();
    std::vector<Tensor> last_h, last_c;
    for (int64_t layer = 0; layer < options.num_layers(); ++layer) {
        std::vector<Tensor> of_direction;
        for (int64_t d = 0; d < directions; ++d) {
            const int64_t which = layer * directions + d;
            const Tensor *const p = &parameters_in_order_[static_cast<size_t>(4 * which)];
            const Tensor of_inputs = linear(in, p[0], p[2], loc); // of all steps at once
            Tensor h = first_h.select(0, which, loc), c;
            if (kind_ == Kind::Lstm)
                c = first_c.select(0, which, loc);
            std::vector<Tensor> outputs(static_cast<size_t>(steps));
            for (int64_t i = 0; i < steps; ++i) {
                const int64_t t = d == 0 ? i : steps - 1 - i;
                const Gates gates{of_inputs.select(0, t, loc), linear(h, p[1], p[3], loc)};
                const Tensor h_before = h, c_before = c;
                if (kind_ == Kind::Lstm)
                    std::tie(h, c) = lstm_step(gates, c, loc);
                else if (kind_ == Kind::Gru)
                    h = gru_step(gates, h, loc);
                else
                    h = rnn_step(gates, kind_ == Kind::Relu, loc);
                if (lengths.defined()) {
                    const Tensor goes_on = gt(lengths, t, loc);
                    h = where(goes_on, h, h_before, loc);
                    if (kind_ == Kind::Lstm)
                        c = where(goes_on, c, c_before, loc);
                }
                outputs[static_cast<size_t>(t)] = h;
            }
            of_direction.push_back(stack(outputs, 0, loc));
            last_h.push_back(h);
            last_c.push_back(c);
        }
        in = directions == 1 ? of_direction[0] : cat(of_direction, -1, loc);
        if (layer + 1 < options.num_layers() && options.dropout() > 0)
            in = dropout(in, options.dropout(), is_training(), loc);
    }
    const auto gathered = [&](const std::vector<Tensor> &states) {
        const Tensor all = stack(states, 0, loc);
        return batched ? all : all.squeeze({1}, loc);
    };
    return {!batched ? in.squeeze({1}, loc)
            : turned ? in.transpose(0, 1, loc)
                     : in,
            gathered(last_h), kind_ == Kind::Lstm ? gathered(last_c) : Tensor()};
}

std::string RNNBase::extra_repr() const {
    std::string out = fmt::format("{}, {}", options.input_size(), options.hidden_size());
    if (options.num_layers() != 1)
        out += fmt::format(", num_layers={}", options.num_layers());
    if (!options.bias())
        out += ", bias=False";
    if (options.batch_first())
        out += ", batch_first=True";
    if (options.dropout() != 0)
        out += ", dropout=" + text(options.dropout());
    if (options.bidirectional())
        out += ", bidirectional=True";
    return out;
}

RNNImpl::RNNImpl(int64_t input_size, int64_t hidden_size, Location loc)
    : RNNImpl(RNNOptions(input_size, hidden_size), loc) {}
RNNImpl::RNNImpl(const RNNOptions &options, Location loc)
    : RNNOfKind(options, options.nonlinearity() == "relu" ? Kind::Relu : Kind::Tanh, loc) {}
std::tuple<Tensor, Tensor> RNNImpl::forward(const Tensor &x, const Tensor &h0, Location loc) {
    Run all = run(x, h0, {}, loc);
    return {std::move(all.output), std::move(all.h)};
}

std::tuple<utils::rnn::PackedSequence, Tensor>
RNNImpl::forward_with_packed_input(const utils::rnn::PackedSequence &x, const Tensor &h0, Location loc) {
    Run all = run(x, h0, {}, loc);
    return {x.with_data(std::move(all.output)), std::move(all.h)};
}

GRUImpl::GRUImpl(int64_t input_size, int64_t hidden_size, Location loc)
    : GRUImpl(GRUOptions(input_size, hidden_size), loc) {}
GRUImpl::GRUImpl(const GRUOptions &options, Location loc) : RNNOfKind(options, Kind::Gru, loc) {}
std::tuple<Tensor, Tensor> GRUImpl::forward(const Tensor &x, const Tensor &h0, Location loc) {
    Run all = run(x, h0, {}, loc);
    return {std::move(all.output), std::move(all.h)};
}

std::tuple<utils::rnn::PackedSequence, Tensor>
GRUImpl::forward_with_packed_input(const utils::rnn::PackedSequence &x, const Tensor &h0, Location loc) {
    Run all = run(x, h0, {}, loc);
    return {x.with_data(std::move(all.output)), std::move(all.h)};
}

LSTMImpl::LSTMImpl(int64_t input_size, int64_t hidden_size, Location loc)
    : LSTMImpl(LSTMOptions(input_size, hidden_size), loc) {}
LSTMImpl::LSTMImpl(const LSTMOptions &options, Location loc) : RNNOfKind(options, Kind::Lstm, loc) {}
std::tuple<Tensor, LSTMImpl::States> LSTMImpl::forward(const Tensor &x, const std::optional<States> &first,
                                                       Location loc) {
    Run all = first ? run(x, std::get<0>(*first), std::get<1>(*first), loc) : run(x, {}, {}, loc);
    return {std::move(all.output), {std::move(all.h), std::move(all.c)}};
}

std::tuple<utils::rnn::PackedSequence, LSTMImpl::States>
LSTMImpl::forward_with_packed_input(const utils::rnn::PackedSequence &x, const std::optional<States> &first,
                                    Location loc) {
    Run all = first ? run(x, std::get<0>(*first), std::get<1>(*first), loc) : run(x, {}, {}, loc);
    return {x.with_data(std::move(all.output)), {std::move(all.h), std::move(all.c)}};
}

// --- cells

CellBase::CellBase(const CellOptions &given, int64_t gates, Location loc) : options(given) {
    detail::check_extent(options.input_size(), "a cell", "input_size", loc);
    detail::check_extent(options.hidden_size(), "a cell", "hidden_size", loc);
    check_nonlinearity(options.nonlinearity(), "RNNCell", loc);
    const detail::Constructing here(loc);
    const int64_t rows = gates * options.hidden_size();
    weight_ih = register_parameter("weight_ih", empty({rows, options.input_size()}));
    weight_hh = register_parameter("weight_hh", empty({rows, options.hidden_size()}));
    bias_ih = register_parameter("bias_ih", options.bias() ? empty({rows}) : Tensor());
    bias_hh = register_parameter("bias_hh", options.bias() ? empty({rows}) : Tensor());
    reset_parameters();
}

void CellBase::reset_parameters() {
    const double bound = detail::one_by_root(options.hidden_size());
    for (Tensor *const parameter : {&weight_ih, &weight_hh, &bias_ih, &bias_hh})
        detail::fill_uniform(*parameter, bound);
}

Tensor CellBase::checked(const Tensor &x, const Tensor &state, Location loc) const {
    const int64_t rank = x.dim(loc);
    if ((rank != 1 && rank != 2) || x.size(-1) != options.input_size())
        throw ShapeError(fmt::format("{}: the input is {}; it needs 1 or 2 axes, the last of extent {}",
                                     name(), text(x.sizes(loc)), options.input_size()),
                         loc);
    Sizes sizes = x.sizes();
    sizes.back() = options.hidden_size();
    if (!state.defined())
        return x.new_zeros(sizes, {}, loc);
    check_state(state, sizes, "the state", name(), loc);
    return state;
}

std::string CellBase::extra_repr() const {
    std::string out = fmt::format("{}, {}", options.input_size(), options.hidden_size());
    if (!options.bias())
        out += ", bias=False";
    if (options.nonlinearity() != "tanh")
        out += ", nonlinearity=" + options.nonlinearity();
    return out;
}

namespace {

Gates gates_of(const CellBase &cell, const Tensor &x, const Tensor &h, Location loc) {
    return {linear(x, cell.weight_ih, cell.bias_ih, loc), linear(h, cell.weight_hh, cell.bias_hh, loc)};
}

} // namespace

RNNCellImpl::RNNCellImpl(int64_t input_size, int64_t hidden_size, Location loc)
    : RNNCellImpl(CellOptions(input_size, hidden_size), loc) {}
RNNCellImpl::RNNCellImpl(const CellOptions &options, Location loc) : CellOfKind(options, 1, loc) {}
Tensor RNNCellImpl::forward(const Tensor &x, const Tensor &h, Location loc) {
    return rnn_step(gates_of(*this, x, checked(x, h, loc), loc), options.nonlinearity() == "relu", loc);
}

GRUCellImpl::GRUCellImpl(int64_t input_size, int64_t hidden_size, Location loc)
    : GRUCellImpl(CellOptions(input_size, hidden_size), loc) {}
GRUCellImpl::GRUCellImpl(const CellOptions &options, Location loc) : CellOfKind(options, 3, loc) {}
Tensor GRUCellImpl::forward(const Tensor &x, const Tensor &h, Location loc) {
    const Tensor state = checked(x, h, loc);
    return gru_step(gates_of(*this, x, state, loc), state, loc);
}

LSTMCellImpl::LSTMCellImpl(int64_t input_size, int64_t hidden_size, Location loc)
    : LSTMCellImpl(CellOptions(input_size, hidden_size), loc) {}
LSTMCellImpl::LSTMCellImpl(const CellOptions &options, Location loc) : CellOfKind(options, 4, loc) {}
LSTMCellImpl::States LSTMCellImpl::forward(const Tensor &x, const std::optional<States> &states,
                                           Location loc) {
    const Tensor h = checked(x, states ? std::get<0>(*states) : Tensor(), loc);
    const Tensor c = checked(x, states ? std::get<1>(*states) : Tensor(), loc);
    return lstm_step(gates_of(*this, x, h, loc), c, loc);
}

} // namespace lz::nn
