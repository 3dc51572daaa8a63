#include "runtime/api/parallel.h"

#include "ir/diagnostic.h"
#include "runtime/cpu/backend.h"
#include "runtime/cpu/cgroup.h"
#include "runtime/cpu/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace lz::runtime {
namespace {

TEST(ParallelFor, EveryIndexRunsOnceInRangesOfAtLeastTheGrain) {
    for (int threads : {1, 2, 5, 20}) {
        set_num_threads(threads);
        EXPECT_EQ(num_threads(), threads);
        for (int64_t n : {0, 1, 7, 100, 1001})
            for (int64_t grain : {0, 1, 3, 64, 5000}) {
                std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
                std::atomic<int64_t> shortest{INT64_MAX};
                parallel_for(n, grain, [&](int64_t begin, int64_t end) {
                    for (int64_t was = shortest;
                         end - begin < was && !shortest.compare_exchange_weak(was, end - begin);)
                        ;
                    for (int64_t i = begin; i < end; ++i)
                        ++seen[static_cast<size_t>(i)];
                });
                for (auto &count : seen)
                    ASSERT_EQ(count, 1) << n << " by " << grain << " on " << threads;
                if (n > 0) {
                    EXPECT_GE(shortest, std::min(n, std::max<int64_t>(grain, 1)));
                }
            }
    }
}

TEST(ParallelFor, TheFirstExceptionIsThrownHere) {
    set_num_threads(4);
    auto fail = [](int64_t begin, int64_t) {
        if (begin > 100)
            throw std::runtime_error("no");
    };
    EXPECT_THROW(parallel_for(1000, 1, fail), std::runtime_error);
    std::atomic<int64_t> sum{0};
    parallel_for(1000, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 1000) << "the pool still works";
}

size_t threads_of_process() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// Starting oneTBB takes longer than all that a small program does.
TEST(ParallelForDeathTest, ThreadsStartWhenThereWasEnoughToDo) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            set_num_threads(4);
            const size_t before = threads_of_process();
            const auto loop = [](int64_t nanoseconds) {
                parallel_for(100, 1, [](int64_t, int64_t) { std::this_thread::yield(); }, nanoseconds);
            };
            for (int i = 0; i < 6; ++i)
                loop(100'000);
            if (threads_of_process() != before)
                _exit(1);
            for (int i = 0; i < 10'000 && threads_of_process() == before; ++i) // they come soon, not at once
                loop(100'000);
            _exit(threads_of_process() > before ? 0 : 2);
        },
        testing::ExitedWithCode(0), "");
}

TEST(ParallelForDeathTest, ALongLoopStartsThemAtOnce) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            set_num_threads(4);
            std::atomic<bool> others{false};
            const auto here = std::this_thread::get_id();
            parallel_for(10'000, 1, [&](int64_t, int64_t) {
                if (std::this_thread::get_id() != here)
                    others = true;
                else if (!others)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
            });
            _exit(others ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
}

// What a loop is said to take may be a tenth of what it takes: copies of what lies in no cache were.
TEST(ParallelFor, LoopsBehindEachOtherThatTakeLongerThanSaidAreHelped) {
    set_num_threads(4);
    std::this_thread::sleep_for(std::chrono::milliseconds(5)); // nobody waits from before
    const std::thread::id here = std::this_thread::get_id();
    std::atomic<bool> helped{false};
    for (int i = 0; i < 1000 && !helped; ++i)
        parallel_for(
            16, 1,
            [&](int64_t begin, int64_t end) {
                std::this_thread::sleep_for(std::chrono::microseconds(50) * (end - begin));
                if (std::this_thread::get_id() != here)
                    helped = true;
            },
            10'000);
    EXPECT_TRUE(helped);
}

TEST(ParallelFor, CallsNest) {
    set_num_threads(4);
    std::atomic<int64_t> sum{0};
    parallel_for(20, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            parallel_for(50, 1, [&](int64_t b, int64_t e) { sum += e - b; });
    });
    EXPECT_EQ(sum, 1000);
}

TEST(ThreadScratch, IsAlignedAndKept) {
    void *a = thread_scratch(100);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
    EXPECT_EQ(thread_scratch(50), a);
    void *b = thread_scratch(1 << 20);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
    std::memset(b, 1, 1 << 20);
}

TEST(Semantics, S67_a_number_of_threads_is_positive) {
    for (int wrong : {0, -3, 1 << 20})
        EXPECT_THROW(set_num_threads(wrong), ir::Failure);
}

/// A made-up /proc and /sys in a folder of its own.
class Cgroup : public testing::Test {
protected:
    Cgroup() : folder_(std::filesystem::path(testing::TempDir()) / ("cgroup-" + std::to_string(getpid()))) {}
    ~Cgroup() override { std::filesystem::remove_all(folder_); }

    void write(const std::string &path, const std::string &text) {
        std::filesystem::create_directories((folder_ / path).parent_path());
        std::ofstream(folder_ / path) << text;
    }
    CgroupRoots roots() const { return {folder_ / "self", folder_ / "fs"}; }

    std::filesystem::path folder_;
};

TEST_F(Cgroup, S67_quotas_of_version_two_are_honoured_the_tightest_parent_counts) {
    write("self", "0::/a/b\n");
    write("fs/a/b/cpu.max", "max 100000\n");
    write("fs/a/cpu.max", "250000 100000\n");
    write("fs/cpu.max", "800000 100000\n");
    write("fs/a/b/memory.max", "1000000\n");
    EXPECT_EQ(cgroup_cpus(roots()), 3);
    EXPECT_EQ(cgroup_memory(roots()), 1000000);
}

TEST_F(Cgroup, S67_quotas_of_version_one_are_honoured) {
    write("self", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/\n");
    write("fs/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"); // the container sees its group at the mount
    write("fs/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    write("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
    EXPECT_EQ(cgroup_cpus(roots()), 1);
    EXPECT_EQ(cgroup_memory(roots()), std::nullopt);
    write("fs/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
    write("fs/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(cgroup_cpus(roots()), 1);
}

TEST_F(Cgroup, NoQuotaAndNonsenseAreNoQuota) {
    EXPECT_EQ(cgroup_cpus(roots()), std::nullopt);
    write("self", "nonsense\n0::/\n");
    write("fs/cpu.max", "what is this\n");
    EXPECT_EQ(cgroup_cpus(roots()), std::nullopt);
    EXPECT_EQ(cgroup_memory(roots()), std::nullopt);
}

TEST(Semantics, S65_a_child_forked_after_the_parent_has_run_something_gets_a_clear_error) {
    parallel_for(1, 1, [](int64_t, int64_t) {});
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        int code = 1;
        try {
            parallel_for(1, 1, [](int64_t, int64_t) {});
        } catch (const ir::Failure &failure) {
            if (failure.kind() == ir::ErrorKind::State &&
                failure.message().find("forked") != std::string::npos)
                code = 0;
        }
        _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    parallel_for(1, 1, [](int64_t, int64_t) {}); // the parent goes on
}

TEST(CpuBackend, MemoryIsAlignedWritableAndComesBack) {
    CpuBackend backend({}, size_t{64} << 20);
    for (size_t bytes : {size_t{1}, size_t{513}, size_t{100000}, size_t{2} << 20, (size_t{5} << 20) + 1}) {
        void *memory = backend.allocate(bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 512, 0u);
        if (bytes >= size_t{2} << 20) {
            EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % (size_t{2} << 20), 0u)
                << "where a huge page can lie";
        }
        std::memset(memory, 1, bytes);
        backend.free(memory, bytes);
    }
    void *memory = backend.allocate(size_t{60} << 20);
    EXPECT_THROW(backend.allocate(size_t{5} << 20), ir::Failure);
    backend.free(memory, size_t{60} << 20);
    backend.free(backend.allocate(size_t{64} << 20), size_t{64} << 20);
    for (size_t bytes : {SIZE_MAX, SIZE_MAX - (size_t{1} << 20)})
        EXPECT_THROW(backend.allocate(bytes), ir::Failure);
}

TEST(CpuBackend, CopiesLargeAndSmall) {
    CpuBackend backend;
    for (size_t bytes : {size_t{0}, size_t{13}, (size_t{3} << 20) + 7}) {
        std::vector<char> from(bytes), to(bytes + 1, 'x');
        for (size_t i = 0; i < bytes; ++i)
            from[i] = static_cast<char>(i * 31);
        backend.copy(to.data(), from.data(), bytes, 0);
        EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
        EXPECT_EQ(to.back(), 'x');
    }
}

TEST(CpuBackend, WithoutALoaderLoadingSaysSo) {
    CpuBackend backend;
    try {
        CompiledKernel kernel;
        kernel.name = "relu";
        backend.load(kernel);
        FAIL();
    } catch (const ir::Failure &failure) {
        EXPECT_EQ(failure.kind(), ir::ErrorKind::Compile);
        EXPECT_THAT(failure.message(), testing::HasSubstr("relu"));
    }
}

/// Whether the system was asked for huge pages where the address is; nothing where it does not tell.
std::optional<bool> asked_for_huge_pages(const void *address) {
    std::ifstream maps("/proc/self/smaps");
    bool here = false;
    for (std::string line; std::getline(maps, line);) {
        uintptr_t begin = 0, end = 0;
        if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2)
            here =
                begin <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < end;
        else if (here && line.starts_with("VmFlags:"))
            return line.find(" hg") != std::string::npos;
    }
    return std::nullopt;
}

// A small program touches little of its only block.
TEST(CpuMemory, TheFirstBlockHasHugePagesWhenThereIsASecond) {
    CpuBackend cpu([](const CompiledKernel &) { return std::unique_ptr<Module>(); });
    auto *const first = static_cast<unsigned char *>(cpu.allocate(kHugePage));
    std::memset(first, 7, kHugePage / 2);
    const auto before = asked_for_huge_pages(first);
    void *const second = cpu.allocate(kHugePage), *const third = cpu.allocate(3 * kHugePage);
    const auto after = asked_for_huge_pages(first);
    EXPECT_TRUE(std::all_of(first, first + kHugePage / 2, [](unsigned char byte) { return byte == 7; }));
    EXPECT_TRUE(
        std::all_of(first + kHugePage / 2, first + kHugePage, [](unsigned char b) { return b == 0; }));
    if (before && after) {
        EXPECT_FALSE(*before);
        EXPECT_TRUE(*after);
        EXPECT_TRUE(*asked_for_huge_pages(second) && *asked_for_huge_pages(third));
    }
    cpu.free(first, kHugePage);
    cpu.free(second, kHugePage);
    cpu.free(third, 3 * kHugePage);
}

} // namespace
} // namespace lz::runtime
