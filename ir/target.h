#pragma once
/// A snapshot of what the compiler needs to know about the machine and the modes in force. Passes read this
/// and nothing else: no environment, no runtime.

#include "ir/diagnostic.h"
#include "ir/program/library.h"
#include "ir/types/type.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lz::ir {

/// What the CPU's feature bits say (not its name), and of its caches what code is made for.
struct CpuIsa {
    std::string triple;    ///< LLVM triple, for the kernel cache's key
    std::string features;  ///< LLVM feature string, "+avx512f,+fma,...", sorted
    int vector_bytes = 16; ///< preferred vector width
    int vector_registers = 16;
    int64_t l1_bytes = int64_t{32} << 10; ///< of a core, for data: what partial results of a loop have to fit
    bool fma = false;
    bool avx512 = false;
    bool avx512_bf16 = false;
    bool avx512_vnni = false;
    bool amx_bf16 = false; ///< tile registers that multiply bf16
    bool amx_int8 = false; ///< and i8 and u8

    /// Whether an instruction scales registers of floats by powers of two (AVX-512's VSCALEFPS).
    bool scales() const { return avx512 && vector_bytes >= 64; }

    /// Whether tile registers make products of such operands. The instruction for bf16 sums in an order of
    /// its own (ir::Contraction), so that it is the ISA's to say, and no schedule's; all as there.
    bool multiplies_tiles(DType dtype, DType accumulate, bool ascending) const {
        return dtype == DType::BF16
                   ? amx_bf16 && !ascending
                   : amx_int8 && (dtype == DType::I8 || dtype == DType::U8) && accumulate == DType::I32;
    }

    bool operator==(const CpuIsa &) const = default;
};

/// What one tile register holds of operands and of sums of 32 bits. A microkernel is two by two of them.
inline constexpr int kAmxRows = 16, kAmxColumns = 16;
/// Elements of k that one instruction takes: a row of a tile has 64 bytes.
constexpr int amx_depth(DType operand) {
    return 64 / size_of(operand);
}

/// What a device can do, for estimates only: they decide where work goes and what memory is worth, never what
/// is computed.
struct DeviceRates {
    double memory_bandwidth = 2e10; ///< bytes a second
    double flops = 1e11;            ///< scalar operations a second
    double link_bandwidth = 1e10;   ///< bytes a second between the device and the host
    double peer_bandwidth = 1e10;   ///< between GPUs
    double launch_seconds = 1e-6;   ///< to start a kernel
    double submit_seconds = 5e-7;   ///< of the host, for each kernel or copy
    /// Of the shortest kernel. One that would be over sooner with the whole device uses a part of it, so that
    /// others can run beside it (estimates.h).
    double wave_seconds = 2e-6;
};

/// What runs the code of the host, and of virtual GPUs, which are threads of it.
struct CpuLimits {
    CpuIsa isa;
    int threads = 1;                     ///< workers that share one launch
    int64_t cache_bytes = 0;             ///< last level: where streaming stores start to pay
    int64_t l2_bytes = int64_t{1} << 20; ///< of a core: what a thread's panels of a product have to fit

    bool operator==(const CpuLimits &) const = default;
};

/// What runs the code of a CUDA device. As the driver says it; the defaults are an H200's.
struct CudaLimits {
    int sm = 90; ///< compute capability, 10 * major + minor: what code is made for
    int multiprocessors = 132;
    int threads_per_sm = 2048;
    int threads_per_block = 1024;
    int registers_per_sm = 65536;         ///< of 32 bits
    int64_t shared_per_sm = 228 << 10;    ///< bytes of shared memory
    int64_t shared_per_block = 227 << 10; ///< with opt-in
    int64_t l2_bytes = int64_t{50} << 20; ///< what all SMs share
    int64_t parameter_bytes = 32764;      ///< of one launch; 4096 with drivers before 12.1
    int cluster_blocks = 8;               ///< of a cluster of blocks; 1: there are none

    bool operator==(const CudaLimits &) const = default;
};

/// What a device is, for people.
struct DeviceProperties : DeviceRates {
    std::string name;       ///< `Lazuli virtual GPU 0`
    int physical_index = 0; ///< before CUDA_VISIBLE_DEVICES
    bool is_virtual = false;
    int64_t total_memory = 0;
    int major = 0, minor = 0; ///< compute capability
    int multi_processor_count = 0;
    int copy_engines = 0;
    std::optional<CudaLimits> cuda; ///< not set: it runs the host's code
};

/// What a device is, for passes. Which code it runs decides who schedules its kernels: a virtual GPU runs a
/// CPU's.
struct DeviceInfo : DeviceRates {
    Device device;
    int64_t memory_bytes = 0;
    std::variant<CpuLimits, CudaLimits> limits;
    std::vector<uint8_t> peers; ///< cuda indices of GPUs whose memory this one may address
    /// What its kind has of the library. Null: not known; then nothing is refused and nothing has scratch,
    /// and what comes out cannot run.
    const LibraryRules *library = nullptr;

    bool runs_cuda() const { return std::holds_alternative<CudaLimits>(limits); }
    /// Whether a segment of a launch can be left out because an earlier step failed: the host checks before
    /// it runs one; a CUDA device runs all that is on its streams.
    bool guards_segments() const { return !runs_cuda(); }
    /// Whether its library has the function. Where the library is not known, a CPU's has everything and a
    /// CUDA device's nothing.
    bool has_function(std::string_view symbol) const;
    /// Of the kind that it is; std::bad_variant_access for the other one.
    CpuLimits &cpu() { return std::get<CpuLimits>(limits); }
    const CpuLimits &cpu() const { return std::get<CpuLimits>(limits); }
    CudaLimits &cuda() { return std::get<CudaLimits>(limits); }
    const CudaLimits &cuda() const { return std::get<CudaLimits>(limits); }
};

/// What happens when operands are on different devices (S06, S07).
enum class TransferMode : uint8_t {
    Explicit,  ///< an error, but for 0-dim CPU tensors and peers
    Automatic, ///< the smaller side moves
};

/// What products of f32 may round their operands to on CUDA devices whose tensor cores are faster with less
/// (`set_float32_matmul_precision`). Sums stay in f32.
enum class MatmulPrecision : uint8_t {
    Highest, ///< f32
    High,    ///< TF32: 10 bits of the fraction
    Medium,  ///< bf16: 7 bits
};

/// By its name in lower case, or nothing.
std::optional<MatmulPrecision> matmul_precision(std::string_view name);

struct Modes {
    bool fuse = true;       ///< false: every op is its own cluster (tests of S29)
    bool fast_math = false; ///< LAZULI_FAST_MATH
    /// LAZULI_REPRODUCIBLE: products of floats are kernels of ours on every device, in one order.
    bool reproducible = false;
    MatmulPrecision float32_matmul = MatmulPrecision::Highest;
    bool streaming_stores = true;
    bool verify = false; ///< verify after every pass
    TransferMode transfer = TransferMode::Explicit;
};

struct Target {
    std::vector<DeviceInfo> devices; ///< devices[0] is the CPU
    Modes modes;
    int max_scalar_ops = 256; ///< of a cluster
    int max_operands = 64;

    /// Why there is no GPU (no driver, hidden by the environment, ...): a whole sentence for messages, may be
    /// empty.
    std::string no_gpu;

    /// Throws missing_device where it is not there.
    const DeviceInfo &device(Device d) const;
    /// The same, or nullptr.
    const DeviceInfo *find(Device d) const;
    /// The host; every target has one.
    CpuLimits &host() { return devices.front().cpu(); }
    const CpuLimits &host() const { return devices.front().cpu(); }
    /// So many threads, of the host and so of every device that it plays.
    void set_threads(int threads);
    /// Whether `who` may read and write the memory of `whose`, another GPU: it was given peer access to it.
    /// What runs on `who` and names memory of `whose` needs this direction.
    bool may_access(Device who, Device whose) const;
    /// Whether a copy between two GPUs goes straight: one of them, which then makes it, may access the
    /// other's memory. Which one does not matter for what is copied.
    bool are_peers(Device a, Device b) const { return may_access(a, b) || may_access(b, a); }
    /// Failure(Device) for a device that is not there: lists those that are, and says why there is no GPU
    /// (S11).
    Failure missing_device(Device asked) const;
    /// Seconds that moving so many bytes takes, estimated: over the link, between peers, or from one GPU to
    /// another over the host.
    double transfer_seconds(Device from, Device to, int64_t bytes) const;
    /// Everything that makes two Targets compile differently: the one list of it. The engine keys Programs by
    /// it, so what a pass reads and this leaves out is a stale Program.
    std::string fingerprint() const;
};

/// A target for tests: AVX-512-like, two threads, 32 MiB cache, deterministic text.
/// With `gpus` that many virtual GPUs, estimated as H200s, no two of them peers.
Target test_target(int gpus = 0);
/// The same with GPUs that run CUDA code.
Target cuda_test_target(int gpus = 1);

} // namespace lz::ir
