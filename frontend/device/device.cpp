#include "lazuli/device/device.h"

#include "frontend/engine/engine.h"
#include "frontend/record/record.h"
#include "frontend/record/recorder.h"

#include <charconv>
#include <ostream>

namespace lz {
namespace {

/// `cpu, cuda:0 and cuda:1`.
std::string listed_devices() {
    const std::vector<ir::DeviceInfo> &devices = engine::Engine::get().target().devices;
    std::string text;
    for (size_t i = 0; i < devices.size(); ++i)
        text += (i == 0 ? "" : i + 1 == devices.size() ? " and " : ", ") + ir::to_string(devices[i].device);
    return text;
}

} // namespace

Device::Device(std::string_view text, Location loc) {
    const size_t colon = text.find(':');
    const std::string_view kind = text.substr(0, colon);
    int index = -1;
    bool is_valid = kind == "cpu" || kind == "cuda";
    if (is_valid && colon != std::string_view::npos) {
        const char *const end = text.data() + text.size();
        const auto [at, error] = std::from_chars(text.data() + colon + 1, end, index);
        is_valid = error == std::errc() && at == end && index >= 0;
    }
    if (!is_valid)
        throw DeviceError(
            "Device: \"" + std::string(text) + "\" is not a device; write cpu, cuda or cuda:<index>", loc);
    if (kind == "cpu" && index > 0)
        throw DeviceError("Device: \"" + std::string(text) +
                              "\" is not there: all of the host is one device; write cpu",
                          loc);
    if (kind == "cuda")
        *this = cuda(index);
}

std::string Device::str() const {
    if (is_cpu())
        return "cpu";
    return index_ == -1 ? "cuda" : "cuda:" + std::to_string(index_);
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
    return index >= 0 && index < cuda::device_count() ? Device::cuda(index) : Device::cpu();
}

std::vector<Device> try_all_gpus() {
    std::vector<Device> devices;
    for (int i = 0; i < cuda::device_count(); ++i)
        devices.push_back(Device::cuda(i));
    if (devices.empty())
        devices.push_back(Device::cpu());
    return devices;
}

namespace detail {

ir::Device to_ir(const Device &device, Location loc) {
    if (device.is_cpu())
        return ir::kCpu;
    const int index = device.index() == -1 ? Recorder::current().current_gpu() : device.index();
    if (index >= 0 && index < cuda::device_count())
        return {ir::DeviceKind::Cuda, static_cast<uint8_t>(index)};
    const std::string &why = engine::Engine::get().why_no_gpu();
    throw DeviceError(why.empty()
                          ? "There is no device " + device.str() + ": the devices are " + listed_devices()
                          : "There is no device " + device.str() + ": the only device is cpu. " + why,
                      loc);
}

} // namespace detail
} // namespace lz
