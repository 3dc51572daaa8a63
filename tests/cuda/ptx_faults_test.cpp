// Broken kernels as NVRTC compiles them, each of which the interpreter of PTX has to find. Needs NVRTC, and
// no GPU.

#include "tests/support/cuda/device_memory.h"
#include "tests/support/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lz::test {
namespace {

using ptx::Fault;

#define CLUSTER(size) "__cluster_dims__(" #size ", 1, 1) "
#define SYNC "__cluster_barrier_arrive(); __cluster_barrier_wait(); "
#define OF_BLOCK(x, rank) "*(float *)__cluster_map_shared_rank(" #x ", " #rank ")"

struct Broken {
    const char *what;
    Fault::Kind kind;
    const char *message; ///< a part of it
    const char *source;
    uint32_t threads = 64;
    uint32_t blocks = 1;
    bool global_races = false;
};

const Broken kBroken[] = {
    {"writes beyond its memory", Fault::Kind::Address, "reach beyond the end|is in no live allocation",
     "extern \"C\" __global__ void k(float *o) { o[threadIdx.x * 100] = 1; }"},
    {"reads a null pointer", Fault::Kind::Address, "global address 0x0 is in no live allocation",
     "extern \"C\" __global__ void k(float *o) { const float *n = (const float *)(unsigned long long)o[0]; "
     "o[0] = *n; }"},
    {"a vector that is not aligned", Fault::Kind::Misaligned, "no multiple of 16",
     "struct alignas(16) F { float v[4]; }; extern \"C\" __global__ void k(float *o) { *(F *)(o + 1) = F{{1, "
     "2, 3, 4}}; }"},
    {"shared memory that nobody wrote", Fault::Kind::Uninitialized, "before the block wrote it",
     "extern \"C\" __global__ void k(float *o) { __shared__ float s[64]; if (threadIdx.x) s[threadIdx.x] = "
     "1; __syncthreads(); o[threadIdx.x] = s[threadIdx.x]; }"},
    {"shared memory out of range", Fault::Kind::Address, "of shared memory",
     "extern \"C\" __global__ void k(float *o) { __shared__ float s[64]; s[threadIdx.x + (int)o[0] + 1] = 1; "
     "__syncthreads(); o[threadIdx.x] = s[threadIdx.x]; }"},
    {"two threads write one place", Fault::Kind::Race, "no barrier is between",
     "extern \"C\" __global__ void k(float *o) { __shared__ float s[32]; s[threadIdx.x / 2] = threadIdx.x; "
     "__syncthreads(); o[threadIdx.x] = s[threadIdx.x / 2]; }"},
    {"lanes of a warp without a barrier", Fault::Kind::Race, "no barrier is between",
     "extern \"C\" __global__ void k(float *o) { __shared__ float s[32]; s[threadIdx.x] = o[threadIdx.x]; "
     "o[threadIdx.x] = s[31 - threadIdx.x]; }",
     32},
    {"a shuffle whose lanes have left", Fault::Kind::Synchronization, "have ended",
     "extern \"C\" __global__ void k(float *o) { if (threadIdx.x >= 16) return; o[threadIdx.x] = "
     "__shfl_xor_sync(0xffffffff, o[threadIdx.x], 1); }",
     32},
    {"a shuffle by a lane that its mask leaves out", Fault::Kind::Synchronization, "not in its own mask",
     "extern \"C\" __global__ void k(float *o) { o[threadIdx.x] = __shfl_xor_sync(0x0000ffff, "
     "o[threadIdx.x], 1); }",
     32},
    {"a shuffle from a lane outside the mask", Fault::Kind::Synchronization, "which is not in its mask",
     "extern \"C\" __global__ void k(float *o) { if (threadIdx.x < 16) o[threadIdx.x] = "
     "__shfl_sync(0x0000ffff, o[threadIdx.x], 20); }",
     32},
    {"a barrier that half of the block waits at", Fault::Kind::Synchronization, "wait apart",
     "extern \"C\" __global__ void k(float *o) { if (threadIdx.x < 32) { o[0] = 1; __syncthreads(); o[1] = "
     "o[3]; } else { o[2] = 2; asm volatile(\"bar.sync 0;\"); asm volatile(\"bar.sync 0;\"); } }"},
    {"a shuffle against a barrier", Fault::Kind::Synchronization, "which wants lanes",
     "extern \"C\" __global__ void k(float *o) { float v = o[threadIdx.x]; if (threadIdx.x < 16) v = "
     "__shfl_xor_sync(0xffffffff, v, 1); else __syncthreads(); o[threadIdx.x] = v; }",
     32},
    {"a copy that nobody waited for", Fault::Kind::Race, "before an asynchronous copy into it was waited for",
     "extern \"C\" __global__ void k(float *o) { __shared__ alignas(16) float s[256]; asm "
     "volatile(\"cp.async.ca.shared.global [%0], [%1], 16;\" :: \"r\"((unsigned)__cvta_generic_to_shared(s + "
     "threadIdx.x * 4)), \"l\"(o + threadIdx.x * 4) : \"memory\"); asm volatile(\"cp.async.commit_group;\"); "
     "__syncthreads(); o[threadIdx.x] = s[threadIdx.x]; }"},
    {"a loop without an end", Fault::Kind::Endless, "does not end",
     "extern \"C\" __global__ void k(volatile float *o) { while (o[0] == 0) ; }", 1},
    {"half of a warp that reads what the other half wrote", Fault::Kind::Race, "no barrier is between",
     "extern \"C\" __global__ void k(float *o) { __shared__ float s[32]; s[threadIdx.x] = o[threadIdx.x]; "
     "__syncwarp(threadIdx.x < 16 ? 0xffff : 0xffff0000); o[threadIdx.x] = s[31 - threadIdx.x]; }",
     32},
    {"lanes that only shuffled", Fault::Kind::Race, "no barrier is between",
     "extern \"C\" __global__ void k(float *o) { __shared__ float s[32]; s[threadIdx.x] = o[threadIdx.x]; "
     "o[threadIdx.x] = __shfl_xor_sync(0xffffffff, o[threadIdx.x], 1) + s[31 - threadIdx.x]; }",
     32},
    {"global memory without a barrier", Fault::Kind::Race, "no barrier is between",
     "extern \"C\" __global__ void k(volatile float *o) { o[threadIdx.x] = threadIdx.x; o[threadIdx.x + 64] "
     "= "
     "o[63 - threadIdx.x]; }",
     64, 1, true},
    {"global memory of two blocks", Fault::Kind::Race, "by another block as well",
     "extern \"C\" __global__ void k(float *o) { o[threadIdx.x] = blockIdx.x; }", 64, 2, true},
    {"global memory that another block reads", Fault::Kind::Race, "by another block as well",
     "extern \"C\" __global__ void k(float *o) { o[blockIdx.x * 64 + threadIdx.x] = o[64 + threadIdx.x]; }",
     64, 2, true},
    {"another block's memory before it has begun", Fault::Kind::Race, "may not have begun",
     "extern \"C\" __global__ void " CLUSTER(2) "k(float *o) { __shared__ float s[64]; " OF_BLOCK(
         s + threadIdx.x, blockIdx.x ^ 1) " = 1; " SYNC
                                          "o[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x]; }",
     64, 2},
    {"another block's memory after it may have ended", Fault::Kind::Race, "may have ended",
     "extern \"C\" __global__ void " CLUSTER(
         2) "k(float *o) { __shared__ float s[64]; s[threadIdx.x] = 1; " SYNC
            "o[blockIdx.x * 64 + threadIdx.x] = " OF_BLOCK(s + threadIdx.x, blockIdx.x ^ 1) "; }",
     64, 2},
    {"another block's memory with a barrier of the block", Fault::Kind::Race, "of block",
     "extern \"C\" __global__ void " CLUSTER(
         2) "k(float *o) { __shared__ float s[64]; " SYNC
            "s[threadIdx.x] = 1; __syncthreads(); const float x = " OF_BLOCK(
                s + threadIdx.x, blockIdx.x ^ 1) "; " SYNC "o[blockIdx.x * 64 + threadIdx.x] = x; }",
     64, 2},
    {"shared memory between arriving and waiting", Fault::Kind::Race, "between the arrival",
     "extern \"C\" __global__ void " CLUSTER(
         2) "k(float *o) { __shared__ float s[64]; __cluster_barrier_arrive(); "
            "s[threadIdx.x] = 1; __cluster_barrier_wait(); o[blockIdx.x * 64 + threadIdx.x] = s[63 - "
            "threadIdx.x]; }",
     64, 2},
    {"a block that the cluster has not", Fault::Kind::Address, "shared memory of block 2 of a cluster of 2",
     "extern \"C\" __global__ void " CLUSTER(
         2) "k(float *o) { __shared__ float s[64]; s[threadIdx.x] = 1; " SYNC
            "o[threadIdx.x] = " OF_BLOCK(s + threadIdx.x, 2) "; " SYNC "}",
     64, 2},
    {"a wait for a cluster without arriving", Fault::Kind::Synchronization, "has not arrived",
     "extern \"C\" __global__ void " CLUSTER(2) "k(float *o) { __cluster_barrier_wait(); o[0] = 1; }", 64, 2},
    {"a cluster of which one block waits", Fault::Kind::Synchronization, "wait apart",
     "extern \"C\" __global__ void " CLUSTER(
         2) "k(float *o) { if (blockIdx.x == 0) { " SYNC "} else if "
            "(threadIdx.x < 32) __syncwarp(); else { asm volatile(\"bar.sync 0;\"); } o[blockIdx.x] = 1; if "
            "(blockIdx.x) { if "
            "(threadIdx.x < 32) { " SYNC "} } }",
     64, 2},
    {"a trap", Fault::Kind::Trap, "stopped itself",
     "extern \"C\" __global__ void k(float *o) { if (o[threadIdx.x] == 0) __trap(); }"},
};

TEST(PtxFaults, BrokenKernelsAreFoundWithLineBlockAndThread) {
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    for (const Broken &b : kBroken) {
        PtxProgram program(compile_to_ptx(b.source));
        DeviceMemory memory;
        const uint64_t data = memory.put(std::vector<float>(1024));
        try {
            program.check_global_races = b.global_races;
            program.run("k", {b.blocks, 1, 1}, {b.threads, 1, 1}, memory, data);
            ADD_FAILURE() << b.what << ": nothing was found.\n";
        } catch (const Fault &fault) {
            EXPECT_EQ(fault.kind, b.kind) << b.what << ": " << fault.what();
            const std::string message = fault.what(), parts = b.message;
            const size_t bar = parts.find('|');
            EXPECT_TRUE(
                message.find(parts.substr(0, bar)) != std::string::npos ||
                (bar != std::string::npos && message.find(parts.substr(bar + 1)) != std::string::npos))
                << b.what << ": " << message;
            EXPECT_NE(message.find("line "), std::string::npos) << message;
            EXPECT_NE(message.find("thread ("), std::string::npos) << message;
            EXPECT_TRUE(message.find("block (0,0,0)") != std::string::npos || b.blocks > 1) << message;
        }
    }
}

} // namespace
} // namespace lz::test
