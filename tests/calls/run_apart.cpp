// One program in a process of its own.
#include "generate.h"

#include "tests/support/environment.h"

#include <csignal>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include <fmt/format.h>

namespace lz::test::calls {

std::string run_apart(const Program &program) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0)
        throw std::runtime_error("pipe failed");
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(ends[0]);
        std::string what;
        try {
            what = run(program);
        } catch (const std::exception &error) {
            what = std::string("throws out of the test: ") + error.what();
        }
        const ssize_t written = ::write(ends[1], what.data(), what.size());
        std::_Exit(written == static_cast<ssize_t>(what.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    std::string what;
    std::array<char, 4096> block;
    const int limit = static_cast<int>(number_from("LAZULI_FUZZ_SECONDS", 20)) * 1000;
    bool hangs = false;
    for (;;) {
        pollfd wait{ends[0], POLLIN, 0};
        if (::poll(&wait, 1, limit) == 0) {
            hangs = true;
            ::kill(child, SIGKILL);
            break;
        }
        const ssize_t got = ::read(ends[0], block.data(), block.size());
        if (got <= 0)
            break;
        what.append(block.data(), static_cast<size_t>(got));
    }
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (hangs)
        return "does not come: to its end";
    if (WIFSIGNALED(status))
        return fmt::format("dies: of signal {}", WTERMSIG(status));
    return what.empty() && status != 0 ? fmt::format("exits: with status {}", status) : what;
}

} // namespace lz::test::calls
