#pragma once
/// The floating-point environment that kernels, library calls, interpreters and constant folding run in, on
/// whatever thread (S66): round to nearest, subnormals count, no exception traps.

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace lz::ir {

/// While one lives, its thread computes in that environment. Afterwards the thread's own is as it was before,
/// status flags too, also when an exception is on its way (but for the flags of the x87 unit, which
/// arithmetic of long double alone raises: to keep them takes longer than all the rest). They nest; each
/// costs a few nanoseconds. One stands wherever a thread that the user may have set otherwise enters: a run,
/// a compilation, a piece of a parallel loop (oneTBB starts workers with the environment of whoever happened
/// to be first), an item of a stream. Around the user's own functions a further one undoes what they change.
class FloatEnvironment {
public:
    FloatEnvironment(const FloatEnvironment &) = delete;
    FloatEnvironment &operator=(const FloatEnvironment &) = delete;

#if defined(__x86_64__)
    FloatEnvironment() noexcept : sse_(_mm_getcsr()), x87_(get_x87()) {
        if ((sse_ & ~kSseFlags) != kSse) [[unlikely]]
            _mm_setcsr(kSse);
        if (x87_ != kX87) [[unlikely]]
            set_x87(kX87);
    }
    /// What stands in the register now is not looked at first: to read it after arithmetic has raised a flag
    /// that was down takes 120 ns on a Xeon of the Granite Rapids kind (a loop of one addition), to write
    /// it 3.
    ~FloatEnvironment() {
        _mm_setcsr(sse_);
        if (get_x87() != x87_) [[unlikely]]
            set_x87(x87_);
    }

private:
    /// All exceptions masked, to nearest, neither flush to zero nor denormals are zero; 64 bits of mantissa.
    static constexpr uint32_t kSse = 0x1f80, kSseFlags = 0x3f;
    static constexpr uint16_t kX87 = 0x37f;
    static uint16_t get_x87() noexcept {
        uint16_t word = 0;
        __asm__ __volatile__("fnstcw %0" : "=m"(word));
        return word;
    }
    static void set_x87(uint16_t word) noexcept {
        // Flags that are up would trap as soon as their exceptions are unmasked.
        __asm__ __volatile__("fnclex\n\tfldcw %0" : : "m"(word));
    }

    uint32_t sse_;
    uint16_t x87_;
#elif defined(__aarch64__)
    FloatEnvironment() noexcept : control_(get_control()), status_(get_status()) {
        if (control_ != 0) [[unlikely]]
            set_control(0);
    }
    ~FloatEnvironment() {
        if (get_status() != status_)
            __asm__ __volatile__("msr fpsr, %0" : : "r"(status_));
        if (get_control() != control_) [[unlikely]]
            set_control(control_);
    }

private:
    static uint64_t get_control() noexcept {
        uint64_t word = 0;
        __asm__ __volatile__("mrs %0, fpcr" : "=r"(word));
        return word;
    }
    static void set_control(uint64_t word) noexcept { __asm__ __volatile__("msr fpcr, %0" : : "r"(word)); }
    static uint64_t get_status() noexcept {
        uint64_t word = 0;
        __asm__ __volatile__("mrs %0, fpsr" : "=r"(word));
        return word;
    }

    uint64_t control_, status_;
#else
    FloatEnvironment() noexcept {
        std::fegetenv(&before_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~FloatEnvironment() { std::fesetenv(&before_); }

private:
    std::fenv_t before_;
#endif
};

} // namespace lz::ir
