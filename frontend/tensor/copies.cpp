// Copies between devices and dtypes, and pinned memory.
#include "frontend/autograd/attach.h"
#include "frontend/ops/compose.h"
#include "frontend/record/sync/sync.h"
#include "lazuli/ops/views.h"

#include <cstring>
#include <string>

namespace lz {

using detail::Op;

namespace detail {

Tensor in_pinned_memory(const Tensor &made, Location loc) {
    Node *const node = Access::node(made);
    if (node->pinned)
        return made;
    if (node->pending()) { // nobody else knows it yet
        node->pinned = true;
        return made;
    }
    // It has run already: launch blocking, or a pending graph that was cut here.
    const Storage *const from = materialize_now(node, loc);
    Storage *const to = allocate_on_host(from->bytes, true, loc);
    std::memcpy(to->data(), from->data(), static_cast<size_t>(from->bytes));
    Tensor copy = make_ready(type(made), to, loc);
    share_history(copy, made);
    return copy;
}

void check_pinned(ir::Device device, const char *function, Location loc) {
    if (device != ir::kCpu)
        throw DeviceError(std::string(function) + ": only memory of the host can be pinned, not that of " +
                              ir::to_string(device),
                          loc);
    if (!cuda::is_available())
        throw DeviceError(std::string(function) + ": pinned memory is page-locked for a GPU. " +
                              engine::Engine::get().why_no_gpu(),
                          loc);
}

} // namespace detail

Tensor to(const Tensor &x, DType dtype, Location loc) {
    loc = detail::in<"to">(loc);
    detail::checked_type(x, "to", loc);
    return detail::cast(x, detail::to_ir(dtype), loc);
}
Tensor to(const Tensor &x, const Device &device, const CopyOptions &options, Location loc) {
    loc = detail::in<"to">(loc);
    const ir::TensorType &type = detail::checked_type(x, "to", loc);
    const ir::Device target = detail::to_ir(device, loc);
    if (type.device == target)
        return x;
    const Tensor moved =
        detail::record(Op::Transfer, {&x}, detail::Words().word(ir::device_word(target)), loc);
    return target == ir::kCpu && options.non_blocking ? detail::in_pinned_memory(moved, loc) : moved;
}
Tensor to(const Tensor &x, const Device &device, Location loc) {
    return to(x, device, CopyOptions{}, loc);
}
// Converted where it is smaller, so that fewer bytes travel.
Tensor to(const Tensor &x, const Device &device, DType dtype, const CopyOptions &options, Location loc) {
    loc = detail::in<"to">(loc);
    const ir::DType from = detail::checked_type(x, "to", loc).dtype;
    if (ir::size_of(detail::to_ir(dtype)) <= ir::size_of(from))
        return to(to(x, dtype, loc), device, options, loc);
    const Tensor converted = to(to(x, device, loc), dtype, loc);
    return converted.device().is_cpu() && x.is_cuda() && options.non_blocking
               ? detail::in_pinned_memory(converted, loc)
               : converted;
}
Tensor to(const Tensor &x, const Device &device, DType dtype, Location loc) {
    return to(x, device, dtype, CopyOptions{}, loc);
}

Tensor pin_memory(const Tensor &x, Location loc) {
    loc = detail::in<"pin_memory">(loc);
    detail::check_pinned(detail::checked_type(x, "pin_memory", loc).device, "pin_memory", loc);
    return x.is_pinned() ? x : detail::in_pinned_memory(detail::fresh(x, loc), loc);
}

} // namespace lz
