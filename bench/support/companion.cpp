#include "bench/support/companion.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <iostream>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace lz::bench {

namespace {

constexpr std::string_view kFailed = "failed: ";

/// This process's, without those that are given, and these.
std::vector<std::string> environment_with(const std::vector<std::string> &variables) {
    std::vector<std::string> all = variables;
    for (char **at = environ; *at; ++at) {
        const std::string_view entry = *at;
        const std::string_view name = entry.substr(0, entry.find('=') + 1);
        bool given = false;
        for (const std::string &variable : variables)
            given = given || variable.starts_with(name);
        if (!given)
            all.emplace_back(entry);
    }
    return all;
}

std::vector<char *> pointers_of(std::vector<std::string> &strings) {
    std::vector<char *> pointers;
    for (std::string &string : strings)
        pointers.push_back(string.data());
    pointers.push_back(nullptr);
    return pointers;
}

} // namespace

Companion::Companion(const std::vector<std::string> &command, const std::vector<std::string> &variables)
    : program_(command.front()) {
    int there[2], back[2];
    if (::pipe2(there, O_CLOEXEC) != 0 || ::pipe2(back, O_CLOEXEC) != 0)
        throw std::runtime_error("there is no pipe to " + program_);
    std::signal(SIGPIPE, SIG_IGN); // one that has ended is an error of `ask`
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, there[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, back[1], STDOUT_FILENO);
    std::vector<std::string> words = command, all = environment_with(variables);
    const int error = ::posix_spawn(&process_, program_.c_str(), &actions, nullptr, pointers_of(words).data(),
                                    pointers_of(all).data());
    posix_spawn_file_actions_destroy(&actions);
    ::close(there[0]);
    ::close(back[1]);
    to_ = there[1];
    from_ = back[0];
    if (error != 0) {
        process_ = -1;
        ::close(to_);
        ::close(from_);
        throw std::runtime_error(program_ + " does not start: " + std::strerror(error));
    }
}

Companion::~Companion() {
    ::close(to_);
    ::close(from_);
    ::waitpid(process_, nullptr, 0);
}

std::string Companion::ask(const std::string &request) {
    const std::string line = request + "\n";
    std::string answer;
    bool there = ::write(to_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    char next = 0;
    while (there && (there = ::read(from_, &next, 1) == 1) && next != '\n')
        answer += next;
    if (!there)
        throw std::runtime_error(program_ + " has ended, asked for \"" + request + "\"");
    if (answer.starts_with(kFailed))
        throw std::runtime_error(answer.substr(kFailed.size()));
    return answer;
}

double Companion::number(const std::string &request) {
    return std::stod(ask(request));
}

int serve(const std::function<std::string(const std::vector<std::string> &words)> &answer) {
    // Answers go where libraries' output does not.
    std::FILE *const out = ::fdopen(::dup(STDOUT_FILENO), "w");
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    for (std::string line; std::getline(std::cin, line);) {
        std::vector<std::string> words;
        std::istringstream in(line);
        for (std::string word; in >> word;)
            words.push_back(word);
        std::string text;
        try {
            text = answer(words);
        } catch (const std::exception &error) {
            text = std::string(kFailed) + error.what();
        }
        for (char &c : text)
            c = c == '\n' ? ' ' : c;
        std::fprintf(out, "%s\n", text.c_str());
        std::fflush(out);
    }
    std::fclose(out);
    return 0;
}

} // namespace lz::bench
