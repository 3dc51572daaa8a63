#include "lazuli/optim/grad_scaler.h"

#include "frontend/optim/state.h"
#include "lazuli/lazuli.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>

namespace lz {

namespace {

void check_options(const GradScalerOptions &o, Location loc) {
    const auto refuse = [&](const char *what, double value, const char *must) {
        throw StateError(fmt::format("GradScaler: {} is {}; it is {}", what, value, must), loc);
    };
    if (!(o.init_scale > 0))
        refuse("init_scale", o.init_scale, "above 0");
    if (!(o.growth_factor > 1))
        refuse("growth_factor", o.growth_factor, "above 1");
    if (!(o.backoff_factor > 0 && o.backoff_factor < 1))
        refuse("backoff_factor", o.backoff_factor, "between 0 and 1");
    if (o.growth_interval < 1)
        refuse("growth_interval", static_cast<double>(o.growth_interval), "1 or more");
}

/// Whether there are such numbers, in parts: one of each large gradient and one of all small ones of a
/// device, which take less time to copy than to launch a kernel for.
std::vector<Tensor> find_nonfinite(std::span<const Tensor> gradients, const Device &home, Location loc) {
    constexpr int64_t kSmall = 65536;
    std::vector<Tensor> found;
    std::vector<std::vector<Tensor>> small;
    const auto add_part = [&](const Tensor &flags) {
        found.push_back(any(flags, {}, false, loc).to(home, loc));
    };
    for (const Tensor &gradient : gradients) {
        const Tensor flags = logical_not(isfinite(gradient, loc), loc).flatten(0, -1, loc);
        if (flags.numel() > kSmall) {
            add_part(flags);
            continue;
        }
        const auto there = std::ranges::find_if(
            small, [&](const std::vector<Tensor> &group) { return group[0].device() == flags.device(); });
        if (there == small.end())
            small.push_back({flags});
        else
            there->push_back(flags);
    }
    for (const std::vector<Tensor> &group : small)
        add_part(cat(group, 0, loc));
    return found;
}

Tensor count_tensor(int64_t value, const Device &device, Location loc) {
    return full({}, value, {.dtype = i32, .device = device}, loc);
}

} // namespace

GradScaler::GradScaler(const GradScalerOptions &options, Location loc) : options_(options) {
    check_options(options_, loc);
    scale_ = full({}, options_.init_scale, {.dtype = f32, .device = Device::cpu()}, loc);
    tracker_ = count_tensor(0, Device::cpu(), loc);
}

GradScaler::GradScaler(const GradScaler &other)
    : options_(other.options_), scale_(other.scale_.detach()), tracker_(other.tracker_.detach()),
      has_scaled_(other.has_scaled_), seen_(other.seen_) {}

GradScaler &GradScaler::operator=(GradScaler other) noexcept {
    options_ = other.options_;
    std::swap(scale_, other.scale_);
    std::swap(tracker_, other.tracker_);
    has_scaled_ = other.has_scaled_;
    seen_.swap(other.seen_);
    return *this;
}

GradScaler::Seen *GradScaler::seen(const optim::Optimizer &optimizer) {
    for (Seen &one : seen_)
        if (one.optimizer == &optimizer)
            return &one;
    return nullptr;
}

Tensor GradScaler::scale(const Tensor &outputs, Location loc) {
    if (!options_.enabled)
        return outputs;
    if (outputs.dtype(loc) == f16)
        throw DTypeError("GradScaler: the loss is f16, which has no room for the scale; convert it to f32",
                         loc);
    if (!has_scaled_) { // it stays where the first loss is, in memory: a step that fails goes back to that
        const Tensor scale = scale_.to(outputs.device(loc), loc),
                     tracker = tracker_.to(outputs.device(), loc);
        eval({scale, tracker}, loc);
        scale_ = scale;
        tracker_ = tracker;
        has_scaled_ = true;
    }
    return mul(outputs, scale_.to(outputs.device(loc), loc), loc);
}

void GradScaler::unscale_(optim::Optimizer &optimizer, Location loc) {
    if (!options_.enabled)
        return;
    if (!has_scaled_)
        throw StateError("GradScaler: no loss was scaled: call scale(loss).backward() before", loc);
    if (const Seen *const before = seen(optimizer))
        throw StateError(before->stepped
                             ? "GradScaler: unscale_ is called after step; it comes before"
                             : "GradScaler: unscale_ was called for this optimizer since the last update()",
                         loc);
    const NoGradGuard no_grad;
    std::vector<Tensor> gradients;
    for (const optim::OptimizerParamGroup &group : optimizer.param_groups())
        for (const Tensor &parameter : group.params())
            if (const Tensor &gradient = parameter.grad(loc); gradient.defined()) {
                if (gradient.dtype() == f16)
                    throw DTypeError("GradScaler: a gradient is f16; parameters that are scaled are f32, and "
                                     "autocast converts them",
                                     loc);
                gradients.push_back(gradient);
            }
    if (gradients.empty())
        throw StateError("GradScaler: the optimizer's parameters have no gradients", loc);
    const Device home = gradients[0].device();
    const Tensor inverse = reciprocal(scale_, loc);
    const std::vector<Tensor> found = find_nonfinite(gradients, home, loc);
    for (Tensor &gradient : gradients)
        gradient.mul_(inverse.to(gradient.device(), loc), loc);
    seen_.push_back({&optimizer, any(stack(found, 0, loc), {}, false, loc)});
}

void GradScaler::step(optim::Optimizer &optimizer, Location loc) {
    if (!options_.enabled) {
        optimizer.step(loc);
        return;
    }
    if (const Seen *const before = seen(optimizer); before && before->stepped)
        throw StateError("GradScaler: step was called for this optimizer since the last update()", loc);
    if (!seen(optimizer))
        unscale_(optimizer, loc);
    Seen &now = *seen(optimizer);
    optimizer.step_unless(now.found_inf, loc);
    now.stepped = true;
}

void GradScaler::update(std::optional<double> new_scale, Location loc) {
    if (!options_.enabled)
        return;
    if (new_scale) {
        if (!(*new_scale > 0))
            throw StateError(fmt::format("GradScaler: the new scale is {}; it is above 0", *new_scale), loc);
        scale_ = full({}, *new_scale, {.dtype = f32, .device = scale_.device()}, loc);
        seen_.clear();
        return;
    }
    if (seen_.empty())
        throw StateError("GradScaler: update is called without a step since the last one", loc);
    const NoGradGuard no_grad;
    const Device home = scale_.device();
    Tensor found;
    for (const Seen &one : seen_) {
        const Tensor here = one.found_inf.to(home, loc);
        found = found.defined() ? logical_or(found, here, loc) : here;
    }
    const Tensor without_skip = add(tracker_, 1, loc);
    const Tensor grows = ge(without_skip, options_.growth_interval, loc);
    const Tensor grown = mul(scale_, options_.growth_factor, loc);
    const Tensor next = where(logical_and(grows, isfinite(grown, loc), loc), grown, scale_, loc);
    // In place, so that a step which fails leaves what they were.
    const Tensor tracked = where(logical_or(found, grows, loc), 0, without_skip, loc);
    scale_.copy_(where(found, mul(scale_, options_.backoff_factor, loc), next, loc), loc);
    tracker_.copy_(tracked, loc);
    seen_.clear();
}

Tensor GradScaler::get_scale() const {
    return scale_.detach();
}

Tensor GradScaler::found_inf(const optim::Optimizer &optimizer) const {
    for (const Seen &one : seen_)
        if (one.optimizer == &optimizer)
            return one.found_inf;
    return {};
}

StateDict GradScaler::state_dict() const {
    StateDict state;
    if (!options_.enabled)
        return state;
    state.insert("scale", scale_.detach());
    state.insert("growth_factor", optim::number_tensor(options_.growth_factor));
    state.insert("backoff_factor", optim::number_tensor(options_.backoff_factor));
    state.insert("growth_interval", optim::number_tensor(options_.growth_interval));
    state.insert("_growth_tracker", tracker_.detach());
    return state;
}

void GradScaler::load_state_dict(const StateDict &state, Location loc) {
    if (!options_.enabled)
        return;
    optim::Problems problems;
    const optim::NumberReader numbers(state, problems, loc);
    const auto read = [&](const char *name) {
        if (!numbers.has(name))
            problems.missing(name);
        return numbers.has(name) ? numbers.number(name).value_or(1) : 1;
    };
    GradScalerOptions loaded = options_;
    loaded.init_scale = read("scale");
    loaded.growth_factor = read("growth_factor");
    loaded.backoff_factor = read("backoff_factor");
    loaded.growth_interval = static_cast<int64_t>(read("growth_interval"));
    const auto tracker = static_cast<int64_t>(read("_growth_tracker"));
    problems.check("this GradScaler", loc);
    check_options(loaded, loc);
    const Device home = scale_.device();
    scale_ = full({}, loaded.init_scale, {.dtype = f32, .device = home}, loc);
    tracker_ = count_tensor(tracker, home, loc);
    loaded.init_scale = options_.init_scale;
    options_ = loaded;
}

} // namespace lz
