#pragma once
/// A process beside this one that takes turns with it: a peer whose libraries do not go with ours (another
/// TBB), or Lazuli itself with other environment variables, or without its compiler. It does nothing until it
/// is asked.

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace lz::bench {

/// Asks a line, and reads the line that answers it. One thread.
class Companion {
public:
    /// Starts a program with arguments, and with environment variables "NAME=value" on top of this process's.
    /// Throws std::runtime_error where it cannot be started.
    explicit Companion(const std::vector<std::string> &command,
                       const std::vector<std::string> &variables = {});
    Companion(const Companion &) = delete;
    Companion &operator=(const Companion &) = delete;
    /// Ends it.
    ~Companion();

    /// Throws std::runtime_error where the answer says that it failed, with its words, and where the process
    /// has ended.
    std::string ask(const std::string &request);
    /// An answer that is a number.
    double number(const std::string &request);

private:
    std::string program_;
    pid_t process_ = -1;
    int to_ = -1, from_ = -1;
};

/// What the process does: answers each line of its input, by its words, until there are no more. What
/// `answer` throws is the answer, too: the asking side throws it again.
int serve(const std::function<std::string(const std::vector<std::string> &words)> &answer);

} // namespace lz::bench
