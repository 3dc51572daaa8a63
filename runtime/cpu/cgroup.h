#pragma once
/// What the container grants this process: CPUs and memory, from cgroup v1 and v2 (S67).

#include <cstdint>
#include <optional>
#include <string>

namespace lz::runtime {

/// Where the kernel's files are; other folders in tests.
struct CgroupRoots {
    std::string membership = "/proc/self/cgroup";
    std::string mount = "/sys/fs/cgroup";
};

/// The tightest CPU quota of this process's groups and their parents, rounded up to whole CPUs, at least 1;
/// nothing when there is none.
std::optional<int> cgroup_cpus(const CgroupRoots &roots = {});

/// The tightest memory limit in bytes; nothing when there is none.
std::optional<int64_t> cgroup_memory(const CgroupRoots &roots = {});

} // namespace lz::runtime
