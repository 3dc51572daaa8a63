#pragma once
/// A target whose devices are so slow that small tensors are worth several streams, and so wide that their
/// kernels fill a small part of one: each takes a second.

#include "ir/target.h"

namespace lz::passes {

/// With `peers`, every GPU may address every other's memory.
inline ir::Target slow_target(int gpus, bool peers = true) {
    ir::Target target = ir::test_target(gpus);
    for (ir::DeviceInfo &device : target.devices) {
        device.memory_bandwidth = device.link_bandwidth = device.peer_bandwidth = 1e6;
        device.flops = 1e6;
        device.launch_seconds = device.submit_seconds = 1e-7;
        device.wave_seconds = 1;
        if (peers && device.device.kind == ir::DeviceKind::Cuda)
            for (int i = 0; i < gpus; ++i)
                if (i != device.device.index)
                    device.peers.push_back(static_cast<uint8_t>(i));
    }
    return target;
}

} // namespace lz::passes
