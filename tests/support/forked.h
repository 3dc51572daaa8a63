#pragma once

#include <lazuli/lazuli.h>

#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace lz::test {

/// Calls f in a forked child. 42: it threw the StateError of S65, with a line; 1: nothing; 2: something else;
/// 3: a StateError that says something else; below 0: the signal that ended it, after 20 seconds at the
/// latest.
template <class F>
int in_child(F &&f) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20); // instead of hanging
        int result = 1;
        try {
            f();
        } catch (const StateError &error) {
            const bool clear = std::string(error.what()).find("was forked") != std::string::npos;
            result = clear && error.file() ? 42 : 3;
        } catch (...) {
            result = 2;
        }
        ::_exit(result);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

} // namespace lz::test
