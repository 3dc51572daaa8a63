// What the machine can do, measured in two ways that have to agree: the ceilings of all other benchmarks.
//
//   bench_ceilings            prints a table; fails if two ways are further apart than 5 %
#include "bench/support/ceilings.h"

#include <lazuli/lazuli.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

namespace {

using lz::bench::Way;

/// Both ways take turns, so that whatever else the machine does meets both, and each is as good as its best
/// turn: a ceiling is what the machine can do where nobody else wants anything of it.
bool agree(const char *name, double unit, const char *unit_name, int turns,
           const std::function<double(Way)> &measure) {
    double a = 0, b = 0;
    for (int i = 0; i < turns; ++i) {
        a = std::max(a, measure(Way::First));
        b = std::max(b, measure(Way::Second));
    }
    const double ratio = b / a;
    const bool near = ratio > 0.95 && ratio < 1 / 0.95;
    std::printf("%-13s %8.2f %8.2f %-8s %5.3f%s\n", name, a / unit, b / unit, unit_name, ratio,
                near ? "" : "  they disagree");
    return near;
}

} // namespace

int main() {
    const int threads = lz::num_threads();
    lz::bench::MemoryMeter meter(int64_t{256} << 20, threads);
    const auto traffic = [&](lz::bench::Traffic t) {
        return [&meter, t](Way way) { return meter.pass(t, way); };
    };
    std::printf("%d threads; two ways, and the second as a part of the first\n", threads);
    bool all = agree("copy", 1e9, "GB/s", 15, traffic(lz::bench::Traffic::Copy));
    all &= agree("triad", 1e9, "GB/s", 15, traffic(lz::bench::Traffic::Triad));
    all &= agree("read", 1e9, "GB/s", 15, traffic(lz::bench::Traffic::Read));
    using lz::bench::Unit;
    const std::pair<const char *, Unit> units[] = {{"fma f32", Unit::F32},
                                                   {"fma f64", Unit::F64},
                                                   {"pairs of bf16", Unit::Bf16Pairs},
                                                   {"tiles of bf16", Unit::Bf16Tiles}};
    for (const auto &[name, unit] : units)
        if (lz::bench::has(unit))
            all &= agree(name, 1e9, "GF/s", 10,
                         [&](Way way) { return lz::bench::measure_flops(threads, way, unit); });
        else
            std::printf("%-13s this machine has none\n", name);
    return all ? 0 : 1;
}
