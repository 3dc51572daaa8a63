#pragma once
/// Ranges for tools that listen to NVTX, such as Nsight Systems, in a domain named Lazuli. Without such a
/// tool, or where NVTX's headers were not found at build, there are none.

#include <string>

namespace lz::runtime {

/// Whether a tool listens. It is attached when the process starts (NVTX_INJECTION64_PATH), so the answer
/// stays.
bool nvtx_listens();

/// A named range of the calling thread, from its construction to its end; they nest.
class NvtxRange {
public:
    /// Does nothing where nobody listens.
    explicit NvtxRange(const std::string &name);
    ~NvtxRange();
    NvtxRange(const NvtxRange &) = delete;
    NvtxRange &operator=(const NvtxRange &) = delete;
};

} // namespace lz::runtime
