#pragma once
/// Fails the process, with the program in C++, when a program does not come to its end.

#include "program.h"

namespace lz::test::calls {

class Watchdog {
public:
    /// While it lives the program may run for LAZULI_FUZZ_SECONDS (120; 600 in sanitizer builds).
    class Guard {
    public:
        explicit Guard(const Program &program);
        ~Guard();
        Guard(const Guard &) = delete;
        Guard &operator=(const Guard &) = delete;

    private:
        size_t slot_;
    };
};

} // namespace lz::test::calls
