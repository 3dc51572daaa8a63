#include "ir/target.h"

#include "ir/diagnostic.h"

#include <bit>

namespace lz::ir {

const DeviceInfo &Target::device(Device d) const {
    for (const DeviceInfo &found : devices)
        if (found.device == d)
            return found;
    throw Failure(ErrorKind::Device, "The target has no device " + to_string(d) + ".");
}

std::string Target::fingerprint() const {
    std::string text = cpu.triple + "|" + cpu.features;
    const auto number = [&](const char *what, int64_t value) {
        text += '|';
        text += what;
        text += std::to_string(value);
    };
    number("vector", cpu.vector_bytes);
    number("registers", cpu.vector_registers);
    number("fma", cpu.fma);
    number("avx512", cpu.avx512);
    number("avx512_bf16", cpu.avx512_bf16);
    number("amx_bf16", cpu.amx_bf16);
    for (const DeviceInfo &d : devices) {
        text += "|" + to_string(d.device);
        number("memory", d.memory_bytes);
        number("cache", d.cache_bytes);
        for (const uint8_t peer : d.peers)
            number("peer", peer);
        for (const double estimate :
             {d.memory_bandwidth, d.flops, d.link_bandwidth, d.peer_bandwidth, d.launch_seconds})
            number("", std::bit_cast<int64_t>(estimate));
    }
    number("threads", threads);
    number("fuse", modes.fuse);
    number("fast_math", modes.fast_math);
    number("streaming", modes.streaming_stores);
    number("transfer", static_cast<int64_t>(modes.transfer));
    number("scalar_ops", max_scalar_ops);
    number("operands", max_operands);
    return text;
}

Target test_target() {
    Target t;
    t.cpu.triple = "x86_64-unknown-linux-gnu";
    t.cpu.features = "+avx,+avx2,+avx512bw,+avx512dq,+avx512f,+avx512vl,+f16c,+fma";
    t.cpu.vector_bytes = 64;
    t.cpu.vector_registers = 32;
    t.cpu.fma = true;
    t.cpu.avx512 = true;
    t.devices.push_back({kCpu, int64_t{8} << 30, int64_t{32} << 20, {}});
    t.threads = 2;
    t.modes.verify = true;
    return t;
}

} // namespace lz::ir
