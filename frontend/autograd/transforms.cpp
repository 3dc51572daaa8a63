#include "lazuli/autograd/transforms.h"

#include "frontend/autograd/backward.h"
#include "frontend/ops/compose.h"
#include "lazuli/autograd.h"
#include "lazuli/ops/creation.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/views.h"

#include <string>

namespace lz {
namespace {

/// Tensors of the same values that gradients are wanted of. Where one has a history, the gradients can be
/// differentiated with respect to what that comes from.
std::vector<Tensor> variables(const std::vector<Tensor> &at, const char *function, Location loc) {
    std::vector<Tensor> out;
    for (const Tensor &x : at) {
        detail::checked_type(x, function, loc);
        if (x.requires_grad(loc))
            out.push_back(detail::fresh(x, loc)); // its own step: what is asked for ends here
        else
            out.push_back(x.detach(loc).requires_grad_(true, loc));
    }
    return out;
}

std::vector<Tensor> gradients(const Tensor &output, const std::vector<Tensor> &inputs, const Tensor &weight,
                              bool create_graph, const char *function, Location loc) {
    std::vector<Tensor> found;
    if (output.requires_grad(loc))
        found = detail::run_backward({&output, 1}, {&weight, 1}, inputs,
                                     {.retain_graph = true,
                                      .create_graph = create_graph,
                                      .accumulate = false,
                                      .allow_unused = true,
                                      .function = function},
                                     loc);
    found.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) // f may not depend on it
        if (!found[i].defined())
            found[i] = zeros_like(inputs[i], {}, loc);
    return found;
}

/// Whether anything that the results may be differentiated by is among these.
bool any_requires_grad(const std::vector<Tensor> &tensors) {
    return std::ranges::any_of(tensors, [](const Tensor &x) { return x.requires_grad(); });
}

Tensor one_number(const Tensor &value, const char *function, Location loc) {
    const ir::TensorType &type = detail::checked_type(value, function, loc);
    if (type.numel() != 1)
        throw StateError(std::string(function) + ": the function gave " + detail::text(type) +
                             "; it must give one number",
                         loc);
    return value;
}

/// d y[i] / d x[j], of a y that was computed from x.
Tensor rows(const Tensor &y, const Tensor &x, bool create_graph, const char *function, Location loc) {
    const int64_t count = y.numel(loc);
    const Sizes of = y.sizes(loc);
    std::vector<Tensor> out;
    const Tensor none = zeros_like(y, {}, loc).reshape({count}, loc);
    for (int64_t i = 0; i < count; ++i) {
        Tensor one = none.clone(loc);
        one.at(i, loc) = Operand(1, loc);
        out.push_back(gradients(y, {x}, one.reshape(of, loc), create_graph, function, loc)[0]);
    }
    Sizes shape = of;
    for (const int64_t extent : x.sizes(loc))
        shape.push_back(extent);
    return out.empty() ? zeros(shape, {.dtype = x.dtype(loc), .device = x.device(loc)}, loc)
                       : stack(out, 0, loc).reshape(shape, loc);
}

} // namespace

std::pair<Tensor, std::vector<Tensor>> detail::value_and_grad(const TensorFunction &f,
                                                              const std::vector<Tensor> &at, Location loc) {
    loc = in<"value_and_grad">(loc);
    const AutoGradMode on(true);
    const std::vector<Tensor> x = variables(at, "value_and_grad", loc);
    Tensor value = one_number(f(x), "value_and_grad", loc);
    std::vector<Tensor> found = gradients(value, x, {}, any_requires_grad(at), "value_and_grad", loc);
    return {any_requires_grad(at) ? value : value.detach(loc), std::move(found)};
}

std::pair<Tensor, std::vector<Tensor>> vjp(const TensorFunction &f, const std::vector<Tensor> &at,
                                           const Tensor &v, Location loc) {
    loc = detail::in<"vjp">(loc);
    const AutoGradMode on(true);
    const std::vector<Tensor> x = variables(at, "vjp", loc);
    const Tensor value = f(x);
    const bool more = any_requires_grad(at);
    std::vector<Tensor> found = gradients(value, x, v, more, "vjp", loc);
    return {more ? value : value.detach(loc), std::move(found)};
}

std::pair<Tensor, Tensor> jvp(const TensorFunction &f, const std::vector<Tensor> &at,
                              const std::vector<Tensor> &tangents, Location loc) {
    loc = detail::in<"jvp">(loc);
    if (tangents.size() != at.size())
        throw StateError("jvp: " + std::to_string(tangents.size()) + " tangents are given for " +
                             std::to_string(at.size()) + " arguments",
                         loc);
    const AutoGradMode on(true);
    const std::vector<Tensor> x = variables(at, "jvp", loc);
    const Tensor value = f(x);
    const bool more = any_requires_grad(at);
    // v -> v^T J is linear in v, and its gradient at any v, weighed by t, is J t.
    const Tensor v = zeros_like(value, {}, loc).requires_grad_(true, loc);
    const std::vector<Tensor> pulled = gradients(value, x, v, true, "jvp", loc);
    Tensor sum;
    for (size_t i = 0; i < x.size(); ++i) {
        const ir::TensorType &type = detail::checked_type(tangents[i], "jvp", loc);
        if (!(type.shape == detail::type(x[i]).shape))
            throw ShapeError("jvp: tangent " + std::to_string(i) + " is " + detail::text(type) +
                                 " and its argument " + detail::text(detail::type(x[i])),
                             loc);
        const Tensor part =
            lz::sum(mul({pulled[i], loc}, {tangents[i], loc}, loc), {}, false, std::nullopt, loc);
        sum = sum.defined() ? add({sum, loc}, {part, loc}, loc) : part;
    }
    Tensor pushed = sum.defined() ? gradients(sum, {v}, {}, more, "jvp", loc)[0] : zeros_like(value, {}, loc);
    return {more ? value : value.detach(loc), more ? pushed : pushed.detach(loc)};
}

Tensor jacobian(const std::function<Tensor(const Tensor &)> &f, const Tensor &x, Location loc) {
    loc = detail::in<"jacobian">(loc);
    const AutoGradMode on(true);
    const bool more = x.requires_grad(loc);
    const Tensor at = variables({x}, "jacobian", loc)[0];
    return rows(f(at), at, more, "jacobian", loc);
}

Tensor hessian(const std::function<Tensor(const Tensor &)> &f, const Tensor &x, Location loc) {
    loc = detail::in<"hessian">(loc);
    const AutoGradMode on(true);
    const bool more = x.requires_grad(loc);
    const Tensor at = variables({x}, "hessian", loc)[0];
    const Tensor value = one_number(f(at), "hessian", loc);
    const Tensor slope = gradients(value, {at}, {}, true, "hessian", loc)[0];
    return rows(slope, at, more, "hessian", loc);
}

} // namespace lz
