#pragma once
/// What is the same in the public headers and in `ir`.

#include "ir/location.h"
#include "ir/types/type.h"
#include "lazuli/core/dtype.h"
#include "lazuli/core/location.h"
#include "lazuli/device/device.h"

namespace lz::detail {

/// Public to internal and back; the enums are equal by static_assert.
constexpr ir::DType to_ir(DType t) {
    return static_cast<ir::DType>(t);
}
constexpr DType from_ir(ir::DType t) {
    return static_cast<DType>(t);
}
inline Device from_ir(ir::Device device) {
    return device.kind == ir::DeviceKind::Cpu ? Device::cpu() : Device::cuda(device.index);
}
constexpr ir::Location to_ir(Location loc) {
    return {loc.file, loc.line, loc.function, loc.call};
}
constexpr Location from_ir(ir::Location loc) {
    Location out(loc.file, loc.line);
    out.function = loc.function;
    out.call = loc.call;
    return out;
}

} // namespace lz::detail
