// Graphs: built, captured, launched, updated.

#include "driver/driver.h"

namespace lz::test {
namespace {

const char *const kSource = R"(
extern "C" __global__ void scale(unsigned *x, unsigned by, unsigned plus) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = x[i] * by + plus;
}
)";

class CudaGraphs : public CudaKernels {
protected:
    void SetUp() override {
        CudaKernels::SetUp();
        if (IsSkipped())
            return;
        static const std::string ptx = compile_to_ptx(kSource);
        scale_ = load(ptx, "scale");
        stream_ = make_stream();
    }
    CUDA_KERNEL_NODE_PARAMS scale_params(CUdeviceptr *x, unsigned *by, unsigned *plus, unsigned threads = 4) {
        arguments_ = {x, by, plus};
        CUDA_KERNEL_NODE_PARAMS p{};
        p.func = scale_;
        p.gridDimX = p.gridDimY = p.gridDimZ = 1;
        p.blockDimX = threads;
        p.blockDimY = p.blockDimZ = 1;
        p.kernelParams = arguments_.data();
        return p;
    }
    std::vector<unsigned> run(CUgraphExec exec, CUdeviceptr x, unsigned from = 1) {
        EXPECT_EQ(CU(cuMemsetD32Async)(x, from, 4, stream_), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuGraphLaunch)(exec, stream_), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuStreamSynchronize)(stream_), CUDA_SUCCESS);
        return download<unsigned>(x, 4);
    }
    static std::vector<unsigned> four(unsigned value) { return std::vector<unsigned>(4, value); }

    CUfunction scale_ = nullptr;
    CUstream stream_ = nullptr;
    std::vector<void *> arguments_;
};

TEST_F(CudaGraphs, NodesRunAfterWhatTheyDependOn) {
    CUdeviceptr x = allocate(16), y = allocate(16);
    uint32_t *const host = pinned(4);
    CUgraph graph = nullptr;
    CU_OK(cuGraphCreate, &graph, 0);
    CUgraphNode fill, first, second, copy, out;
    CUDA_MEMSET_NODE_PARAMS fill_params{x, 0, 7, 4, 4, 1};
    CU_OK(cuGraphAddMemsetNode, &fill, graph, nullptr, 0, &fill_params, context_[0]);
    unsigned by = 2, plus = 1;
    auto params = scale_params(&x, &by, &plus);
    CU_OK(cuGraphAddKernelNode, &first, graph, &fill, 1, &params);
    by = 3;
    plus = 5; // values are taken when the node is made
    params = scale_params(&x, &by, &plus);
    CU_OK(cuGraphAddKernelNode, &second, graph, &first, 1, &params);
    CUDA_MEMCPY3D copy_params{};
    copy_params.srcMemoryType = copy_params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy_params.srcDevice = x;
    copy_params.dstDevice = y;
    copy_params.WidthInBytes = 16;
    copy_params.Height = copy_params.Depth = 1;
    CU_OK(cuGraphAddMemcpyNode, &copy, graph, &second, 1, &copy_params, context_[0]);
    copy_params.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy_params.dstHost = host;
    copy_params.srcDevice = y;
    CU_OK(cuGraphAddMemcpyNode, &out, graph, &copy, 1, &copy_params, context_[0]);
    size_t count = 0;
    CU_OK(cuGraphGetNodes, graph, nullptr, &count);
    EXPECT_EQ(count, 5u);
    CU_OK(cuGraphGetRootNodes, graph, nullptr, &count);
    EXPECT_EQ(count, 1u);
    CUgraphNodeType type;
    CU_OK(cuGraphNodeGetType, copy, &type);
    EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    CUgraphExec exec = nullptr;
    CU_OK(cuGraphInstantiate, &exec, graph, 0);
    for (int i = 0; i < 20; ++i) {
        CU_OK(cuGraphLaunch, exec, stream_);
        CU_OK(cuStreamSynchronize, stream_);
        ASSERT_EQ(std::vector<unsigned>(host, host + 4), four((7 * 2 + 1) * 3 + 5));
    }
    // It outlives the graph, and one node can be changed.
    by = 10;
    plus = 0;
    params = scale_params(&x, &by, &plus);
    CU_OK(cuGraphExecKernelNodeSetParams, exec, second, &params);
    CU_OK(cuGraphLaunch, exec, stream_);
    CU_OK(cuStreamSynchronize, stream_);
    EXPECT_EQ(std::vector<unsigned>(host, host + 4), four(150));
    CU_OK(cuGraphNodeSetEnabled, exec, first, 0);
    CU_OK(cuGraphLaunch, exec, stream_);
    CU_OK(cuStreamSynchronize, stream_);
    EXPECT_EQ(std::vector<unsigned>(host, host + 4), four(70));
    EXPECT_EQ(CU(cuGraphExecKernelNodeSetParams)(exec, copy, &params), CUDA_ERROR_INVALID_VALUE);
    CU_OK(cuGraphExecDestroy, exec);
    CU_OK(cuGraphDestroy, graph);
}

TEST_F(CudaGraphs, StreamsAreCapturedWithTheirForksAndJoins) {
    CUdeviceptr x = allocate(16), y = allocate(16);
    const CUstream other = make_stream();
    const CUevent fork = make_event(CU_EVENT_DISABLE_TIMING), join = make_event(CU_EVENT_DISABLE_TIMING);
    CU_OK(cuMemsetD32Async, x, 1, 4, stream_);
    CU_OK(cuStreamSynchronize, stream_);
    CU_OK(cuStreamBeginCapture, stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    ASSERT_EQ(launch(scale_, 1, 4, stream_, x, 2u, 1u), CUDA_SUCCESS);
    CU_OK(cuEventRecord, fork, stream_);
    CU_OK(cuStreamWaitEvent, other, fork, 0);
    CU_OK(cuMemcpyDtoDAsync, y, x, 16, other);
    ASSERT_EQ(launch(scale_, 1, 4, other, y, 5u, 0u), CUDA_SUCCESS);
    CU_OK(cuEventRecord, join, other);
    CUstreamCaptureStatus status;
    CU_OK(cuStreamIsCapturing, other, &status);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CU_OK(cuStreamWaitEvent, stream_, join, 0);
    ASSERT_EQ(launch(scale_, 1, 4, stream_, x, 0u, 9u), CUDA_SUCCESS); // after y was copied from it
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode *tail = nullptr;
    size_t tails = 0;
#if CUDA_VERSION >= 12030
    CU_OK(cuStreamGetCaptureInfo_v3, stream_, &status, &id, &graph, &tail, nullptr, &tails);
#else
    CU_OK(cuStreamGetCaptureInfo_v2, stream_, &status, &id, &graph, &tail, &tails);
#endif
    EXPECT_EQ(tails, 1u);
    CU_OK(cuStreamEndCapture, stream_, &graph);
    size_t count = 0;
    CU_OK(cuGraphGetNodes, graph, nullptr, &count);
    EXPECT_EQ(count, 4u);
    EXPECT_EQ(download<unsigned>(x, 4), four(1)); // nothing ran
    CUgraphExec exec = nullptr;
    CU_OK(cuGraphInstantiate, &exec, graph, 0);
    for (unsigned from = 1; from < 30; ++from) {
        EXPECT_EQ(run(exec, x, from), four(9));
        ASSERT_EQ(download<unsigned>(y, 4), four((from * 2 + 1) * 5));
    }
    CU_OK(cuGraphExecDestroy, exec);
    CU_OK(cuGraphDestroy, graph);
}

TEST_F(CudaGraphs, AnUpdateTakesAGraphOfTheSameShape) {
    CUdeviceptr x = allocate(16), y = allocate(16);
    const auto capture = [&](CUdeviceptr p, unsigned by, int launches) {
        CUgraph graph = nullptr;
        EXPECT_EQ(CU(cuStreamBeginCapture)(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
        for (int i = 0; i < launches; ++i)
            EXPECT_EQ(launch(scale_, 1, 4, stream_, p, by, 1u), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuStreamEndCapture)(stream_, &graph), CUDA_SUCCESS);
        return graph;
    };
    const CUgraph first = capture(x, 2, 2), second = capture(y, 3, 2), longer = capture(x, 2, 3);
    CUgraphExec exec = nullptr;
    CU_OK(cuGraphInstantiate, &exec, first, 0);
    EXPECT_EQ(run(exec, x), four(7));
    CUgraphExecUpdateResultInfo info;
    CU_OK(cuGraphExecUpdate, exec, second, &info);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    EXPECT_EQ(run(exec, y), four(13));
    EXPECT_EQ(CU(cuGraphExecUpdate)(exec, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    EXPECT_EQ(run(exec, y), four(13));
    // A launch that goes on is not changed by an update.
    uint32_t *const gate = pinned(1);
    CU_OK(cuMemsetD32Async, x, 1, 4, stream_);
    CU_OK(cuMemsetD32Async, y, 1, 4, stream_);
    CU_OK(cuStreamWaitValue32, stream_, reinterpret_cast<CUdeviceptr>(gate), 1, CU_STREAM_WAIT_VALUE_EQ);
    CU_OK(cuGraphLaunch, exec, stream_);
    CU_OK(cuGraphExecUpdate, exec, first, &info);
    __atomic_store_n(gate, 1u, __ATOMIC_RELEASE);
    CU_OK(cuStreamSynchronize, stream_);
    EXPECT_EQ(download<unsigned>(y, 4), four(13));
    EXPECT_EQ(download<unsigned>(x, 4), four(1));
    CU_OK(cuGraphExecDestroy, exec);
    for (const CUgraph g : {first, second, longer})
        CU_OK(cuGraphDestroy, g);
}

/// A graph in a graph is a copy of what it was, and takes another of the same shape.
TEST_F(CudaGraphs, AGraphMayBeANodeOfAnother) {
    CUdeviceptr x = allocate(16), y = allocate(16);
    const auto capture = [&](CUdeviceptr p, unsigned by, int launches) {
        CUgraph graph = nullptr;
        EXPECT_EQ(CU(cuStreamBeginCapture)(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
        for (int i = 0; i < launches; ++i)
            EXPECT_EQ(launch(scale_, 1, 4, stream_, p, by, 1u), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuStreamEndCapture)(stream_, &graph), CUDA_SUCCESS);
        return graph;
    };
    const CUgraph child = capture(x, 2, 2), other = capture(y, 3, 2), longer = capture(x, 2, 3);
    CUgraph graph = nullptr;
    CU_OK(cuGraphCreate, &graph, 0);
    CUgraphNode before, inner, after;
    unsigned by = 10, plus = 0;
    auto params = scale_params(&x, &by, &plus);
    CU_OK(cuGraphAddKernelNode, &before, graph, nullptr, 0, &params);
    EXPECT_EQ(CU(cuGraphAddChildGraphNode)(&inner, graph, &before, 1, graph), CUDA_ERROR_INVALID_VALUE);
    CU_OK(cuGraphAddChildGraphNode, &inner, graph, &before, 1, child);
    by = 1;
    plus = 5;
    params = scale_params(&x, &by, &plus);
    CU_OK(cuGraphAddKernelNode, &after, graph, &inner, 1, &params);
    CUgraphNodeType type;
    CU_OK(cuGraphNodeGetType, inner, &type);
    EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_GRAPH);
    CU_OK(cuGraphDestroy, child);
    CUgraphExec exec = nullptr;
    CU_OK(cuGraphInstantiate, &exec, graph, 0);
    EXPECT_EQ(run(exec, x), four((10 * 2 + 1) * 2 + 1 + 5));
    EXPECT_EQ(CU(cuGraphExecChildGraphNodeSetParams)(exec, inner, longer), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuGraphExecChildGraphNodeSetParams)(exec, before, other), CUDA_ERROR_INVALID_VALUE);
    CU_OK(cuMemsetD32Async, y, 1, 4, stream_);
    CU_OK(cuGraphExecChildGraphNodeSetParams, exec, inner, other);
    EXPECT_EQ(run(exec, x), four(10 + 5));
    EXPECT_EQ(download<unsigned>(y, 4), four((1 * 3 + 1) * 3 + 1));
    CU_OK(cuGraphExecDestroy, exec);
    for (const CUgraph g : {graph, other, longer})
        CU_OK(cuGraphDestroy, g);
}

#if CUDA_VERSION >= 12030 // has edges of graphs
TEST_F(CudaGraphs, EventsInsideOfGraphsOrderOtherStreams) {
    CUdeviceptr x = allocate(16);
    const CUevent e = make_event(CU_EVENT_DISABLE_TIMING);
    const CUstream other = make_stream();
    CUgraph graph = nullptr;
    CU_OK(cuGraphCreate, &graph, 0);
    CUgraphNode kernel, record, empty;
    unsigned by = 2, plus = 0;
    const auto params = scale_params(&x, &by, &plus);
    CU_OK(cuGraphAddKernelNode, &kernel, graph, nullptr, 0, &params);
    CU_OK(cuGraphAddEventRecordNode, &record, graph, &kernel, 1, e);
    CU_OK(cuGraphAddEmptyNode, &empty, graph, nullptr, 0);
    CUgraphEdgeData edge{};
    CU_OK(cuGraphAddDependencies_v2, graph, &record, &empty, &edge, 1);
    EXPECT_EQ(CU(cuGraphAddDependencies_v2)(graph, &record, &empty, &edge, 1), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = nullptr;
    CU_OK(cuGraphInstantiate, &exec, graph, 0);
    uint32_t *const to = pinned(4);
    for (unsigned i = 1; i < 20; ++i) {
        CU_OK(cuMemsetD32Async, x, i, 4, stream_);
        CU_OK(cuGraphLaunch, exec, stream_);
        CU_OK(cuStreamWaitEvent, other, e, 0);
        CU_OK(cuMemcpyDtoHAsync, to, x, 16, other);
        CU_OK(cuStreamSynchronize, other);
        EXPECT_EQ(to[3], 2 * i);
    }
    CU_OK(cuStreamSynchronize, stream_);
    CU_OK(cuGraphAddDependencies_v2, graph, &empty, &kernel, &edge, 1);
    CUgraphExec circle = nullptr;
    EXPECT_EQ(CU(cuGraphInstantiate)(&circle, graph, 0), CUDA_ERROR_INVALID_VALUE);
    CU_OK(cuGraphExecDestroy, exec);
    CU_OK(cuGraphDestroy, graph);
}
#endif

TEST_F(CudaGraphs, WhatACaptureForbidsEndsIt) {
    CUdeviceptr x = allocate(16), more = 0;
    const CUstream other = make_stream(), blocking = make_stream(CU_STREAM_DEFAULT);
    const CUevent e = make_event(CU_EVENT_DISABLE_TIMING);
    CUgraph graph = nullptr;
    const auto begin = [&](CUstream s) {
        ASSERT_EQ(CU(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    };
    const auto ends = [&](CUstream s, CUresult with) { EXPECT_EQ(CU(cuStreamEndCapture)(s, &graph), with); };
    EXPECT_EQ(CU(cuStreamBeginCapture)(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ends(stream_, CUDA_ERROR_ILLEGAL_STATE);

    begin(stream_);
    EXPECT_EQ(CU(cuStreamSynchronize)(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(CU(cuMemsetD8Async)(x, 0, 16, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ends(stream_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(stream_);
    EXPECT_EQ(CU(cuMemAlloc)(&more, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ends(stream_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(stream_); // in a relaxed thread, it is allowed
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CU_OK(cuThreadExchangeStreamCaptureMode, &mode);
    CU_OK(cuMemAlloc, &more, 16);
    CU_OK(cuMemFree, more);
    CU_OK(cuThreadExchangeStreamCaptureMode, &mode);
    ends(stream_, CUDA_SUCCESS);
    CU_OK(cuGraphDestroy, graph);

    begin(blocking);
    EXPECT_EQ(CU(cuMemsetD8Async)(x, 0, 16, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    ends(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    CU_OK(cuEventRecord, e, other);
    begin(stream_);
    EXPECT_EQ(CU(cuStreamWaitEvent)(stream_, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    ends(stream_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(stream_);
    CU_OK(cuMemsetD8Async, x, 0, 16, stream_);
    CU_OK(cuEventRecord, e, stream_);
    CU_OK(cuStreamWaitEvent, other, e, 0);
    CU_OK(cuMemsetD8Async, x, 1, 16, other);
    ends(stream_, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CU_OK(cuStreamSynchronize, other); // and no stream captures any more

    begin(stream_);
    CU_OK(cuEventRecord, e, stream_);
    EXPECT_EQ(CU(cuEventSynchronize)(e), CUDA_ERROR_CAPTURED_EVENT);
    ends(stream_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(stream_);
    CU_OK(cuEventRecord, e, stream_);
    CU_OK(cuStreamWaitEvent, other, e, 0);
    ends(other, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    ends(stream_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(stream_);
    begin(other);
    CU_OK(cuEventRecord, e, stream_);
    EXPECT_EQ(CU(cuStreamWaitEvent)(other, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    ends(stream_, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ends(other, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

} // namespace
} // namespace lz::test
