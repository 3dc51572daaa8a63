#pragma once
/// cuda.h, all of whose functions are exported where they are defined.

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>

// Earlier forms of functions, which cuda.h replaces by macros and drivers still export.
extern "C" {
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuDeviceGetUuid
#undef cuEventElapsedTime
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuDevicePrimaryCtxReset(CUdevice device);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end);
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *count);
}
#pragma GCC visibility pop
