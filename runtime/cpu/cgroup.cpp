#include "runtime/cpu/cgroup.h"

#include "runtime/cpu/system_file.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace lz::runtime {

namespace {

/// One hierarchy that this process is in: the folder of its controllers and its path there.
struct Membership {
    std::string folder; ///< under the mount: "" for v2, "cpu,cpuacct" or "memory" for v1
    std::string path;
};

bool has_controller(std::string_view list, std::string_view controller) {
    while (!list.empty()) {
        size_t comma = list.find(',');
        if (list.substr(0, comma) == controller)
            return true;
        if (comma == std::string_view::npos)
            return false;
        list.remove_prefix(comma + 1);
    }
    return false;
}

/// What the file says; the process's own is read once, which takes the system some 50 us.
std::string membership_file(const CgroupRoots &roots) {
    if (roots.membership != CgroupRoots().membership)
        return read_system_file(roots.membership);
    static const std::string &own = *new std::string(read_system_file(roots.membership));
    return own;
}

/// Lines are `id:controllers:path`; v2 is `0::path`.
std::vector<Membership> memberships(const CgroupRoots &roots, std::string_view controller) {
    std::vector<Membership> out;
    const std::string text = membership_file(roots);
    for (std::string_view rest = text; !rest.empty();) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        const size_t first = line.find(':');
        const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos)
            continue;
        const std::string controllers(line.substr(first + 1, second - first - 1));
        const std::string path(line.substr(second + 1));
        if (controllers.empty()) {
            out.push_back({"", path});
        } else if (has_controller(controllers, controller)) {
            out.push_back({controllers, path});
            // Distributions mount the pair under one name or under each alone.
            if (controllers != controller)
                out.push_back({std::string(controller), path});
        }
    }
    return out;
}

/// Calls `visit` with the folder of the group and of each of its parents, up to the mount. A container often
/// sees its group at the mount itself although the membership names the host's path; the walk ends there too.
template <class F>
void for_each_group(const CgroupRoots &roots, std::string_view controller, F visit) {
    for (const Membership &m : memberships(roots, controller)) {
        std::string base = m.folder.empty() ? roots.mount : roots.mount + "/" + m.folder;
        for (std::string path = m.path == "/" ? "" : m.path;; path.erase(path.find_last_of('/'))) {
            visit(base + path);
            if (path.find('/') == std::string::npos)
                break;
        }
    }
}

std::vector<std::string> read_words(const std::string &file) {
    constexpr const char *kSpaces = " \t\n";
    std::vector<std::string> words;
    const std::string text = read_system_file(file);
    for (size_t end = 0, begin; (begin = text.find_first_not_of(kSpaces, end)) != std::string::npos;) {
        end = std::min(text.find_first_of(kSpaces, begin), text.size());
        words.push_back(text.substr(begin, end - begin));
    }
    return words;
}

/// A whole number, or nothing for "max" and what is not one.
std::optional<int64_t> number(const std::string &text) {
    int64_t value = 0;
    const char *const end = text.data() + text.size();
    const auto [used, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && used == end ? std::optional(value) : std::nullopt;
}

} // namespace

std::optional<int> cgroup_cpus(const CgroupRoots &roots) {
    std::optional<int> best;
    auto consider = [&](std::optional<int64_t> quota, std::optional<int64_t> period) {
        if (!quota || !period || *quota <= 0 || *period <= 0)
            return;
        int64_t cpus = std::clamp<int64_t>((*quota + *period - 1) / *period, 1, 1 << 20);
        best = std::min(best.value_or(static_cast<int>(cpus)), static_cast<int>(cpus));
    };
    for_each_group(roots, "cpu", [&](const std::string &group) {
        if (const auto words = read_words(group + "/cpu.max"); words.size() == 2)
            consider(number(words[0]), number(words[1]));
        if (const auto quota = read_words(group + "/cpu.cfs_quota_us"); !quota.empty())
            if (const auto period = read_words(group + "/cpu.cfs_period_us"); !period.empty())
                consider(number(quota[0]), number(period[0]));
    });
    return best;
}

std::optional<int64_t> cgroup_memory(const CgroupRoots &roots) {
    std::optional<int64_t> best;
    for_each_group(roots, "memory", [&](const std::string &group) {
        for (const char *file : {"/memory.max", "/memory.limit_in_bytes"}) {
            const std::vector<std::string> words = read_words(group + file);
            if (words.empty())
                continue;
            // v1 says "no limit" with a number near 2^63.
            std::optional<int64_t> limit = number(words[0]);
            if (limit && *limit > 0 && *limit < INT64_MAX / 2)
                best = std::min(best.value_or(*limit), *limit);
        }
    });
    return best;
}

} // namespace lz::runtime
