#pragma once
/// Library calls as graphs: what a function puts on a stream, without its being run.

#include "runtime/api/backend.h"
#include "runtime/cuda/device.h"

#include <mutex>

namespace lz::runtime::cuda {

/// A graph that has an owner.
class OwnedGraph {
public:
    OwnedGraph(const Driver &driver, CUgraph graph) : driver_(driver), graph_(graph) {}
    ~OwnedGraph() {
        if (graph_)
            driver_.cuGraphDestroy(graph_);
    }
    OwnedGraph(const OwnedGraph &) = delete;
    OwnedGraph &operator=(const OwnedGraph &) = delete;
    CUgraph get() const { return graph_; }

private:
    const Driver &driver_;
    CUgraph graph_;
};

/// A stream on which calls are captured. May be used from many threads at once.
class CallCapture {
public:
    explicit CallCapture(const CudaDevice &device) : device_(device) {}
    ~CallCapture();
    CallCapture(const CallCapture &) = delete;
    CallCapture &operator=(const CallCapture &) = delete;

    /// What a repeatable function puts on a stream for these arguments. The context is current. Throws what
    /// the function throws, and Failure(Cuda) for what cannot be captured.
    OwnedGraph capture(const Backend::Call &call);

private:
    void drop_stream() noexcept;

    const CudaDevice &device_;
    std::mutex mutex_;
    CUstream stream_ = nullptr;
};

} // namespace lz::runtime::cuda
