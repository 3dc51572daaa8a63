#pragma once
/// Runs of one Program as CUDA graphs. The first run goes step by step, because most programs run once; from
/// the second on a run is one launch of a graph, whose edges are those that streams and events make.
///
/// A graph holds the addresses and numbers of its run. Programs that take turns with a few sets of buffers
/// find each set's instance again; with more of them the oldest instance gets the new ones.
///
/// A library call (a product of cuBLASLt, a sort) is captured on a stream beside, and is a graph within the
/// graph. With other addresses it is captured again; where it then is of other kernels (algorithms depend on
/// the alignment of the operands), the instance is made anew.

#include "runtime/api/backend.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/replay/call_capture.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lz::runtime::cuda {

class GraphReplay final : public Backend::ReplayMemory {
public:
    GraphReplay(const CudaDevice &device, CallCapture &capture) : device_(device), capture_(capture) {}
    ~GraphReplay() override;

    /// What the run would launch: an instance with its addresses and numbers; null where this is not to be a
    /// graph (the first run, library calls that are not repeatable, launches with tables in memory). The
    /// context is current.
    CUgraphExec instance(const Backend::Replay &replay);

private:
    static constexpr size_t kInstances = 4;
    struct Instance {
        CUgraphExec exec = nullptr;
        std::vector<CUgraphNode>
            nodes;               ///< of the graph that it was made of; null: of a call that puts nothing
        CUgraph graph = nullptr; ///< stays, because updates name its nodes
        std::vector<std::byte> key;
        size_t steps = 0; ///< that it was made of: all of the Program's, or those before one that is refused
        uint64_t used = 0;
    };

    CUgraphExec find_or_make(const Backend::Replay &replay);
    bool fill_key(const Backend::Replay &replay);
    Instance build(const Backend::Replay &replay) const;
    bool update(Instance &instance, const Backend::Replay &replay) const;
    void destroy(Instance &instance) const noexcept;

    const CudaDevice &device_;
    CallCapture &capture_;
    bool seen_ = false, never_ = false;
    uint64_t clock_ = 0;
    std::vector<std::byte> key_;
    std::vector<Instance> instances_;
};

} // namespace lz::runtime::cuda
