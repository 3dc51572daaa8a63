// What the machine can do, measured in two ways that have to agree: the ceilings of all other benchmarks.
//
//   bench_ceilings            prints a table; fails if two ways are further apart than 5 %
#include "bench/support/ceilings.h"

#include <lazuli/lazuli.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

namespace {

using lz::bench::Way;

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

/// Both ways take turns, so that whatever else the machine does meets both.
bool agree(const char *name, double unit, const char *unit_name, int turns,
           const std::function<double(Way)> &measure) {
    std::vector<double> first, second;
    measure(Way::First);
    measure(Way::Second);
    for (int i = 0; i < turns; ++i) {
        first.push_back(measure(Way::First));
        second.push_back(measure(Way::Second));
    }
    const double a = median(first), b = median(second), ratio = b / a;
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
            all &= agree(name, 1e9, "GF/s", 5,
                         [&](Way way) { return lz::bench::measure_flops(threads, way, unit); });
        else
            std::printf("%-13s this machine has none\n", name);
    return all ? 0 : 1;
}
