// The ISA of this machine, and of levels. LLVM would say it, too, and is not opened for that.

#include "codegen/host.h"

#if LAZULI_CPU_JIT

#include "codegen/llvm_library.h"
#include "codegen/x86_features.h"
#include "ir/diagnostic.h"
#include "ir/host/amx.h"

#include <string>
#include <unistd.h>

namespace lz::codegen {

namespace {

#if defined(__x86_64__)
constexpr const char *kTriple = "x86_64-unknown-linux-gnu";
#endif

/// What follows from the features that the emitter asks for.
void derive(ir::CpuIsa &isa, bool avx512, bool avx2) {
    isa.avx512 = avx512;
    if (avx512) {
        isa.vector_bytes = 64;
        isa.vector_registers = 32;
    } else if (avx2) {
        isa.vector_bytes = 32;
    }
#if LAZULI_SANITIZE_THREAD
    isa.vector_bytes = 16; // the widest access that ThreadSanitizer sees
    isa.amx_bf16 = isa.amx_int8 = false;
#endif
}

} // namespace

#if defined(__x86_64__)

ir::CpuIsa host_isa() {
    const X86Features features = x86_features();
    ir::CpuIsa isa;
    isa.triple = kTriple;
    isa.features = features.text();
    isa.fma = features.has("fma");
    const bool avx512 = features.has("avx512f") && features.has("avx512vl") && features.has("avx512bw") &&
                        features.has("avx512dq");
    isa.avx512_bf16 = avx512 && features.has("avx512bf16");
    isa.avx512_vnni = avx512 && features.has("avx512vnni");
    const bool tiles = features.has("amx-tile") && ir::may_use_amx();
    isa.amx_bf16 = tiles && features.has("amx-bf16");
    isa.amx_int8 = tiles && features.has("amx-int8");
    derive(isa, avx512, features.has("avx2"));
    if (const long bytes = ::sysconf(_SC_LEVEL1_DCACHE_SIZE); bytes > 0)
        isa.l1_bytes = bytes;
    return isa;
}

ir::CpuIsa isa_of(ir::IsaLevel level) {
    ir::CpuIsa isa;
    isa.triple = kTriple;
    // The psABI's list (x86-64-ABI, "Micro-Architecture Levels"), sorted.
    isa.features = "+avx,+avx2";
    if (level >= ir::IsaLevel::V4)
        isa.features += ",+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl";
    if (level >= ir::IsaLevel::V4Bf16)
        isa.features += ",+avx512bf16";
    if (level >= ir::IsaLevel::V4Amx)
        isa.features += ",+amx-bf16,+amx-int8,+amx-tile";
    isa.features += ",+bmi,+bmi2,+cmov,+crc32,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,"
                    "+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+x87,+xsave";
    isa.fma = true;
    isa.avx512_bf16 = level >= ir::IsaLevel::V4Bf16;
    isa.amx_bf16 = isa.amx_int8 = level >= ir::IsaLevel::V4Amx;
    derive(isa, level >= ir::IsaLevel::V4, true);
    return isa;
}

#else

ir::CpuIsa host_isa() {
    return llvm_library().host_isa();
}

ir::CpuIsa isa_of(ir::IsaLevel) {
    throw ir::Failure(ir::ErrorKind::Compile,
                      "There are levels of machine code for x86-64 alone, and this is another processor.");
}

#endif

std::string compiler_version() {
    return build_of(LAZULI_LLVM_VERSION);
}

bool cpu_jit_available() {
    return true;
}

} // namespace lz::codegen

#endif
