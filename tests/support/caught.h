#pragma once
/// What the public API throws.

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <string>

namespace lz::test {

/// The message and line of the E that f throws; fails when it throws none.
struct Caught {
    std::string what;
    uint32_t line = 0;
    bool has(const std::string &part) const { return what.find(part) != std::string::npos; }
};
template <class E, class F>
Caught caught(F &&f) {
    try {
        f();
    } catch (const E &error) {
        return {error.what(), error.line()};
    } catch (const std::exception &error) {
        ADD_FAILURE() << "another error: " << error.what();
        return {};
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
}

} // namespace lz::test
