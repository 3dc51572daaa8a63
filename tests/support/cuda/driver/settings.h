#pragma once
/// What the environment says (fake_cuda.h lists the variables), read once.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lz::fake_cuda {

struct Settings {
    /// Of each device that CUDA_VISIBLE_DEVICES leaves, in its order: 90 for 9.0.
    std::vector<int> capabilities;
    int devices() const { return static_cast<int>(capabilities.size()); }
    size_t memory = size_t{4} << 30;
    bool peers = true;
    bool vmm = true; ///< virtual memory management
    int version = 0;
    bool version_is_set = false; ///< else it reads whatever an NVRTC writes, newer ones too
    uint64_t seed = 0;
    unsigned delay_us = 300;
    unsigned threads = 1;
    unsigned deadlock_ms = 60000;
    bool log = false;
    std::string fail; ///< function:nth:error
};

const Settings &settings();

} // namespace lz::fake_cuda
