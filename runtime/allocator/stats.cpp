#include "runtime/allocator/stats.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace lz::runtime {

namespace {

constexpr std::pair<std::string_view, StatSet AllocatorStats::*> kSets[] = {
    {"active", &AllocatorStats::active},
    {"active_bytes", &AllocatorStats::active_bytes},
    {"allocated_bytes", &AllocatorStats::allocated_bytes},
    {"allocation", &AllocatorStats::allocation},
    {"inactive_split", &AllocatorStats::inactive_split},
    {"inactive_split_bytes", &AllocatorStats::inactive_split_bytes},
    {"requested_bytes", &AllocatorStats::requested_bytes},
    {"reserved_bytes", &AllocatorStats::reserved_bytes},
    {"segment", &AllocatorStats::segment},
};
constexpr std::pair<std::string_view, Stat AllocatorStats::*> kStats[] = {
    {"oversize_allocations", &AllocatorStats::oversize_allocations},
    {"oversize_segments", &AllocatorStats::oversize_segments},
};
constexpr std::pair<std::string_view, int64_t AllocatorStats::*> kCounts[] = {
    {"max_split_size", &AllocatorStats::max_split_size},
    {"num_alloc_retries", &AllocatorStats::num_alloc_retries},
    {"num_device_alloc", &AllocatorStats::num_device_alloc},
    {"num_device_free", &AllocatorStats::num_device_free},
    {"num_ooms", &AllocatorStats::num_ooms},
};
constexpr std::pair<std::string_view, StatPool> kPools[] = {
    {"all", StatPool::All}, {"large_pool", StatPool::LargePool}, {"small_pool", StatPool::SmallPool}};
using Field = int64_t (*)(const Stat &);
constexpr std::pair<std::string_view, Field> kFields[] = {
    {"allocated", [](const Stat &s) { return s.allocated; }},
    {"current", [](const Stat &s) { return s.current; }},
    {"freed", [](const Stat &s) { return s.freed(); }},
    {"peak", [](const Stat &s) { return s.peak; }},
};

struct Row {
    std::string_view title;
    StatSet AllocatorStats::*set;
    bool bytes;
};
constexpr Row kRows[] = {
    {"Allocated memory", &AllocatorStats::allocated_bytes, true},
    {"Active memory", &AllocatorStats::active_bytes, true},
    {"Requested memory", &AllocatorStats::requested_bytes, true},
    {"Reserved memory", &AllocatorStats::reserved_bytes, true},
    {"Non-releasable memory", &AllocatorStats::inactive_split_bytes, true},
    {"Allocations", &AllocatorStats::allocation, false},
    {"Active allocs", &AllocatorStats::active, false},
    {"Reserved segments", &AllocatorStats::segment, false},
    {"Non-releasable allocs", &AllocatorStats::inactive_split, false},
};

std::string cell(int64_t value, bool bytes) {
    return bytes ? human_bytes(value) : fmt::format("{}", value);
}

} // namespace

std::string human_bytes(int64_t bytes) {
    if (std::llabs(bytes) < 1024)
        return fmt::format("{} B", bytes);
    auto value = static_cast<double>(bytes);
    for (const char *unit : {"KiB", "MiB", "GiB"}) {
        value /= 1024;
        if (std::abs(value) < 1024)
            return fmt::format("{:.2f} {}", value, unit);
    }
    return fmt::format("{:.2f} TiB", value / 1024);
}

std::vector<std::pair<std::string, int64_t>> AllocatorStats::named() const {
    std::vector<std::pair<std::string, int64_t>> out;
    for (const auto &[name, set] : kSets)
        for (const auto &[pool_name, pool] : kPools)
            for (const auto &[field_name, field] : kFields)
                out.emplace_back(fmt::format("{}.{}.{}", name, pool_name, field_name),
                                 field((this->*set)[pool]));
    for (const auto &[name, stat] : kStats)
        for (const auto &[field_name, field] : kFields)
            out.emplace_back(fmt::format("{}.{}", name, field_name), field(this->*stat));
    for (const auto &[name, count] : kCounts)
        out.emplace_back(name, this->*count);
    std::ranges::sort(out);
    return out;
}

std::string memory_summary(const AllocatorStats &stats, const std::string &device) {
    const std::string rule = "|" + std::string(83, '-') + "|\n";
    const std::string bold = "|" + std::string(83, '=') + "|\n";
    std::string out = bold;
    out += fmt::format("|{:^83}|\n", fmt::format("Lazuli memory summary, device {}", device));
    out += rule;
    out += fmt::format("|{:^83}|\n",
                       fmt::format("OOMs: {:<8} driver calls: {} + {} frees, {} after giving back the cache",
                                   stats.num_ooms, stats.num_device_alloc, stats.num_device_free,
                                   stats.num_alloc_retries));
    out += bold;
    out += fmt::format("|{:^23}|{:^14}|{:^14}|{:^14}|{:^14}|\n", "Metric", "Cur Usage", "Peak Usage",
                       "Tot Alloc", "Tot Freed");
    for (const Row &row : kRows) {
        out += rule;
        for (StatPool pool : {StatPool::All, StatPool::LargePool, StatPool::SmallPool}) {
            const Stat &stat = (stats.*row.set)[pool];
            std::string_view title = pool == StatPool::All         ? row.title
                                     : pool == StatPool::LargePool ? "      from large pool"
                                                                   : "      from small pool";
            out += fmt::format("| {:<22}|{:>13} |{:>13} |{:>13} |{:>13} |\n", title,
                               cell(stat.current, row.bytes), cell(stat.peak, row.bytes),
                               cell(stat.allocated, row.bytes), cell(stat.freed(), row.bytes));
        }
    }
    return out + bold;
}

std::string memory_snapshot(const std::vector<SegmentInfo> &segments, int device_index,
                            const std::string &source) {
    constexpr const char *kStates[] = {"active_allocated", "active_pending_free", "inactive"};
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const SegmentInfo &segment : segments) {
        int64_t allocated = 0, active = 0, requested = 0;
        nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
        for (const BlockInfo &block : segment.blocks) {
            allocated += block.state == BlockState::Allocated ? block.size : 0;
            active += block.state != BlockState::Free ? block.size : 0;
            requested += block.requested;
            blocks.push_back({{"address", block.address},
                              {"size", block.size},
                              {"requested_size", block.requested},
                              {"state", kStates[static_cast<size_t>(block.state)]}});
        }
        out.push_back({{"device", device_index},
                       {"source", source},
                       {"address", segment.address},
                       {"total_size", segment.size},
                       {"allocated_size", allocated},
                       {"active_size", active},
                       {"requested_size", requested},
                       {"stream", segment.stream},
                       {"segment_type", segment.small ? "small" : "large"},
                       {"is_expandable", false},
                       {"blocks", std::move(blocks)}});
    }
    return out.dump(1);
}

} // namespace lz::runtime
