#include "frontend/ops/autocast/autocast.h"

#include "lazuli/autocast.h"

#include <algorithm>

namespace lz {

namespace detail {

constinit thread_local AutocastMode Autocasting::mode_;

namespace {

size_t kind_of(const ir::TensorType &type) {
    return type.device == ir::kCpu ? 0 : 1;
}

/// Whether autocast may change it.
bool is_eligible(const Tensor &x) {
    if (!x.defined())
        return false;
    const ir::TensorType &t = type(x);
    return ir::is_float(t.dtype) && t.dtype != ir::DType::F64 && Autocasting::mode().enabled[kind_of(t)];
}

} // namespace

void autocast_operands(CastPolicy policy, std::span<Tensor> operands, Location loc) {
    const bool has_single = std::ranges::any_of(
        operands, [](const Tensor &x) { return is_eligible(x) && type(x).dtype == ir::DType::F32; });
    for (Tensor &x : operands) {
        if (!is_eligible(x))
            continue;
        const bool single = policy == CastPolicy::Single || (policy == CastPolicy::Widest && has_single);
        x = cast(x, single ? ir::DType::F32 : Autocasting::mode().dtype[kind_of(type(x))], loc);
    }
}

} // namespace detail

namespace {

size_t index_of(DeviceType type) {
    return type == DeviceType::Cpu ? 0 : 1;
}

void check_dtype(DType dtype, Location loc) {
    if (dtype != f16 && dtype != bf16)
        throw DTypeError("autocast: the dtype is " + std::string(name(dtype)) +
                             "; it is f16 or bf16, in which products are computed",
                         loc);
}

} // namespace

bool is_autocast_enabled(DeviceType type) {
    return detail::Autocasting::mode().enabled[index_of(type)];
}

DType autocast_dtype(DeviceType type) {
    return detail::from_ir(detail::Autocasting::mode().dtype[index_of(type)]);
}

AutocastGuard::AutocastGuard(DType dtype, bool enabled, Location loc) {
    check_dtype(dtype, loc);
    set(DeviceType::Cpu, dtype, enabled);
    set(DeviceType::Cuda, dtype, enabled);
}

AutocastGuard::AutocastGuard(DeviceType type, DType dtype, bool enabled, Location loc) {
    check_dtype(dtype, loc);
    set(type, dtype, enabled);
    const DeviceType other = type == DeviceType::Cpu ? DeviceType::Cuda : DeviceType::Cpu;
    set(other, autocast_dtype(other), is_autocast_enabled(other));
}

void AutocastGuard::set(DeviceType type, DType dtype, bool enabled) {
    const size_t i = index_of(type);
    detail::AutocastMode &mode = detail::Autocasting::mode();
    before_[i] = {mode.enabled[i], detail::from_ir(mode.dtype[i])};
    mode.enabled[i] = enabled;
    mode.dtype[i] = detail::to_ir(dtype);
    mode.on = mode.enabled[0] || mode.enabled[1];
}

AutocastGuard::~AutocastGuard() {
    detail::AutocastMode &mode = detail::Autocasting::mode();
    for (size_t i = 0; i < 2; ++i) {
        mode.enabled[i] = before_[i].enabled;
        mode.dtype[i] = detail::to_ir(before_[i].dtype);
    }
    mode.on = mode.enabled[0] || mode.enabled[1];
}

} // namespace lz
