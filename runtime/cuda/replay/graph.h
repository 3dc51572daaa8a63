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
///
/// A table of segments that is too large for parameters lies in pinned memory, which an instance keeps; with
/// other numbers it gets another table, because a run may still be reading the one that it has.

#include "runtime/api/backend.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/pinned/blocks.h"
#include "runtime/cuda/replay/call_capture.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lz::runtime::cuda {

class GraphReplay final : public Backend::ReplayMemory {
public:
    GraphReplay(const CudaDevice &device, CallCapture &capture, PinnedBlocks &pinned)
        : device_(device), capture_(capture), pinned_(pinned) {}
    ~GraphReplay() override;

    /// What the run would launch on `stream`: an instance with its addresses and numbers; null where this is
    /// not to be a graph (the first run, library calls that are not repeatable). The context is current. The
    /// run is filled in where there is none yet.
    CUgraphExec instance(const Backend::Replay &replay, CudaStream &stream);

private:
    static constexpr size_t kInstances = 4;
    using Tables = std::vector<std::unique_ptr<PinnedBlocks::Lease>>;
    struct Instance {
        CUgraphExec exec = nullptr;
        std::vector<CUgraphNode>
            nodes;                 ///< of the graph that it was made of; null: of a call that puts nothing
        CUgraph graph = nullptr;   ///< stays, because updates name its nodes
        std::vector<uint64_t> key; ///< of the run whose addresses and numbers it has
        size_t steps = 0;  ///< that it was made of: all of the Program's, or those before one that is refused
        bool known = true; ///< false: an update of it has failed, and nobody knows what it holds
        uint64_t used = 0;
        Tables tables; ///< that its launches read
        StreamId stream =
            0; ///< on which it is launched; with tables, which are free when it is past them, no other
    };

    CUgraphExec make(const Backend::Replay &replay, CudaStream &stream);
    static bool holds(const Instance &instance, const Backend::Replay &replay, StreamId stream);
    CUDA_KERNEL_NODE_PARAMS node_of(DriverLaunch &launch, Tables &tables, CudaStream &stream) const;
    Instance build(const Backend::Replay &replay, CudaStream &stream) const;
    bool update(Instance &instance, const Backend::Replay &replay, CudaStream &stream) const;
    void destroy(Instance &instance) const noexcept;

    const CudaDevice &device_;
    CallCapture &capture_;
    PinnedBlocks &pinned_;
    bool seen_ = false, never_ = false;
    uint64_t clock_ = 0;
    std::vector<Instance> instances_;
};

} // namespace lz::runtime::cuda
