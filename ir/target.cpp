#include "ir/target.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string_view>
#include <utility>

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

bool DeviceInfo::has_function(std::string_view symbol) const {
    return library ? library->find(symbol) != nullptr : !runs_cuda();
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

void Target::set_threads(int threads) {
    for (DeviceInfo &d : devices)
        if (!d.runs_cuda())
            d.cpu().threads = threads;
}

namespace {

/// Text in which every field has its place.
class Fields {
public:
    void text(std::string_view what, std::string_view value) {
        text_ += '|';
        text_ += what;
        text_ += value;
    }
    void number(std::string_view what, int64_t value) { text(what, std::to_string(value)); }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

void add(Fields &fields, const CpuLimits &cpu) {
    fields.text("cpu ", cpu.isa.triple);
    fields.text("", cpu.isa.features);
    fields.number("vector", cpu.isa.vector_bytes);
    fields.number("registers", cpu.isa.vector_registers);
    fields.number("l1", cpu.isa.l1_bytes);
    fields.number("fma", cpu.isa.fma);
    fields.number("avx512", cpu.isa.avx512);
    fields.number("avx512_bf16", cpu.isa.avx512_bf16);
    fields.number("avx512_vnni", cpu.isa.avx512_vnni);
    fields.number("amx_bf16", cpu.isa.amx_bf16);
    fields.number("amx_int8", cpu.isa.amx_int8);
    fields.number("threads", cpu.threads);
    fields.number("cache", cpu.cache_bytes);
    fields.number("l2", cpu.l2_bytes);
}

void add(Fields &fields, const CudaLimits &cuda) {
    fields.number("sm", cuda.sm);
    for (const int64_t limit :
         {int64_t{cuda.multiprocessors}, int64_t{cuda.threads_per_sm}, int64_t{cuda.threads_per_block},
          int64_t{cuda.registers_per_sm}, cuda.shared_per_sm, cuda.shared_per_block, cuda.l2_bytes,
          cuda.parameter_bytes, int64_t{cuda.cluster_blocks}})
        fields.number("", limit);
}

} // namespace

std::optional<MatmulPrecision> matmul_precision(std::string_view name) {
    constexpr std::string_view kNames[] = {"highest", "high", "medium"};
    const auto found = std::ranges::find(kNames, name);
    if (found == std::end(kNames))
        return std::nullopt;
    return static_cast<MatmulPrecision>(found - std::begin(kNames));
}

std::string Target::fingerprint() const {
    Fields fields;
    for (const DeviceInfo &d : devices) {
        fields.text("", to_string(d.device));
        std::visit([&](const auto &limits) { add(fields, limits); }, d.limits);
        fields.number("memory", d.memory_bytes);
        std::vector<uint8_t> peers = d.peers; // a set
        std::ranges::sort(peers);
        for (const uint8_t peer : peers)
            fields.number("peer", peer);
        for (const double estimate : {d.memory_bandwidth, d.flops, d.link_bandwidth, d.peer_bandwidth,
                                      d.launch_seconds, d.submit_seconds, d.wave_seconds})
            fields.number("", std::bit_cast<int64_t>(estimate));
        if (d.library)
            fields.text("library ", d.library->kind);
    }
    fields.number("fuse", modes.fuse);
    fields.number("fast_math", modes.fast_math);
    fields.number("reproducible", modes.reproducible);
    fields.number("float32_matmul", static_cast<int64_t>(modes.float32_matmul));
    fields.number("streaming", modes.streaming_stores);
    fields.number("verify", modes.verify);
    fields.number("transfer", static_cast<int64_t>(modes.transfer));
    fields.number("scalar_ops", max_scalar_ops);
    fields.number("operands", max_operands);
    return fields.take();
}

Target test_target(int gpus) {
    CpuLimits limits;
    limits.isa.triple = "x86_64-unknown-linux-gnu";
    limits.isa.features = "+avx,+avx2,+avx512bw,+avx512dq,+avx512f,+avx512vl,+f16c,+fma";
    limits.isa.vector_bytes = 64;
    limits.isa.vector_registers = 32;
    limits.isa.fma = true;
    limits.isa.avx512 = true;
    limits.threads = 2;
    limits.cache_bytes = int64_t{32} << 20;

    Target t;
    DeviceInfo &cpu = t.devices.emplace_back();
    cpu.limits = limits;
    cpu.memory_bytes = int64_t{8} << 30;
    for (int i = 0; i < gpus; ++i) {
        DeviceInfo &gpu = t.devices.emplace_back();
        gpu.device = {DeviceKind::Cuda, static_cast<uint8_t>(i)};
        gpu.limits = limits;
        gpu.memory_bytes = int64_t{141} << 30;
        gpu.memory_bandwidth = 4.8e12;
        gpu.flops = 6.7e13;
        gpu.link_bandwidth = 5.5e10;
        gpu.peer_bandwidth = 4.5e11;
        gpu.launch_seconds = 3e-6;
        gpu.submit_seconds = 1e-6;
    }
    t.modes.verify = true;
    return t;
}

Target cuda_test_target(int gpus) {
    Target t = test_target(gpus);
    for (DeviceInfo &d : t.devices)
        if (d.device != kCpu)
            d.limits = CudaLimits{};
    return t;
}

} // namespace lz::ir
