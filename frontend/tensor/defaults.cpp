#include "lazuli/core/defaults.h"

#include "frontend/ops/compose.h"
#include "ir/host/hot_tls.h"

#include <atomic>
#include <string>

namespace lz {
namespace {

std::atomic<DType> process_dtype{DType::F32};
std::atomic<Device> process_device{Device{}};
LZ_HOT_TLS constinit thread_local std::optional<DType> scope_dtype;
LZ_HOT_TLS constinit thread_local std::optional<Device> scope_device;

void check_default(DType dtype, const char *function, Location loc) {
    if (!is_floating_point(dtype))
        throw DTypeError(std::string(function) + ": " + std::string(name(dtype)) +
                             " cannot be the default dtype; it must be f16, bf16, f32 or f64",
                         loc);
}

} // namespace

void set_default_dtype(DType dtype, Location loc) {
    check_default(dtype, "set_default_dtype", loc);
    process_dtype.store(dtype, std::memory_order_relaxed);
}
DType get_default_dtype() {
    return scope_dtype ? *scope_dtype : process_dtype.load(std::memory_order_relaxed);
}

void set_default_device(const Device &device, Location loc) {
    detail::to_ir(device, loc); // throws when it is not there
    process_device.store(device, std::memory_order_relaxed);
}
Device get_default_device() {
    return scope_device ? *scope_device : process_device.load(std::memory_order_relaxed);
}

DefaultDTypeGuard::DefaultDTypeGuard(DType dtype, Location loc) : before_(scope_dtype) {
    check_default(dtype, "DefaultDTypeGuard", loc);
    scope_dtype = dtype;
}
DefaultDTypeGuard::~DefaultDTypeGuard() {
    scope_dtype = before_;
}

DefaultDeviceGuard::DefaultDeviceGuard(const Device &device, Location loc) : before_(scope_device) {
    detail::to_ir(device, loc);
    scope_device = device;
}
DefaultDeviceGuard::~DefaultDeviceGuard() {
    scope_device = before_;
}

namespace detail {

ir::DType default_dtype() {
    return to_ir(get_default_dtype());
}
ir::Device default_device(Location loc) {
    return to_ir(get_default_device(), loc);
}

namespace {

ResolvedOptions checked(const ResolvedOptions &resolved, const char *function, Location loc) {
    if (resolved.pinned)
        check_pinned(resolved.device, function, loc);
    return resolved;
}

} // namespace

ResolvedOptions resolve(const TensorOptions &options, const char *function, Location loc) {
    // What is pinned is the host's, whatever the default device.
    const ir::Device device = options.device   ? to_ir(*options.device, loc)
                              : options.pinned ? ir::kCpu
                                               : default_device(loc);
    return checked({options.dtype ? to_ir(*options.dtype) : default_dtype(), device, options.pinned,
                    options.requires_grad},
                   function, loc);
}

ResolvedOptions resolve_like(const Tensor &x, const TensorOptions &options, const char *function,
                             Location loc) {
    const ir::TensorType &like = checked_type(x, function, loc);
    return checked({options.dtype ? to_ir(*options.dtype) : like.dtype,
                    options.device ? to_ir(*options.device, loc) : like.device, options.pinned,
                    options.requires_grad},
                   function, loc);
}

} // namespace detail
} // namespace lz
