#include "tests/support/cuda/driver/modules/launch.h"

#include "tests/support/cuda/driver/graphs/capture.h"
#include "tests/support/cuda/driver/settings.h"
#include "tests/support/cuda/driver/streams/stream.h"

#include <fmt/format.h>

#include <cstring>

namespace lz::fake_cuda {
namespace {

void check_dimensions(const LaunchRequest &r, const ptx::Kernel &k) {
    const auto &[gx, gy, gz] = r.grid;
    const auto &[bx, by, bz] = r.block;
    if (gx == 0 || gy == 0 || gz == 0 || gx > 2147483647u || gy > 65535 || gz > 65535)
        refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("{}: a grid of {}x{}x{} blocks", k.name, gx, gy, gz));
    if (bx == 0 || by == 0 || bz == 0 || bx > 1024 || by > 1024 || bz > 64 || r.block.count() > 1024)
        refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("{}: a block of {}x{}x{} threads", k.name, bx, by, bz));
    const auto &[mx, my, mz] = k.max_threads;
    if (mx != 0 &&
        (k.exact_threads ? bx != mx || by != my || bz != mz : r.block.count() > uint64_t{mx} * my * mz))
        refuse(CUDA_ERROR_INVALID_VALUE,
               fmt::format("{}: a block of {}x{}x{} threads; it was compiled for {}x{}x{}", k.name, bx, by,
                           bz, mx, my, mz));
}

std::vector<unsigned char> copy_parameters(const LaunchRequest &r, const ptx::Kernel &k) {
    std::vector<unsigned char> bytes(k.parameter_bytes);
    if (r.parameters && r.extra)
        refuse(CUDA_ERROR_INVALID_VALUE, "both kernelParams and extra are given");
    if (r.parameters) {
        for (size_t i = 0; i < k.parameters.size(); ++i) {
            if (!r.parameters[i])
                refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("{}: parameter {} is null", k.name, i));
            std::memcpy(bytes.data() + k.parameters[i].at, r.parameters[i], k.parameters[i].bytes);
        }
        return bytes;
    }
    if (r.extra) {
        const void *buffer = nullptr;
        size_t size = 0;
        for (void **e = r.extra; *e != CU_LAUNCH_PARAM_END; e += 2)
            if (e[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                buffer = e[1];
            else if (e[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                size = *static_cast<const size_t *>(e[1]);
            else
                refuse(CUDA_ERROR_INVALID_VALUE, "extra has an entry that is not known");
        if (!buffer || size < bytes.size())
            refuse(CUDA_ERROR_INVALID_VALUE,
                   fmt::format("{}: {} bytes of parameters; it takes {}", k.name, size, bytes.size()));
        if (!bytes.empty())
            std::memcpy(bytes.data(), buffer, bytes.size());
        return bytes;
    }
    if (!k.parameters.empty())
        refuse(CUDA_ERROR_INVALID_VALUE, k.name + ": no parameters are given");
    return bytes;
}

void launch(Lock &lock, const LaunchRequest &request, CUstream stream) {
    const auto s = stream_of(stream);
    put(*s, kernel_work(lock, request, *s->context));
}

/// Refuses what is not there; the blocks of a cluster that are asked for.
ptx::Dim check_attributes(const CUlaunchConfig &config) {
    ptx::Dim cluster;
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        const CUlaunchAttribute &a = config.attrs[i];
        switch (a.id) {
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            cluster = {a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z};
            break;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            if (a.value.cooperative)
                refuse(CUDA_ERROR_NOT_SUPPORTED, "blocks do not run side by side");
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
#if CUDA_VERSION >= 12030
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
#endif
            refuse(CUDA_ERROR_NOT_SUPPORTED, "events inside of a launch are not there");
        default: // hints
            break;
        }
    }
    return cluster;
}

/// The blocks of a launch's clusters.
ptx::Dim cluster_of(const LaunchRequest &r, const ptx::Kernel &k, int device) {
    const auto text = [](const ptx::Dim &d) { return fmt::format("{}x{}x{}", d.x, d.y, d.z); };
    ptx::Dim cluster = r.cluster;
    if (k.cluster[0] != 0) {
        cluster = {k.cluster[0], k.cluster[1], k.cluster[2]};
        if (r.cluster.count() != 1 &&
            (r.cluster.x != cluster.x || r.cluster.y != cluster.y || r.cluster.z != cluster.z))
            refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("{}: clusters of {} blocks; it was compiled for {}",
                                                         k.name, text(r.cluster), text(cluster)));
    }
    if (cluster.count() == 1)
        return cluster;
    if (settings().capabilities[static_cast<size_t>(device)] < kFirstWithClusters)
        refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, k.name + ": the device has no clusters of blocks");
    if (cluster.count() == 0 || cluster.count() > kMostClusterBlocks)
        refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, fmt::format("{}: clusters of {} blocks; {} is the limit",
                                                            k.name, text(cluster), kMostClusterBlocks));
    if (r.grid.x % cluster.x != 0 || r.grid.y % cluster.y != 0 || r.grid.z % cluster.z != 0)
        refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("{}: clusters of {} blocks do not fill a grid of {}",
                                                     k.name, text(cluster), text(r.grid)));
    return cluster;
}

} // namespace

KernelWork kernel_work(Lock &lock, const LaunchRequest &request, const Context &context) {
    KernelWork work;
    const auto f = function_of(request.function, lock);
    if (f->module->context != &context)
        refuse(CUDA_ERROR_INVALID_HANDLE, "the function and the stream belong to different contexts");
    check_dimensions(request, *f->kernel);
    if (request.shared > f->max_dynamic_shared)
        refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("{}: {} bytes of dynamic shared memory; {} are allowed",
                                                     f->kernel->name, request.shared, f->max_dynamic_shared));
    work.parameters = copy_parameters(request, *f->kernel);
    work.function = f;
    work.grid = request.grid;
    work.cluster = cluster_of(request, *f->kernel, context.device);
    work.block = request.block;
    work.dynamic_shared = request.shared;
    return work;
}

} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void **parameters, void **extra) {
    return call(__func__, [&](Lock &lock) {
        launch(lock,
               {function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, parameters, extra},
               stream);
    });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra) {
    return call(__func__, [&](Lock &lock) {
        need(config, "config");
        const CUlaunchConfig &c = *config;
        const lz::ptx::Dim cluster = check_attributes(c);
        launch(lock,
               {function,
                {c.gridDimX, c.gridDimY, c.gridDimZ},
                {c.blockDimX, c.blockDimY, c.blockDimZ},
                c.sharedMemBytes,
                parameters,
                extra,
                cluster},
               c.hStream);
    });
}
