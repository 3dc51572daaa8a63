#include "frontend/optim/state.h"

#include "frontend/optim/rule.h"
#include "lazuli/io/archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <sstream>

namespace lz::optim {

namespace {

const TensorOptions kHost = {.device = Device::cpu()};

std::string text(const Tensor &x) {
    std::ostringstream out;
    out << name(x.dtype()) << x.sizes();
    return out.str();
}

void list(std::string &message, const char *what, const std::vector<std::string> &names) {
    if (!names.empty())
        message += fmt::format("{}{}: {}", message.ends_with(':') ? " " : "; ", what, fmt::join(names, ", "));
}

} // namespace

Tensor number_tensor(double value) {
    return tensor<double>(std::vector<double>{value}, Sizes{}, kHost);
}
Tensor number_tensor(int64_t value) {
    return tensor<int64_t>(std::vector<int64_t>{value}, Sizes{}, kHost);
}
Tensor number_tensor(bool value) {
    return tensor<bool>(std::vector<bool>{value}, Sizes{}, kHost);
}
Tensor numbers_tensor(const std::vector<double> &values) {
    return tensor<double>(values, kHost);
}

void Problems::check(const std::string &whose, Location loc) const {
    std::string message = "load_state_dict: the dictionary does not fit " + whose + ":";
    const size_t head = message.size();
    list(message, "missing", missing_);
    list(message, "unexpected", unexpected_);
    list(message, "wrong", wrong_);
    if (message.size() != head)
        throw StateError(message + "; nothing was loaded", loc);
}

std::optional<double> NumberReader::number(const std::string &name) const {
    const Tensor *const value = state_.find(name);
    if (!value)
        return std::nullopt;
    if (value->defined() && value->numel(loc_) == 1)
        return value->item<double>(loc_);
    problems_.wrong(name, value->defined() ? "(" + text(*value) + " where one number is needed)"
                                           : "(is an empty tensor)");
    return std::nullopt;
}

std::optional<std::vector<double>> NumberReader::list(const std::string &name) const {
    const Tensor *const value = state_.find(name);
    if (!value)
        return std::nullopt;
    if (value->defined() && value->dim(loc_) == 1)
        return value->cpu(loc_).to(f64, loc_).to_vector<double>(loc_);
    problems_.wrong(name, value->defined() ? "(" + text(*value) + " where a list of numbers is needed)"
                                           : "(is an empty tensor)");
    return std::nullopt;
}

std::optional<double> OptionReader::number(const char *name) {
    names_.emplace_back(name);
    if (!numbers_.has(prefix_ + name))
        problems_.missing(prefix_ + name);
    return numbers_.number(prefix_ + name);
}
void OptionReader::visit(const char *name, double &value) {
    value = number(name).value_or(value);
}
void OptionReader::visit(const char *name, bool &value) {
    names_.emplace_back(name);
    value = numbers_.number(prefix_ + name).value_or(value) != 0;
}
void OptionReader::visit(const char *name, int64_t &value) {
    value = static_cast<int64_t>(number(name).value_or(static_cast<double>(value)));
}
void OptionReader::visit(const char *name, Betas &value) {
    names_.emplace_back(name);
    if (!numbers_.has(prefix_ + name))
        return problems_.missing(prefix_ + name);
    if (const auto both = numbers_.list(prefix_ + name)) {
        if (both->size() == 2)
            value = {(*both)[0], (*both)[1]};
        else
            problems_.wrong(prefix_ + name, fmt::format("({} numbers where 2 are needed)", both->size()));
    }
}

void OptionReader::visit(const char *name, std::vector<double> &value) {
    names_.emplace_back(name);
    if (!numbers_.has(prefix_ + name))
        return problems_.missing(prefix_ + name);
    auto found = numbers_.list(prefix_ + name);
    if (found && found->size() == value.size())
        value = std::move(*found);
    else if (found)
        problems_.wrong(prefix_ + name,
                        fmt::format("({} numbers where {} are needed)", found->size(), value.size()));
}

// --- optimizers

namespace {

/// What PyTorch keeps in groups and there is nothing of here, or in a scheduler.
constexpr std::array<std::string_view, 12> kIgnored = {
    "foreach",    "fused",  "capturable", "differentiable", "params",       "param_names",
    "initial_lr", "max_lr", "min_lr",     "base_momentum",  "max_momentum", "swa_lr"};

/// The number in front of the next dot of `name`, which it then begins behind; -1 where there is none.
int64_t take_number(std::string_view &name) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
    if (error != std::errc() || end == name.data() + name.size() || *end != '.' || value < 0)
        return -1;
    name.remove_prefix(static_cast<size_t>(end - name.data()) + 1);
    return value;
}

/// A group as it will be.
struct LoadedGroup {
    std::unique_ptr<OptimizerOptions> options;
    std::optional<double> initial_lr;
    std::vector<detail::ParameterState> states;
};

} // namespace

StateDict Optimizer::state_dict() const {
    settle_counts();
    StateDict state;
    int64_t id = 0;
    for (const OptimizerParamGroup &group : groups_)
        for (const detail::ParameterState &of : group.states_) {
            const std::string prefix = fmt::format("state.{}.", id++);
            if (!of.tensors.empty() && rule_.counts_steps) {
                const Tensor recorded = number_tensor(static_cast<double>(of.step));
                state.insert(prefix + "step", of.skipped.defined() ? recorded - of.skipped.cpu() : recorded);
            }
            if (!of.tensors.empty() && !rule_.number.empty())
                state.insert(prefix + std::string(rule_.number), of.number_now.defined()
                                                                     ? of.number_now.cpu().detach()
                                                                     : number_tensor(of.number));
            for (size_t s = 0; s < of.tensors.size(); ++s)
                if (of.tensors[s].defined())
                    state.insert(prefix + std::string(rule_.state[s].name), of.tensors[s].detach());
            if (id == 1)
                save_more(state, prefix);
        }
    id = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
        const std::string prefix = fmt::format("param_groups.{}.", g);
        OptionWriter writer(state, prefix);
        groups_[g].options().clone()->each(writer);
        if (groups_[g].initial_lr_)
            state.insert(prefix + "initial_lr", number_tensor(*groups_[g].initial_lr_));
        std::vector<int64_t> ids(groups_[g].params_.size());
        for (int64_t &i : ids)
            i = id++;
        state.insert(prefix + "params", tensor<int64_t>(ids, kHost));
    }
    return state;
}

size_t Optimizer::size() const noexcept {
    size_t count = 0;
    for (const OptimizerParamGroup &group : groups_)
        count += group.params_.size();
    return count;
}

StateDict Optimizer::state() const {
    constexpr std::string_view kState = "state.";
    StateDict state;
    for (const auto &[name, tensor] : state_dict())
        if (name.starts_with(kState))
            state.insert(name.substr(kState.size()), tensor);
    return state;
}

void Optimizer::save(serialize::OutputArchive &archive, Location loc) const {
    archive.write(state_dict(), loc);
}

void Optimizer::load(const serialize::InputArchive &archive, Location loc) {
    StateDict own;
    for (const auto &[name, tensor] : archive.tensors())
        if (name.starts_with("state.") || name.starts_with("param_groups."))
            own.insert(name, tensor, loc);
    load_state_dict(own, loc);
}

void Optimizer::load_state_dict(const StateDict &state, Location loc) {
    Problems problems;
    const NumberReader numbers(state, problems, loc);
    std::vector<LoadedGroup> loaded(groups_.size());
    std::map<int64_t, std::pair<size_t, size_t>> places; // of saved numbers
    std::vector<std::vector<std::string>> known(groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
        const OptimizerParamGroup &group = groups_[g];
        const std::string prefix = fmt::format("param_groups.{}.", g);
        loaded[g].options = group.options(loc).clone();
        loaded[g].states.resize(group.params_.size());
        OptionReader reader(numbers, prefix, problems);
        loaded[g].options->each(reader);
        known[g] = reader.names();
        loaded[g].initial_lr = numbers.number(prefix + "initial_lr");
        if (!numbers.has(prefix + "params")) {
            problems.missing(prefix + "params");
            continue;
        }
        const std::vector<double> ids = numbers.list(prefix + "params").value_or(std::vector<double>{});
        if (ids.size() != group.params_.size())
            problems.wrong(prefix + "params", fmt::format("({} parameters where the optimizer has {})",
                                                          ids.size(), group.params_.size()));
        for (size_t i = 0; i < std::min(ids.size(), group.params_.size()); ++i)
            if (!places.emplace(static_cast<int64_t>(ids[i]), std::pair(g, i)).second)
                problems.wrong(prefix + "params", fmt::format("(has {} twice)", ids[i]));
    }
    StateDict more; // of the first parameter
    for (const auto &[name, value] : state) {
        std::string_view rest = name;
        const bool is_state = rest.starts_with("state.");
        if (!is_state && !rest.starts_with("param_groups.")) {
            problems.unexpected(name);
            continue;
        }
        rest.remove_prefix(is_state ? 6 : 13);
        const int64_t number = take_number(rest);
        if (!is_state) {
            if (number < 0 || number >= static_cast<int64_t>(groups_.size()) ||
                (std::ranges::find(kIgnored, rest) == kIgnored.end() &&
                 std::ranges::find(known[static_cast<size_t>(number)], rest) ==
                     known[static_cast<size_t>(number)].end()))
                problems.unexpected(name);
            continue;
        }
        const auto place = places.find(number);
        if (place == places.end()) {
            problems.unexpected(name);
            continue;
        }
        const auto [g, i] = place->second;
        detail::ParameterState &to = loaded[g].states[i];
        const Tensor &parameter = groups_[g].params_[i];
        const auto tensor = std::ranges::find(rule_.state, rest, &StateTensor::name);
        if (rest == "step" && rule_.counts_steps) {
            to.step = static_cast<int64_t>(numbers.number(name).value_or(0));
        } else if (rest == rule_.number && !rest.empty()) {
            to.number = numbers.number(name).value_or(0);
        } else if (tensor == rule_.state.end()) {
            if (!rule_.state.empty() || g != 0 || i != 0)
                problems.unexpected(name);
            else
                more.insert(std::string(rest), value);
            continue;
        } else if (!value.defined()) {
            problems.wrong(name, "(is an empty tensor)");
        } else if (value.sizes(loc) != parameter.sizes(loc)) {
            std::ostringstream sizes;
            sizes << parameter.sizes();
            problems.wrong(name, "(" + text(value) + " where the parameter has " + sizes.str() + ")");
        } else {
            to.tensors.resize(rule_.state.size());
            to.tensors[static_cast<size_t>(tensor - rule_.state.begin())] = value;
        }
    }
    // What there is of one parameter is whole.
    for (const auto &[number, place] : places) {
        const LoadedGroup &group = loaded[place.first];
        const detail::ParameterState &of = group.states[place.second];
        const std::string prefix = fmt::format("state.{}.", number);
        if (of.tensors.empty() && of.step == 0)
            continue;
        if (rule_.counts_steps && !numbers.has(prefix + "step"))
            problems.missing(prefix + "step");
        if (!rule_.number.empty() && !numbers.has(prefix + std::string(rule_.number)))
            problems.missing(prefix + std::string(rule_.number));
        for (const StateTensor &tensor : rule_.state)
            if ((!tensor.needed || tensor.needed(*group.options)) &&
                !numbers.has(prefix + std::string(tensor.name)))
                problems.missing(prefix + std::string(tensor.name));
    }
    problems.check("this " + std::string(rule_.name), loc);
    for (size_t g = 0; g < groups_.size(); ++g) {
        loaded[g].options->check(loc);
        for (size_t i = 0; i < loaded[g].states.size(); ++i)
            for (Tensor &x : loaded[g].states[i].tensors)
                if (x.defined())
                    x = x.detach(loc).to(groups_[g].params_[i].device(loc), groups_[g].params_[i].dtype(loc),
                                         loc);
    }
    load_more(more, loc);
    for (size_t g = 0; g < groups_.size(); ++g) {
        groups_[g].options_ = std::move(loaded[g].options);
        groups_[g].initial_lr_ = loaded[g].initial_lr;
        groups_[g].states_ = std::move(loaded[g].states);
    }
    forget_counts();
}

} // namespace lz::optim
