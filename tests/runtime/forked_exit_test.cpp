// The end of a forked child.
#include "runtime/before_exit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace lz::runtime {
namespace {

/// A forked child has none of its parent's other threads, and does not wait for them.
TEST(ForkedExitDeathTest, S68_a_forked_child_leaves_whoever_computes_in_its_parent) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            static constinit std::atomic<bool> inside{false};
            std::thread([] {
                const BeforeExit before_exit;
                inside = true;
                std::this_thread::sleep_for(std::chrono::hours(1));
            }).detach();
            while (!inside)
                std::this_thread::yield();
            const pid_t child = fork();
            if (child == 0) {
                ::alarm(4); // exit gives up on who is stuck after five seconds
                std::exit(0);
            }
            int status = 0;
            waitpid(child, &status, 0);
            _exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 9);
        },
        testing::ExitedWithCode(0), "");
}

} // namespace
} // namespace lz::runtime
