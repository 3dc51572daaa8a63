#include "codegen/x86_features.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lz::codegen {

bool X86Features::has(std::string_view name) const {
    return std::ranges::binary_search(names_, name);
}

std::string X86Features::text() const {
    std::string text;
    for (const std::string_view name : names_) {
        text += text.empty() ? "+" : ",+";
        text += name;
    }
    return text;
}

#if defined(__x86_64__)

namespace {

enum Register : uint8_t { Eax, Ebx, Ecx, Edx };
/// Registers that the system has to save at a switch of threads: bits of XCR0.
enum class Saved : uint32_t { Nothing = 0, Avx = 0x6, Avx512 = 0xe6, Amx = 0x60000 };

struct Feature {
    const char *name;
    uint32_t leaf, subleaf;
    Register reg;
    uint32_t bit;
    Saved saved = Saved::Nothing;
};

/// Bits of CPUID: Intel SDM vol. 2A and AMD APM vol. 3, "CPUID". Sorted by name.
constexpr uint32_t kExtended = 0x80000001;
constexpr Feature kFeatures[] = {
    {"64bit", kExtended, 0, Edx, 29},
    {"adx", 7, 0, Ebx, 19},
    {"aes", 1, 0, Ecx, 25},
    {"amx-bf16", 7, 0, Edx, 22, Saved::Amx},
    {"amx-int8", 7, 0, Edx, 25, Saved::Amx},
    {"amx-tile", 7, 0, Edx, 24, Saved::Amx},
    {"avx", 1, 0, Ecx, 28, Saved::Avx},
    {"avx2", 7, 0, Ebx, 5, Saved::Avx},
    {"avx512bf16", 7, 1, Eax, 5, Saved::Avx512},
    {"avx512bitalg", 7, 0, Ecx, 12, Saved::Avx512},
    {"avx512bw", 7, 0, Ebx, 30, Saved::Avx512},
    {"avx512cd", 7, 0, Ebx, 28, Saved::Avx512},
    {"avx512dq", 7, 0, Ebx, 17, Saved::Avx512},
    {"avx512f", 7, 0, Ebx, 16, Saved::Avx512},
    {"avx512fp16", 7, 0, Edx, 23, Saved::Avx512},
    {"avx512ifma", 7, 0, Ebx, 21, Saved::Avx512},
    {"avx512vbmi", 7, 0, Ecx, 1, Saved::Avx512},
    {"avx512vbmi2", 7, 0, Ecx, 6, Saved::Avx512},
    {"avx512vl", 7, 0, Ebx, 31, Saved::Avx512},
    {"avx512vnni", 7, 0, Ecx, 11, Saved::Avx512},
    {"avx512vpopcntdq", 7, 0, Ecx, 14, Saved::Avx512},
    {"avxifma", 7, 1, Eax, 23, Saved::Avx},
    {"avxvnni", 7, 1, Eax, 4, Saved::Avx},
    {"bmi", 7, 0, Ebx, 3},
    {"bmi2", 7, 0, Ebx, 8},
    {"cmov", 1, 0, Edx, 15},
    {"crc32", 1, 0, Ecx, 20},
    {"cx16", 1, 0, Ecx, 13},
    {"cx8", 1, 0, Edx, 8},
    {"f16c", 1, 0, Ecx, 29, Saved::Avx},
    {"fma", 1, 0, Ecx, 12, Saved::Avx},
    {"fxsr", 1, 0, Edx, 24},
    {"gfni", 7, 0, Ecx, 8},
    {"lzcnt", kExtended, 0, Ecx, 5},
    {"mmx", 1, 0, Edx, 23},
    {"movbe", 1, 0, Ecx, 22},
    {"pclmul", 1, 0, Ecx, 1},
    {"popcnt", 1, 0, Ecx, 23},
    {"prfchw", kExtended, 0, Ecx, 8},
    {"sahf", kExtended, 0, Ecx, 0},
    {"sha", 7, 0, Ebx, 29},
    {"sse", 1, 0, Edx, 25},
    {"sse2", 1, 0, Edx, 26},
    {"sse3", 1, 0, Ecx, 0},
    {"sse4.1", 1, 0, Ecx, 19},
    {"sse4.2", 1, 0, Ecx, 20},
    {"sse4a", kExtended, 0, Ecx, 6},
    {"ssse3", 1, 0, Ecx, 9},
    {"vaes", 7, 0, Ecx, 9, Saved::Avx},
    {"vpclmulqdq", 7, 0, Ecx, 10, Saved::Avx},
};
static_assert(std::ranges::is_sorted(kFeatures, {},
                                     [](const Feature &f) { return std::string_view(f.name); }));

/// What CPUID says. Each leaf is asked for once: in a virtual machine a question takes ten microseconds.
class Leaves {
public:
    Leaves() {
        read(1, 0, basic_);
        read(7, 0, extended_[0]);
        if (extended_[0][Eax] >= 1) // the number of the last subleaf
            read(7, 1, extended_[1]);
        read(kExtended, 0, high_);
        constexpr uint32_t kOsxsave = uint32_t{1} << 27;
        if ((basic_[Ecx] & kOsxsave) != 0) {
            uint32_t rest = 0;
            __asm__("xgetbv" : "=a"(saved_), "=d"(rest) : "c"(0));
        }
    }

    bool has(const Feature &feature) const {
        const auto needed = static_cast<uint32_t>(feature.saved);
        return (saved_ & needed) == needed && (of(feature)[feature.reg] >> feature.bit & 1U) != 0;
    }

private:
    using Registers = std::array<uint32_t, 4>;

    /// Of a leaf that the processor does not have there is nothing.
    static void read(uint32_t leaf, uint32_t subleaf, Registers &into) {
        Registers r{};
        if (__get_cpuid_count(leaf, subleaf, &r[Eax], &r[Ebx], &r[Ecx], &r[Edx]) != 0)
            into = r;
    }
    const Registers &of(const Feature &feature) const {
        return feature.leaf == 1 ? basic_ : feature.leaf == 7 ? extended_[feature.subleaf] : high_;
    }

    Registers basic_{}, extended_[2]{}, high_{};
    uint32_t saved_ = 0; ///< XCR0: registers that the system saves
};

} // namespace

X86Features x86_features() {
    const Leaves leaves;
    std::vector<std::string_view> names;
    for (const Feature &feature : kFeatures)
        if (leaves.has(feature))
            names.emplace_back(feature.name);
    return X86Features(std::move(names));
}

std::vector<std::string_view> known_x86_features() {
    std::vector<std::string_view> names;
    for (const Feature &feature : kFeatures)
        names.emplace_back(feature.name);
    return names;
}

#else

X86Features x86_features() {
    return X86Features({});
}

std::vector<std::string_view> known_x86_features() {
    return {};
}

#endif

} // namespace lz::codegen
