#include "lazuli/optim/lbfgs.h"

#include "frontend/optim/lbfgs/line_search.h"
#include "frontend/optim/rule.h"
#include "frontend/optim/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace lz::optim {

void LBFGSOptions::each(OptionVisitor &visitor) {
    visitor.visit("lr", lr_);
    visitor.visit("max_iter", max_iter_);
    visitor.visit("max_eval", max_eval_);
    visitor.visit("tolerance_grad", tolerance_grad_);
    visitor.visit("tolerance_change", tolerance_change_);
    visitor.visit("history_size", history_size_);
    visitor.visit("maximize", maximize_);
}

void LBFGSOptions::check(Location loc) const {
    check_option(lr_ >= 0, "LBFGS", "lr", lr_, "at least 0", loc);
    check_option(max_iter_ >= 1, "LBFGS", "max_iter", static_cast<double>(max_iter_), "at least 1", loc);
    check_option(max_eval_ >= 0, "LBFGS", "max_eval", static_cast<double>(max_eval_), "at least 0", loc);
    check_option(history_size_ >= 1, "LBFGS", "history_size", static_cast<double>(history_size_),
                 "at least 1", loc);
    if (line_search_fn_ && *line_search_fn_ != "strong_wolfe")
        throw IndexError(fmt::format("LBFGS: line_search_fn is \"{}\"; it must be \"strong_wolfe\", or none",
                                     *line_search_fn_),
                         loc);
}

/// What is remembered between iterations: changes of gradients and of parameters, flat.
struct LBFGS::History {
    int64_t func_evals = 0, n_iter = 0;
    Tensor direction; ///< `d`
    double step = 0;  ///< `t`: its length
    std::vector<Tensor> old_dirs, old_stps, ro;
    Tensor scale; ///< `H_diag`: of the estimated inverse Hessian's diagonal
    Tensor last_gradient;
    double last_loss = 0;
};

namespace {

const detail::Rule kLBFGS = {.name = "LBFGS", .state = {}, .counts_steps = false};

double largest(const Tensor &x, Location loc) {
    return x.numel(loc) == 0 ? 0 : x.abs(loc).amax({}, false, loc).item<double>(loc);
}

} // namespace

/// One step.
class LBFGS::Search {
public:
    Search(const std::vector<Tensor> &parameters, const LBFGSOptions &options, const LossClosure &closure,
           Location loc)
        : parameters_(parameters), options_(options), closure_(closure), loc_(loc) {}

    /// The loss before the step.
    Tensor run(History &h) {
        const int64_t most_evaluations =
            options_.max_eval() > 0 ? options_.max_eval() : options_.max_iter() * 5 / 4;
        double loss = evaluate();
        const Tensor before = loss_;
        int64_t evaluations = 1;
        ++h.func_evals;
        Tensor gradient = flat_gradient();
        bool is_optimal = largest(gradient, loc_) <= options_.tolerance_grad();
        for (int64_t iteration = 1; !is_optimal; ++iteration) {
            find_direction(h, gradient);
            h.last_gradient = gradient;
            h.last_loss = loss;
            h.step = options_.lr();
            if (h.n_iter == 1)
                h.step *= std::min(
                    1.0, 1 / gradient.abs(loc_).sum({}, false, std::nullopt, loc_).item<double>(loc_));
            const double slope = dot(gradient, h.direction).item<double>(loc_);
            if (slope > -options_.tolerance_change())
                break;
            int64_t more = 0;
            if (options_.line_search_fn()) {
                const LineSearch search = strong_wolfe(
                    [&](double step) { return evaluate_at(h.direction, step); },
                    {.step = 0, .value = loss, .slope = slope, .gradient = gradient}, h.step,
                    largest(h.direction, loc_), options_.tolerance_change(), most_evaluations - evaluations);
                loss = search.point.value;
                gradient = search.point.gradient;
                h.step = search.point.step;
                more = search.evaluations;
                move(h.direction, h.step);
                is_optimal = largest(gradient, loc_) <= options_.tolerance_grad();
            } else {
                move(h.direction, h.step);
                if (iteration != options_.max_iter()) {
                    loss = evaluate();
                    gradient = flat_gradient();
                    is_optimal = largest(gradient, loc_) <= options_.tolerance_grad();
                    more = 1;
                }
            }
            evaluations += more;
            h.func_evals += more;
            if (iteration == options_.max_iter() || evaluations >= most_evaluations || is_optimal ||
                std::fabs(h.step) * largest(h.direction, loc_) <= options_.tolerance_change() ||
                std::fabs(loss - h.last_loss) < options_.tolerance_change())
                break;
        }
        return before;
    }

    void restore(const std::vector<Tensor> &values) {
        for (size_t i = 0; i < parameters_.size(); ++i) {
            Tensor p = parameters_[i];
            p.copy_(values[i], loc_);
        }
    }
    /// The parameters' values now.
    std::vector<Tensor> values() const {
        std::vector<Tensor> out;
        for (const Tensor &p : parameters_)
            out.push_back(p.detach(loc_));
        return out;
    }

private:
    Tensor dot(const Tensor &a, const Tensor &b) const { return a.dot(b, loc_); }
    Tensor minus(const Tensor &a, const Tensor &b) const { return a.sub({b, loc_}, loc_); }
    Tensor times(const Tensor &a, const Tensor &b) const { return a.mul({b, loc_}, loc_); }

    double evaluate() {
        const AutoGradMode on(true);
        loss_ = closure_();
        if (!loss_.defined() || loss_.numel() != 1)
            throw StateError("LBFGS: the closure has to return the loss, which is one number", loc_);
        return (options_.maximize() ? -1 : 1) * loss_.item<double>(loc_);
    }

    /// At values + step * direction; the parameters are as before afterwards.
    LinePoint evaluate_at(const Tensor &direction, double step) {
        const std::vector<Tensor> before = values();
        move(direction, step);
        LinePoint point{.step = step, .value = evaluate(), .gradient = flat_gradient()};
        restore(before);
        point.slope = dot(point.gradient, direction).item<double>(loc_);
        return point;
    }

    Tensor flat_gradient() const {
        std::vector<Tensor> parts;
        for (const Tensor &p : parameters_)
            parts.push_back(p.grad(loc_).defined()
                                ? p.grad(loc_).flatten(0, -1, loc_)
                                : zeros({p.numel(loc_)}, {.dtype = p.dtype(), .device = p.device()}, loc_));
        const Tensor all = cat(parts, 0, loc_);
        return options_.maximize() ? all.neg(loc_) : all;
    }

    void move(const Tensor &direction, double step) {
        int64_t at = 0;
        for (Tensor p : parameters_) {
            const Tensor part = direction.narrow(0, at, p.numel(loc_), loc_).reshape(p.sizes(loc_), loc_);
            p.add_({part, loc_}, step, loc_);
            at += p.numel(loc_);
        }
    }

    /// The two loops over what is remembered.
    void find_direction(History &h, const Tensor &gradient) {
        if (++h.n_iter == 1) {
            h.direction = gradient.neg(loc_);
            h.old_dirs.clear();
            h.old_stps.clear();
            h.ro.clear();
            h.scale = ones({}, {.dtype = gradient.dtype(), .device = gradient.device()}, loc_);
            return;
        }
        const Tensor y = minus(gradient, h.last_gradient), s = h.direction.mul({h.step, loc_}, loc_);
        const Tensor ys = dot(y, s);
        if (ys.item<double>(loc_) > 1e-10) {
            if (static_cast<int64_t>(h.old_dirs.size()) >= options_.history_size()) {
                h.old_dirs.erase(h.old_dirs.begin());
                h.old_stps.erase(h.old_stps.begin());
                h.ro.erase(h.ro.begin());
            }
            h.old_dirs.push_back(y);
            h.old_stps.push_back(s);
            h.ro.push_back(ys.reciprocal(loc_));
            h.scale = ys.div({dot(y, y), loc_}, loc_);
        }
        std::vector<Tensor> al(h.old_dirs.size());
        Tensor q = gradient.neg(loc_);
        for (size_t i = h.old_dirs.size(); i-- > 0;) {
            al[i] = times(dot(h.old_stps[i], q), h.ro[i]);
            q = minus(q, times(h.old_dirs[i], al[i]));
        }
        q = times(q, h.scale);
        for (size_t i = 0; i < h.old_dirs.size(); ++i) {
            const Tensor be = times(dot(h.old_dirs[i], q), h.ro[i]);
            q = q.add({times(h.old_stps[i], minus(al[i], be)), loc_}, loc_);
        }
        h.direction = q;
    }

    const std::vector<Tensor> &parameters_;
    const LBFGSOptions &options_;
    const LossClosure &closure_;
    const Location loc_;
    Tensor loss_;
};

LBFGS::LBFGS(std::vector<Tensor> params, const LBFGSOptions &defaults, Location loc)
    : Optimizer(kLBFGS, {OptimizerParamGroup(std::move(params))}, defaults, loc),
      history_(std::make_unique<History>()) {
    const std::vector<Tensor> &all = param_groups()[0].params();
    for (const Tensor &p : all) {
        if (p.device(loc) != all[0].device(loc))
            throw DeviceError("LBFGS: parameters are on " + all[0].device().str() + " and on " +
                                  p.device().str() + "; all have to be on one device",
                              loc);
        if (p.dtype(loc) != all[0].dtype(loc))
            throw DTypeError(fmt::format("LBFGS: parameters are {} and {}; all have to be of one dtype",
                                         name(all[0].dtype()), name(p.dtype())),
                             loc);
    }
}
LBFGS::~LBFGS() = default;

Tensor LBFGS::run(const LossClosure &closure, Location loc) {
    if (!closure)
        throw StateError(
            "LBFGS: a step calls the loss several times and needs a closure that computes it and its "
            "gradients: optimizer.step([&] { ...; return loss; })",
            loc);
    if (param_groups().size() != 1)
        throw StateError(fmt::format("LBFGS: there are {} groups; it has one", param_groups().size()), loc);
    const auto &options = static_cast<const LBFGSOptions &>(param_groups()[0].options(loc));
    options.check(loc);
    const NoGradGuard no_grad;
    History history = *history_;
    Search search(param_groups()[0].params(), options, closure, loc);
    const std::vector<Tensor> before = search.values();
    try {
        Tensor loss = search.run(history);
        *history_ = std::move(history);
        return loss;
    } catch (...) {
        search.restore(before);
        throw;
    }
}

// --- saving

void LBFGS::save_more(StateDict &state, const std::string &prefix) const {
    const History &h = *history_;
    if (h.func_evals == 0)
        return;
    state.insert(prefix + "func_evals", number_tensor(h.func_evals));
    state.insert(prefix + "n_iter", number_tensor(h.n_iter));
    if (!h.direction.defined())
        return;
    state.insert(prefix + "d", h.direction.detach());
    state.insert(prefix + "t", number_tensor(h.step));
    const auto list = [&](const char *name, const std::vector<Tensor> &all) {
        for (size_t i = 0; i < all.size(); ++i)
            state.insert(fmt::format("{}{}.{}", prefix, name, i), all[i].detach());
    };
    list("old_dirs", h.old_dirs);
    list("old_stps", h.old_stps);
    list("ro", h.ro);
    state.insert(prefix + "H_diag", h.scale.detach());
    state.insert(prefix + "prev_flat_grad", h.last_gradient.detach());
    state.insert(prefix + "prev_loss", number_tensor(h.last_loss));
}

void LBFGS::load_more(const StateDict &entries, Location loc) {
    const std::vector<Tensor> &parameters = param_groups()[0].params();
    int64_t count = 0;
    for (const Tensor &p : parameters)
        count += p.numel(loc);
    Problems problems;
    const NumberReader numbers(entries, problems, loc);
    std::set<std::string> used;
    const auto number = [&](const std::string &name) {
        used.insert(name);
        if (!numbers.has(name))
            problems.missing("state.0." + name);
        return numbers.number(name).value_or(0);
    };
    const auto take = [&](const std::string &name, const Sizes &sizes) {
        used.insert(name);
        const Tensor *const x = entries.find(name);
        if (!x)
            problems.missing("state.0." + name);
        else if (!x->defined() || x->numel(loc) != (sizes.empty() ? 1 : sizes[0]))
            problems.wrong("state.0." + name,
                           fmt::format("(has other than {} elements)", sizes.empty() ? 1 : sizes[0]));
        else
            return x->detach(loc)
                .reshape(sizes, loc)
                .to(parameters[0].device(loc), parameters[0].dtype(loc), loc);
        return Tensor();
    };
    History h;
    if (!entries.empty()) {
        h.func_evals = static_cast<int64_t>(number("func_evals"));
        h.n_iter = static_cast<int64_t>(number("n_iter"));
    }
    if (h.n_iter > 0) {
        h.direction = take("d", {count});
        h.step = number("t");
        h.scale = take("H_diag", {});
        h.last_gradient = take("prev_flat_grad", {count});
        h.last_loss = number("prev_loss");
        for (size_t i = 0; entries.contains(fmt::format("old_dirs.{}", i)); ++i) {
            h.old_dirs.push_back(take(fmt::format("old_dirs.{}", i), {count}));
            h.old_stps.push_back(take(fmt::format("old_stps.{}", i), {count}));
            h.ro.push_back(take(fmt::format("ro.{}", i), {}));
        }
    }
    for (const auto &[name, value] : entries) // PyTorch keeps "al", which each iteration computes anew
        if (!used.contains(name) && name != "al" && !name.starts_with("al."))
            problems.unexpected("state.0." + name);
    problems.check("this LBFGS", loc);
    *history_ = std::move(h);
}

} // namespace lz::optim
