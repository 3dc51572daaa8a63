#pragma once
/// What a virtual GPU would be if it were made of silicon: a few rates, from which VirtualClock computes when
/// things would run.

#include <cstdint>
#include <string>
#include <string_view>

namespace lz::runtime {

/// Rates in bytes or scalar operations a second, times in seconds.
struct VirtualModel {
    std::string name = "model";
    int devices = 0; ///< how many GPUs such a machine has; 0: not said, which makes one

    double memory_bandwidth = 1e12;
    double flops = 2e13;             ///< f32, without tensor cores
    double link_bandwidth = 2.5e10;  ///< between a GPU and pinned memory, each direction
    double pageable_bandwidth = 6e9; ///< the same for memory that is not pinned: the host copies
    double peer_bandwidth = 2.5e10;  ///< between two GPUs, each direction
    double host_bandwidth = 1e11;    ///< the CPU's memory
    double host_flops = 1e12;
    double submit_seconds = 1.5e-6; ///< of the host, for each launch, library call or copy
    double launch_seconds = 3.5e-6; ///< from the end of that until a kernel can start on an idle stream
    double copy_seconds = 5e-6;     ///< likewise for a copy
    /// Of the shortest kernel: a wave of blocks over the device. A kernel that would be over sooner at the
    /// device's full rate fills a part of a wave, and leaves the rest to others.
    double wave_seconds = 2e-6;
    bool peers = true;        ///< whether GPUs can address each other's memory
    int major = 0, minor = 0; ///< compute capability
    int multi_processor_count = 0;

    /// `h100`, `h200`, `b200`, `a100` (connected by NVLink), `l40s`, `rtx4090`, `pcie` (by PCIe, no peer
    /// access), with `x<n>` for n of them: `h200x4`. Else the path of a JSON file: an object with any of the
    /// names above
    /// (`compute_capability` is a pair), over the defaults, or over those of a preset that `base` names.
    /// Throws Failure(State) for what it cannot read, or Failure(Io), in a whole sentence.
    static VirtualModel parse(std::string_view text);
};

} // namespace lz::runtime
