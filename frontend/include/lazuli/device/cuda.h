#pragma once
/// GPUs: which there are, which is the current one, and what they can reach. "GPU" is a CUDA device or a
/// virtual one; both are `cuda:N` and behave alike.

#include "lazuli/device/device.h"

#include <cstdint>
#include <optional>
#include <string>

namespace lz {

/// What `use_virtual_gpus` may be told.
struct VirtualGpuOptions {
    int64_t memory_bytes = 0; ///< of each; 0: a share of the host's
    /// Hardware whose times a virtual clock keeps (`h200`, `h200x4`, or the path of a JSON file); empty: the
    /// host's own clock.
    std::string model = {};
};

/// Makes `cuda:0` to `cuda:count-1` out of threads of the host, for this process. To be called before the
/// first tensor is made or device asked for: throws StateError afterwards, and DeviceError for a
/// count that is not 0 to 16, a negative number of bytes, a model that is not known or whose file cannot
/// be read or is wrong, and where the system has no room for them; then nothing has been asked for. Variables
/// of the environment (LAZULI_VIRTUAL_GPUS, LAZULI_VIRTUAL_MEMORY, LAZULI_VIRTUAL_MODEL) win over what is
/// said here.
LZ_API void use_virtual_gpus(int count, const VirtualGpuOptions &options = {},
                             Location loc = Location::current());

namespace cuda {

/// Index of the GPU that `cuda` means to the calling thread: 0 at its start (S03).
LZ_API int current_device();
/// From now on, for this thread. Throws DeviceError for a GPU that is not there.
LZ_API void set_device(int index, Location loc = Location::current());
LZ_API void set_device(const Device &device, Location loc = Location::current());

/// Another current GPU for this thread until the end of the scope. With a CPU device it changes nothing, so
/// that one source runs on both.
class LZ_API DeviceGuard {
public:
    /// Throws DeviceError for a GPU that is not there.
    explicit DeviceGuard(int index, Location loc = Location::current());
    /// The same of a device; of the CPU it changes nothing.
    explicit DeviceGuard(const Device &device, Location loc = Location::current());
    ~DeviceGuard();
    DeviceGuard(const DeviceGuard &) = delete;
    DeviceGuard &operator=(const DeviceGuard &) = delete;

private:
    int before_;
};

/// What a GPU is.
struct DeviceProperties {
    /// As people call it.
    std::string name;
    /// Whether threads of the host play it.
    bool is_virtual = false;
    int64_t total_memory = 0; ///< bytes
    int major = 0, minor = 0; ///< compute capability
    /// Multiprocessors (SMs).
    int multi_processor_count = 0;
    /// Copies that it can make at a time.
    int copy_engines = 0;
};
/// Of a GPU, the current one unless told. Throws DeviceError for one that is not there.
LZ_API DeviceProperties get_device_properties(const Device &device = Device::cuda(),
                                              Location loc = Location::current());
/// Its name.
LZ_API std::string get_device_name(const Device &device = Device::cuda(), Location loc = Location::current());

/// What of CUDA was found (the driver, NVRTC, what makes products; their versions and files), or why it
/// cannot be used, in whole sentences. Empty where virtual GPUs stand in for it. Where there are GPUs, the
/// first call opens cuBLASLt, which can take a second.
LZ_API std::string availability();

/// Whether `device` could address the memory of `peer`: two different GPUs with a link between them (S12).
LZ_API bool can_device_access_peer(const Device &device, const Device &peer,
                                   Location loc = Location::current());
/// Lets `device` address the memory of `peer`, as in CUDA: operations that run on `device` may then take
/// tensors of `peer` (S07). It is one direction; operations on `peer` that take tensors of `device` need a
/// call of their own. A copy between two GPUs needs neither: it goes straight where one of them may address
/// the other's memory, whichever that is, and else through pinned memory of the host. Read when a graph is
/// compiled. Throws DeviceError where there is no link.
LZ_API void enable_peer_access(const Device &device, const Device &peer, Location loc = Location::current());
/// Takes back what enable_peer_access allowed.
LZ_API void disable_peer_access(const Device &device, const Device &peer, Location loc = Location::current());

/// Launches everything pending on this thread and waits for all streams of the device. For the CPU: `sync()`.
LZ_API void synchronize(const Device &device = Device::cuda(), Location loc = Location::current());

} // namespace cuda
} // namespace lz
