#include "tests/support/cuda/driver/streams/work.h"

#include "tests/support/cuda/driver/graphs/graph.h"
#include "tests/support/cuda/driver/memory/address_space.h"
#include "tests/support/cuda/driver/memory/memory.h"
#include "tests/support/cuda/driver/settings.h"
#include "tests/support/cuda/driver/streams/event.h"
#include "tests/support/cuda/driver/streams/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lz::fake_cuda {
namespace {

/// The word at an address, in one piece; null when nothing is there any more.
unsigned char *word_at(uint64_t address) {
    const auto block = address_space().find(address);
    return block ? block->host + (address - block->begin) : nullptr;
}

uint64_t read_word(const unsigned char *at, uint32_t bytes) {
    return bytes == 4 ? __atomic_load_n(reinterpret_cast<const uint32_t *>(at), __ATOMIC_ACQUIRE)
                      : __atomic_load_n(reinterpret_cast<const uint64_t *>(at), __ATOMIC_ACQUIRE);
}

bool is_met(const ValueWaitWork &w, uint64_t found) {
    const uint64_t mask = w.bytes == 4 ? 0xffffffffu : ~uint64_t{0};
    switch (w.flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return w.bytes == 4 ? static_cast<int32_t>(static_cast<uint32_t>(found - w.value)) >= 0
                            : static_cast<int64_t>(found - w.value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return found == w.value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (found & w.value) != 0;
    default:
        return (~(found | w.value) & mask) != 0;
    }
}

CUresult wait_for_value(Stream &s, const ValueWaitWork &w) {
    bool gone = false;
    const auto met = [&] {
        const unsigned char *at = word_at(w.address);
        gone = !at;
        return gone || is_met(w, read_word(at, w.bytes));
    };
    Lock lock(driver_mutex());
    if (!met())
        wait_in_stream(lock, s, fmt::format("the value {} at 0x{:x}", w.value, w.address), true, met);
    if (gone)
        report(fmt::format("a stream waits for a value at 0x{:x}, which was freed", w.address));
    return gone ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

CUresult write_value(const ValueWriteWork &w) {
    unsigned char *at = word_at(w.address);
    if (!at)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (w.bytes == 4)
        __atomic_store_n(reinterpret_cast<uint32_t *>(at), static_cast<uint32_t>(w.value), __ATOMIC_RELEASE);
    else
        __atomic_store_n(reinterpret_cast<uint64_t *>(at), w.value, __ATOMIC_RELEASE);
    const Lock lock(driver_mutex());
    notify_progress();
    return CUDA_SUCCESS;
}

void mark_done(Record &record) {
    const Lock lock(driver_mutex());
    record.time = now();
    record.done = true;
    notify_progress();
}

void wait_for_record(Stream &s, const Record &record) {
    Lock lock(driver_mutex());
    if (!record.done)
        wait_in_stream(lock, s, "an event", false, [&] { return record.done; });
}

CUresult run_graph(Stream &s, const GraphWork &g) {
    const GraphBody &body = *g.body;
    for (const size_t i : launch_order(body, s.rng))
        if (body.nodes[i].enabled)
            if (const CUresult failed = run_work(s, body.nodes[i].work, g.records[i]))
                fail_context(*s.context, failed); // and go on, so that its events are recorded
    return CUDA_SUCCESS;
}

struct Runner {
    Stream &s;
    const std::shared_ptr<Record> &graph_record;

    CUresult operator()(const EmptyWork &) const { return CUDA_SUCCESS; }
    CUresult operator()(const KernelWork &w) const { return run_kernel(w, *s.context, s.rng()); }
    CUresult operator()(const CopyWork &w) const { return run_copy(w, *s.context); }
    CUresult operator()(const FillWork &w) const { return run_fill(w, *s.context); }
    CUresult operator()(const HostWork &w) const {
        in_callback() = true;
        w.function(w.data);
        in_callback() = false;
        return CUDA_SUCCESS;
    }
    CUresult operator()(const CallWork &w) const {
        const MadeCurrent current(*s.context);
        return (*w.run)();
    }
    CUresult operator()(const RecordWork &w) const {
        mark_done(graph_record ? *graph_record : *w.record);
        return CUDA_SUCCESS;
    }
    CUresult operator()(const WaitWork &w) const {
        if (const Record *record = graph_record ? graph_record.get() : w.record.get())
            wait_for_record(s, *record);
        return CUDA_SUCCESS;
    }
    CUresult operator()(const ValueWaitWork &w) const { return wait_for_value(s, w); }
    CUresult operator()(const ValueWriteWork &w) const { return write_value(w); }
    CUresult operator()(const FreeWork &w) const {
        free_device_block(w.address);
        return CUDA_SUCCESS;
    }
    CUresult operator()(const GraphWork &w) const { return run_graph(s, w); }
};

} // namespace

CUresult run_work(Stream &stream, const Work &work, const std::shared_ptr<Record> &graph_record) {
    // After an error nothing runs, but all that others wait for comes to its end.
    if (stream.context->error != CUDA_SUCCESS && !std::holds_alternative<RecordWork>(work) &&
        !std::holds_alternative<FreeWork>(work) && !std::holds_alternative<GraphWork>(work))
        return CUDA_SUCCESS;
    return std::visit(Runner{stream, graph_record}, work);
}

} // namespace lz::fake_cuda
