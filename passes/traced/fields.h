#pragma once
/// The fields of a Target and the numbers of a Program, in an order that both builds have.

namespace lz::traced {

/// Calls f for every field of a Target that passes read. `f(count)` of a list's length lets f change it.
/// Libraries are left to `library(device, kind)`. What is left out here shows in Target::fingerprint.
template <class Target, class F, class Library, class Limits>
void for_each_field(Target &target, F &&f, Library &&library, Limits &&limits) {
    size_t count = target.devices.size();
    f(count);
    target.devices.resize(count);
    for (auto &d : target.devices) {
        f(d.device.kind);
        f(d.device.index);
        f(d.memory_bytes);
        f(d.memory_bandwidth);
        f(d.flops);
        f(d.link_bandwidth);
        f(d.peer_bandwidth);
        f(d.launch_seconds);
        f(d.submit_seconds);
        f(d.wave_seconds);
        size_t peers = d.peers.size();
        f(peers);
        d.peers.resize(peers);
        for (auto &peer : d.peers)
            f(peer);
        limits(d);
        if (d.runs_cuda()) {
            auto &c = d.cuda();
            f(c.sm);
            f(c.multiprocessors);
            f(c.threads_per_sm);
            f(c.threads_per_block);
            f(c.registers_per_sm);
            f(c.shared_per_sm);
            f(c.shared_per_block);
            f(c.l2_bytes);
            f(c.parameter_bytes);
            f(c.cluster_blocks);
        } else {
            auto &c = d.cpu();
            f(c.isa.triple);
            f(c.isa.features);
            f(c.isa.vector_bytes);
            f(c.isa.vector_registers);
            f(c.isa.l1_bytes);
            f(c.isa.fma);
            f(c.isa.avx512);
            f(c.isa.avx512_bf16);
            f(c.isa.avx512_vnni);
            f(c.isa.amx_bf16);
            f(c.isa.amx_int8);
            f(c.threads);
            f(c.cache_bytes);
            f(c.l2_bytes);
        }
        library(d);
    }
    auto &m = target.modes;
    f(m.fuse);
    f(m.fast_math);
    f(m.reproducible);
    f(m.float32_matmul);
    f(m.streaming_stores);
    f(m.verify);
    f(m.transfer);
    f(target.max_scalar_ops);
    f(target.max_operands);
    f(target.no_gpu);
}

/// Calls f for every whole number of a Program at Stage::Final that may differ for other extents. All else of
/// the Program is the same then, kernels included.
template <class Program, class F>
void for_each_number(Program &program, F &&f) {
    const auto of_arg = [&](auto &arg) {
        f(arg.constant);
        for (auto &term : arg.terms)
            f(term.coefficient);
    };
    for (auto &arena : program.arenas)
        f(arena.bytes);
    for (auto &buffer : program.buffers) {
        f(buffer.offset);
        f(buffer.bytes);
    }
    for (auto &step : program.steps) {
        for (auto &segment : step.segments) {
            for (auto &arg : segment.args)
                of_arg(arg);
            for (auto &items : segment.items)
                f(items);
        }
        f(step.rounds);
        f(step.worker_bytes);
        f(step.cost);
        f(step.bytes);
        f(step.flops);
        f(step.copy.from_begin);
        f(step.copy.to_begin);
        f(step.copy.bytes);
        for (auto &arg : step.ints)
            of_arg(arg);
        of_arg(step.effect);
        for (auto &range : step.accesses) {
            f(range.begin);
            f(range.end);
        }
    }
}

} // namespace lz::traced
