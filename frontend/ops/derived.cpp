// Methods that bear LibTorch's names.
#include "frontend/ops/compose.h"
#include "lazuli/autograd.h"
#include "lazuli/autograd/swap.h"
#include "lazuli/ops.h"

namespace lz {

namespace {

Tensor copied(const Tensor &x, Tensor made, bool copy, Location loc) {
    return copy && made.same_tensor(x) ? made.clone(loc) : made;
}

/// The tensor, for whoever has a handle of it, is from now on what was made of it.
Tensor &become(Tensor &x, Tensor made, const char *function, Location loc) {
    if (x.requires_grad(loc) && !x.is_leaf(loc)) {
        swap_tensors(x, made, loc);
        return x;
    }
    if (x.requires_grad(loc) && GradMode::is_enabled())
        throw StateError(std::string(function) +
                             ": the tensor is a leaf that requires grad, which cannot be changed in place "
                             "while gradients are recorded; change it under a NoGradGuard, or change a "
                             "clone of it",
                         loc);
    return x.set_data(made, loc);
}

} // namespace

Tensor Tensor::to(DType dtype, bool, bool copy, Location loc) const {
    return copied(*this, lz::to(*this, dtype, loc), copy, loc);
}
Tensor Tensor::to(const Device &device, bool non_blocking, bool copy, Location loc) const {
    return copied(*this, lz::to(*this, device, CopyOptions{non_blocking}, loc), copy, loc);
}
Tensor Tensor::to(const Device &device, DType dtype, bool non_blocking, bool copy, Location loc) const {
    return copied(*this, lz::to(*this, device, dtype, CopyOptions{non_blocking}, loc), copy, loc);
}
Tensor Tensor::to(const Tensor &other, bool non_blocking, bool copy, Location loc) const {
    return to(other.device(loc), other.dtype(loc), non_blocking, copy, loc);
}

Tensor &Tensor::unsqueeze_(int64_t axis, Location loc) & {
    loc = detail::in<"unsqueeze_">(loc);
    return become(*this, lz::unsqueeze(*this, axis, loc), "unsqueeze_", loc);
}
Tensor &Tensor::squeeze_(const Sizes &axes, Location loc) & {
    loc = detail::in<"squeeze_">(loc);
    return become(*this, lz::squeeze(*this, axes, loc), "squeeze_", loc);
}
Tensor &Tensor::transpose_(int64_t axis0, int64_t axis1, Location loc) & {
    loc = detail::in<"transpose_">(loc);
    return become(*this, lz::transpose(*this, axis0, axis1, loc), "transpose_", loc);
}
Tensor &Tensor::t_(Location loc) & {
    loc = detail::in<"t_">(loc);
    return become(*this, lz::t(*this, loc), "t_", loc);
}

} // namespace lz
