#pragma once
/// Devices: the CPU, and the GPUs `cuda:0`, `cuda:1`, ... (virtual ones too: cuda.h).

#include "lazuli/core/export.h"
#include "lazuli/core/location.h"

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace lz {

/// What kind of device: the CPU, or a GPU (virtual ones too).
enum class DeviceType : uint8_t { Cpu, Cuda };
inline constexpr DeviceType kCPU = DeviceType::Cpu;   ///< LibTorch's name
inline constexpr DeviceType kCUDA = DeviceType::Cuda; ///< LibTorch's name

/// A place where tensors live. `Device("cuda")` has no index yet: it means the current GPU of the thread that
/// uses it. Asking for a device that is not there throws DeviceError at its use, not here.
class LZ_API Device {
public:
    constexpr Device() = default; ///< the CPU
    /// A GPU by its index; -1: the current one.
    constexpr Device(DeviceType type, int index = -1)
        : type_(type), index_(type == DeviceType::Cpu ? 0 : index) {}
    /// A GPU by its index, as in PyTorch: `x.to(0)`, `get_device_properties(0)`. Of an `int` alone: 0 would
    /// be a null pointer else.
    template <std::same_as<int> Index>
    constexpr Device(Index index) : Device(DeviceType::Cuda, index) {}
    /// `cpu`, `cpu:0`, `cuda`, `cuda:1`. Throws DeviceError for anything else, a null pointer
    /// among it.
    Device(std::string_view text, Location loc = Location::current());
    Device(const char *text, Location loc = Location::current())
        : Device(text ? std::string_view(text) : std::string_view("(null)"), loc) {}
    Device(const std::string &text, Location loc = Location::current())
        : Device(std::string_view(text), loc) {}

    /// The CPU.
    static constexpr Device cpu() { return {}; }
    /// A GPU by its index; -1: the current one.
    static constexpr Device cuda(int index = -1) { return {DeviceType::Cuda, index}; }

    /// CPU or GPU.
    constexpr DeviceType type() const { return type_; }
    /// -1: the current GPU.
    constexpr int index() const { return index_; }
    /// Whether it is a GPU that its index names, and not the current one. False for the CPU.
    constexpr bool has_index() const { return is_cuda() && index_ >= 0; }
    /// Whether it is the CPU.
    constexpr bool is_cpu() const { return type_ == DeviceType::Cpu; }
    /// Whether it is a GPU.
    constexpr bool is_cuda() const { return type_ == DeviceType::Cuda; }
    /// `cpu`, `cuda` or `cuda:1`.
    std::string str() const;

    friend constexpr bool operator==(const Device &, const Device &) = default;

private:
    DeviceType type_ = DeviceType::Cpu;
    int index_ = 0;
};
/// Prints `str()`.
LZ_API std::ostream &operator<<(std::ostream &out, const Device &device);

namespace cuda {
/// Whether there is a GPU.
LZ_API bool is_available();
/// 0 where there is none.
LZ_API int device_count();
} // namespace cuda

/// `cuda:index` where there is such a GPU, else the CPU (S10).
LZ_API Device try_gpu(int index = 0);
/// Every GPU, or the CPU alone where there is none; never empty.
LZ_API std::vector<Device> try_all_gpus();

} // namespace lz

template <>
struct std::hash<lz::Device> {
    size_t operator()(const lz::Device &d) const noexcept {
        return static_cast<size_t>(d.type()) * 256 + static_cast<size_t>(d.index() + 1);
    }
};
