#include "ir/target.h"

#include <algorithm>
#include <bit>

namespace lz::ir {

const DeviceInfo *Target::find(Device d) const {
    for (const DeviceInfo &found : devices)
        if (found.device == d)
            return &found;
    return nullptr;
}

const DeviceInfo &Target::device(Device d) const {
    if (const DeviceInfo *found = find(d))
        return *found;
    throw missing_device(d);
}

bool Target::may_access(Device who, Device whose) const {
    if (who.kind != DeviceKind::Cuda || whose.kind != DeviceKind::Cuda)
        return false;
    const DeviceInfo *info = find(who);
    return info && std::ranges::find(info->peers, whose.index) != info->peers.end();
}

Failure Target::missing_device(Device asked) const {
    std::string text = "There is no device " + to_string(asked) + ": ";
    if (devices.size() == 1) {
        text += "the only device is " + to_string(devices[0].device);
    } else {
        text += "the devices are ";
        for (size_t i = 0; i < devices.size(); ++i)
            text += (i == 0 ? "" : i + 1 == devices.size() ? " and " : ", ") + to_string(devices[i].device);
    }
    text += '.';
    if (devices.size() == 1 && !no_gpu.empty())
        text += ' ' + no_gpu;
    return {ErrorKind::Device, text};
}

double Target::transfer_seconds(Device from, Device to, int64_t bytes) const {
    if (from == to)
        return 0;
    const auto n = static_cast<double>(bytes);
    const auto link = [&](Device d) { return n / device(d).link_bandwidth; };
    if (from == kCpu || to == kCpu)
        return link(from == kCpu ? to : from);
    return are_peers(from, to) ? n / std::min(device(from).peer_bandwidth, device(to).peer_bandwidth)
                               : link(from) + link(to);
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
        std::vector<uint8_t> peers = d.peers; // a set
        std::ranges::sort(peers);
        for (const uint8_t peer : peers)
            number("peer", peer);
        for (const double estimate : {d.memory_bandwidth, d.flops, d.link_bandwidth, d.peer_bandwidth,
                                      d.launch_seconds, d.submit_seconds, d.wave_seconds})
            number("", std::bit_cast<int64_t>(estimate));
        text += d.library ? "|library " + std::string(d.library->kind) : "";
    }
    number("threads", threads);
    number("fuse", modes.fuse);
    number("fast_math", modes.fast_math);
    number("streaming", modes.streaming_stores);
    number("verify", modes.verify);
    number("transfer", static_cast<int64_t>(modes.transfer));
    number("scalar_ops", max_scalar_ops);
    number("operands", max_operands);
    return text;
}

Target test_target(int gpus) {
    Target t;
    t.cpu.triple = "x86_64-unknown-linux-gnu";
    t.cpu.features = "+avx,+avx2,+avx512bw,+avx512dq,+avx512f,+avx512vl,+f16c,+fma";
    t.cpu.vector_bytes = 64;
    t.cpu.vector_registers = 32;
    t.cpu.fma = true;
    t.cpu.avx512 = true;
    DeviceInfo &cpu = t.devices.emplace_back();
    cpu.memory_bytes = int64_t{8} << 30;
    cpu.cache_bytes = int64_t{32} << 20;
    for (int i = 0; i < gpus; ++i) {
        DeviceInfo &gpu = t.devices.emplace_back();
        gpu.device = {DeviceKind::Cuda, static_cast<uint8_t>(i)};
        gpu.memory_bytes = int64_t{141} << 30;
        gpu.cache_bytes = int64_t{50} << 20;
        gpu.memory_bandwidth = 4.8e12;
        gpu.flops = 6.7e13;
        gpu.link_bandwidth = 5.5e10;
        gpu.peer_bandwidth = 4.5e11;
        gpu.launch_seconds = 3e-6;
        gpu.submit_seconds = 1e-6;
    }
    t.threads = 2;
    t.modes.verify = true;
    return t;
}

} // namespace lz::ir
