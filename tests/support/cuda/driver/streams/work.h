#pragma once
/// What a stream does, one after the other; and what the nodes of a graph do.

#include "tests/support/cuda/driver/context.h"
#include "tests/support/cuda/ptx/machine.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

namespace lz::fake_cuda {

struct Function;
struct Node;

/// A moment on a stream: one recording of an event.
struct Record {
    bool done = false;
    int64_t time = 0; ///< nanoseconds
    const Context *context = nullptr;
};
struct Event;

struct KernelWork {
    std::shared_ptr<const Function> function;
    ptx::Dim grid, block, cluster;
    uint32_t dynamic_shared = 0;
    std::vector<unsigned char> parameters;
};
/// Either side is an address of a block (address_space.h) or of ordinary host memory.
struct CopyWork {
    uint64_t to = 0, from = 0;
    size_t bytes = 0;
    std::shared_ptr<unsigned char> staged; ///< where `from` is, when the driver made a copy of it
};
struct FillWork {
    uint64_t to = 0;
    uint32_t value = 0, size = 1;
    size_t width = 0, height = 1, pitch = 0;
};
struct HostWork {
    CUhostFn function;
    void *data;
};
/// Of a library beside the driver, or the driver's own.
struct CallWork {
    std::shared_ptr<std::function<CUresult()>> run;
};
struct RecordWork {
    std::shared_ptr<Record> record;
    std::shared_ptr<Event> event; ///< in graphs: records are made at each launch
};
struct WaitWork {
    std::shared_ptr<Record> record;
    std::shared_ptr<Event> event;
};
struct ValueWaitWork {
    uint64_t address, value;
    uint32_t bytes;
    unsigned flags;
};
struct ValueWriteWork {
    uint64_t address, value;
    uint32_t bytes;
};
struct FreeWork {
    uint64_t address;
};
struct EmptyWork {};
struct GraphBody;
struct GraphWork {
    std::shared_ptr<const GraphBody> body;
    std::vector<std::shared_ptr<Record>> records; ///< one a node; of events
};

using Work = std::variant<EmptyWork, KernelWork, CopyWork, FillWork, HostWork, CallWork, RecordWork, WaitWork,
                          ValueWaitWork, ValueWriteWork, FreeWork, GraphWork>;

/// Runs a kernel to its end, its blocks on several threads of the host. Without the driver's lock.
CUresult run_kernel(const KernelWork &work, const Context &context, uint64_t seed);
CUresult run_copy(const CopyWork &work, const Context &context);
CUresult run_fill(const FillWork &work, const Context &context);

} // namespace lz::fake_cuda
