/// Results that are stored past the caches, and lie over an input: it is updated in place.
#include "ir/kernel/builder.h"
#include "tests/support/kernel_run.h"

#include <gtest/gtest.h>

#include <regex>

namespace lz::test {
namespace {

using namespace ir;

/// Registers of `bytes` and no masks of AVX-512.
CpuIsa without_masks(int bytes) {
    CpuIsa isa = isa_with(bytes);
    isa.avx512 = false;
    return isa;
}

/// inputs[0] * inputs[1] + inputs[0], stored past the caches.
Launch update(DType t, int64_t n) {
    Launch l =
        elementwise({t, t}, n, n, [](KernelBuilder &b, auto &x) { return b.add(b.mul(x[0], x[1]), x[0]); });
    l.kernel.phases[0].on_cpu().stores = StoreTier::Streaming;
    return l;
}

/// The result of the kernel's code, which lies `shift` bytes behind a cache line: over the first input, or,
/// like that one, by itself.
Bytes result_of(const Launch &l, PhaseEntry entry, bool in_place, size_t shift) {
    Outcome given = prepare(l, 1, false);
    const size_t size = given.buffers[0].size();
    Bytes updated(size + shift), apart(size + shift);
    std::memcpy(updated.data() + shift, given.buffers[0].data(), size);
    void *const result = (in_place ? updated : apart).data() + shift;
    void *const pointers[] = {updated.data() + shift, given.buffers[1].data(), result};
    Fault fault[1] = {};
    const KernelFrame frame{pointers, l.args.data(), l.scalars.data(), fault};
    entry(&frame, 0, work_items(l.kernel, l.kernel.phases[0], l.args), nullptr);
    EXPECT_TRUE((in_place ? updated : apart).guard_intact());
    Bytes out(size);
    std::memcpy(out.data(), result, size);
    return out;
}

TEST(EmitterInPlace, UpdatesGiveTheBitsOfResultsThatLieApart) {
    for (const DType t : {DType::F32, DType::F64, DType::I16})
        for (const CpuIsa &isa : {isa_with(64), isa_with(32), without_masks(32), without_masks(16)}) {
            const CompiledKernel compiled = codegen::compile_cpu(update(t, 1).kernel, isa); // of all lengths
            const auto module = runtime::load_object(compiled);
            const auto entry = reinterpret_cast<PhaseEntry>(module->entry(compiled.phases[0].symbol));
            for (const int64_t n : {1, 7, 8, 9, 31, 64, 1000}) {
                const Launch l = update(t, n);
                const Outcome expected = run_interpreted(l, 1, false);
                for (const size_t shift : {size_t{0}, size_t{8}, size_t{40}})
                    for (const bool in_place : {false, true}) {
                        const Bytes result = result_of(l, entry, in_place, shift);
                        EXPECT_EQ(std::memcmp(result.data(), expected.buffers[2].data(), result.size()), 0)
                            << name(t) << ", " << n << " elements, registers of " << isa.vector_bytes
                            << " bytes, " << shift << " bytes behind a line, "
                            << (in_place ? "in place" : "apart");
                    }
            }
        }
}

/// Which stores of whole registers the code has: past the caches, and into them.
std::pair<bool, bool> stores_of(const Launch &l, const CpuIsa &isa) {
    const std::string code =
        codegen::compile_cpu(l.kernel, isa, {.want_text = false, .want_assembly = true}).assembly;
    static const std::regex past(R"(v?movnt\w+\s+%[xyz]mm\d+, )"),
        into(R"(v?mov[au]p[sd]\s+%[xyz]mm\d+, [^%\n]*\()");
    return {std::regex_search(code, past), std::regex_search(code, into)};
}

TEST(EmitterInPlace, PlainStoresStandBesideThoseThatGoPastTheCaches) {
    const CpuIsa isa = without_masks(32);
    if (!isa.triple.starts_with("x86_64") || isa.vector_bytes < 32)
        GTEST_SKIP() << "the code of AVX is looked at";
    EXPECT_EQ(stores_of(update(DType::F32, 1000), isa), std::pair(true, true));
    Launch cached = update(DType::F32, 1000);
    cached.kernel.phases[0].on_cpu().stores = StoreTier::Cached;
    EXPECT_EQ(stores_of(cached, isa), std::pair(false, true));
}

TEST(EmitterInPlace, TheCodeAsksWhetherAResultLiesOverAnInputOfItsWidth) {
    const CpuIsa isa = without_masks(32);
    const auto addresses = [&](DType from, DType to) { // that the code looks at
        Launch l = elementwise({from}, 1000, 1000, [&](KernelBuilder &b, auto &x) {
            return from == to ? b.add(x[0], x[0]) : b.cast(x[0], to);
        });
        l.kernel.phases[0].on_cpu().stores = StoreTier::Streaming;
        const std::string text = codegen::compile_cpu(l.kernel, isa, {.want_text = true}).text;
        int count = 0;
        for (size_t at = 0; (at = text.find("ptrtoint", at)) != std::string::npos; ++at)
            ++count;
        return count;
    };
    EXPECT_GT(addresses(DType::F32, DType::F32), addresses(DType::F32, DType::F64));
    EXPECT_GT(addresses(DType::F64, DType::F64), addresses(DType::F64, DType::F32));
}

} // namespace
} // namespace lz::test
