#include "lazuli/device.h"

#include "engine/engine.h"
#include "lazuli/detail/recorder.h"

#include <charconv>
#include <ostream>

namespace lz {
namespace {

std::string listed_devices() {
    std::string text;
    for (const ir::DeviceInfo &info : engine::Engine::get().target().devices)
        text += (text.empty() ? "" : ", ") + ir::to_string(info.device);
    return text;
}

} // namespace

Device::Device(std::string_view text, Location loc) {
    if (text == "cpu")
        return;
    if (text.starts_with("cuda")) {
        const std::string_view rest = text.substr(4);
        int index = -1;
        if (rest.empty()) {
            *this = cuda();
            return;
        }
        const char *const end = rest.data() + rest.size();
        if (rest[0] == ':' && rest.size() > 1) {
            const auto [at, error] = std::from_chars(rest.data() + 1, end, index);
            if (error == std::errc() && at == end && index >= 0 && index < 256) {
                *this = cuda(index);
                return;
            }
        }
    }
    throw DeviceError(
        "Device: \"" + std::string(text) + "\" is not a device; write cpu, cuda or cuda:<index>", loc);
}

std::string Device::str() const {
    if (is_cpu())
        return "cpu";
    return index_ < 0 ? "cuda" : "cuda:" + std::to_string(index_);
}

std::ostream &operator<<(std::ostream &out, const Device &device) {
    return out << device.str();
}

namespace cuda {

int device_count() {
    return static_cast<int>(engine::Engine::get().target().devices.size()) - 1;
}
bool is_available() {
    return device_count() > 0;
}

} // namespace cuda

Device try_gpu(int index) {
    return index < cuda::device_count() ? Device::cuda(index) : Device::cpu();
}

namespace detail {

ir::Device to_ir(const Device &device, Location loc) {
    if (device.is_cpu())
        return ir::kCpu;
    const int index = device.index() < 0 ? 0 : device.index();
    if (index >= cuda::device_count())
        throw DeviceError("device " + device.str() + " is not there; the devices are: " + listed_devices() +
                              (cuda::device_count() == 0 ? " (this build of Lazuli has no GPU backend)" : ""),
                          loc);
    return {ir::DeviceKind::Cuda, static_cast<uint8_t>(index)};
}

Device from_ir(ir::Device device) {
    return device.kind == ir::DeviceKind::Cpu ? Device::cpu() : Device::cuda(device.index);
}

} // namespace detail
} // namespace lz
