#include "lazuli/nn/summary.h"

#include "lazuli/lazuli.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <ostream>
#include <set>

namespace lz::nn {

namespace {

/// 203560: "203.56 kB".
std::string with_prefix(double value, const char *unit) {
    constexpr const char *prefixes[] = {"", "k", "M", "G", "T", "P"};
    size_t at = 0;
    for (; value >= 1000 && at + 1 < std::size(prefixes); ++at)
        value /= 1000;
    return at == 0 ? fmt::format("{} {}", value, unit)
                   : fmt::format("{:.2f} {}{}", value, prefixes[at], unit);
}

/// 50890: "50,890".
std::string with_commas(int64_t value) {
    std::string digits = std::to_string(value);
    for (size_t at = digits.size(); at > 3; at -= 3)
        digits.insert(at - 3, ",");
    return digits;
}

int64_t bytes_of(const Tensor &tensor) {
    return tensor.numel() * static_cast<int64_t>(size_of(tensor.dtype()));
}

} // namespace

struct detail::SummaryCall::State {
    struct Call {
        Tensor input;
        size_t finished; ///< results that were there when it began
    };

    Summary summary;
    std::vector<std::shared_ptr<Module>> modules;
    std::vector<bool> modes;
    std::vector<RemovableHandle> hooks;
    std::vector<std::vector<Call>> open; ///< by module
    std::vector<Tensor> stored;          ///< parameters and buffers
    std::vector<Tensor> results;         ///< of calls, as they ended
    NoGradGuard no_grad;
    Generator::State generator = default_generator().get_state();

    // Of handles whose tensors may change in place, the values as they are then.
    void begin(size_t module, const Tensor &input) {
        open[module].push_back({input.detach(), results.size()});
    }

    void end(size_t module, const Tensor &output) {
        if (open[module].empty())
            return;
        const Call call = std::move(open[module].back());
        open[module].pop_back();
        ModuleSummary &row = summary.modules[module];
        ++row.calls;
        row.output = output.sizes();
        row.dtype = output.dtype();
        row.device = output.device();
        row.bytes += bytes_of(output);
        std::vector<Tensor> given = stored;
        given.push_back(call.input);
        given.insert(given.end(), results.begin(), results.begin() + static_cast<ptrdiff_t>(call.finished));
        row.flops += pending_flops(output, given);
        results.push_back(output.detach());
    }
};

detail::SummaryCall::SummaryCall(Module &module) : state_(std::make_unique<State>()) {
    State &state = *state_;
    std::set<const void *> seen;
    for (const auto &[path, part] : module.named_modules()) {
        ModuleSummary row;
        row.name = path.substr(path.rfind('.') + 1);
        row.type = part->name();
        row.depth = path.empty() ? 0 : 1 + static_cast<int>(std::ranges::count(path, '.'));
        for (const Tensor &parameter : part->parameters(false)) {
            if (!parameter.defined() || !seen.insert(parameter.id()).second)
                continue;
            row.parameters += parameter.numel();
            row.trainable += parameter.requires_grad() ? parameter.numel() : 0;
            state.summary.parameter_bytes += bytes_of(parameter);
            state.stored.push_back(parameter.detach());
        }
        for (const Tensor &buffer : part->buffers(false)) {
            if (!buffer.defined() || !seen.insert(buffer.id()).second)
                continue;
            state.summary.buffer_bytes += bytes_of(buffer);
            state.stored.push_back(buffer.detach());
        }
        state.summary.parameters += row.parameters;
        state.summary.trainable += row.trainable;
        const size_t at = state.modules.size();
        state.modules.push_back(part);
        state.modes.push_back(part->is_training());
        state.hooks.push_back(part->register_forward_pre_hook(
            [&state, at](Module &, const Tensor &input) { state.begin(at, input); }));
        state.hooks.push_back(part->register_forward_hook(
            [&state, at](Module &, const Tensor &, const Tensor &output) { state.end(at, output); }));
        state.summary.modules.push_back(std::move(row));
    }
    state.open.resize(state.modules.size());
    module.eval();
}

detail::SummaryCall::~SummaryCall() {
    for (RemovableHandle &hook : state_->hooks)
        hook.remove();
    for (size_t i = 0; i < state_->modules.size(); ++i)
        state_->modules[i]->train(state_->modes[i]); // those inside come later
    default_generator().set_state(state_->generator);
}

Tensor detail::SummaryCall::input(const Tensor &tensor) {
    if (!tensor.defined())
        return tensor;
    state_->summary.input_bytes += bytes_of(tensor);
    Tensor copy = tensor.detach().clone();
    state_->stored.push_back(copy.detach());
    return copy;
}

Summary detail::SummaryCall::finish() {
    Summary &summary = state_->summary;
    summary.flops = summary.modules[0].flops;
    for (size_t i = 0; i < summary.modules.size(); ++i)
        if (state_->modules[i]->children().empty())
            summary.output_bytes += summary.modules[i].bytes;
    return std::move(summary);
}

std::string Summary::str() const {
    constexpr size_t kColumns = 6;
    using Row = std::array<std::string, kColumns>;
    std::vector<Row> rows = {{"Module", "Output", "Parameters", "FLOPs", "Bytes", "Device"}};
    for (const ModuleSummary &row : modules) {
        const std::string label = row.name.empty() ? row.type : row.name + ": " + row.type;
        Row &cells = rows.emplace_back();
        cells[0] = std::string(2 * static_cast<size_t>(row.depth), ' ') + label;
        cells[2] = with_commas(row.parameters);
        if (row.calls == 0) {
            cells[1] = "not called";
            continue;
        }
        cells[1] = fmt::format("{}[{}]", lz::name(row.dtype), fmt::join(row.output, ", "));
        cells[3] = with_prefix(row.flops, "");
        cells[4] = with_prefix(static_cast<double>(row.bytes), "B");
        cells[5] = row.device.str();
    }
    std::array<size_t, kColumns> widths{};
    for (const Row &row : rows)
        for (size_t c = 0; c < kColumns; ++c)
            widths[c] = std::max(widths[c], row[c].size());
    std::string text;
    const auto line = [&](const Row &row) {
        std::string out;
        for (size_t c = 0; c < kColumns; ++c) {
            const bool is_number = c >= 2 && c <= 4;
            out += is_number ? fmt::format("{:>{}}", row[c], widths[c])
                             : fmt::format("{:<{}}", row[c], widths[c]);
            out += "  ";
        }
        out.resize(out.find_last_not_of(' ') + 1);
        text += out + '\n';
    };
    line(rows[0]);
    size_t width = 2 * (kColumns - 1);
    for (const size_t w : widths)
        width += w;
    text += std::string(width, '-') + '\n';
    for (size_t i = 1; i < rows.size(); ++i)
        line(rows[i]);
    text += std::string(width, '-') + '\n';
    const auto size = [](int64_t bytes) { return with_prefix(static_cast<double>(bytes), "B"); };
    text += fmt::format("{} parameters ({}), {} of them trainable", with_commas(parameters),
                        size(parameter_bytes), with_commas(trainable));
    if (buffer_bytes > 0)
        text += fmt::format("; buffers {}", size(buffer_bytes));
    text += fmt::format("\ninputs {}, outputs of layers {}, {}FLOP a call\n", size(input_bytes),
                        size(output_bytes), with_prefix(flops, ""));
    return text;
}

std::ostream &operator<<(std::ostream &out, const Summary &summary) {
    return out << summary.str();
}

} // namespace lz::nn
