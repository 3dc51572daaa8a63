#pragma once
/// Options that are set one after the other: `LinearOptions(3, 4).bias(false)`.

#include <utility>

/// A value that options hold, set as `.name(value)` and read as `.name()`.
#define LZ_OPTION(Type, name, value)                                                                         \
public:                                                                                                      \
    auto name(Type new_value) -> decltype(*this) {                                                           \
        name##_ = std::move(new_value);                                                                      \
        return *this;                                                                                        \
    }                                                                                                        \
    const Type &name() const noexcept {                                                                      \
        return name##_;                                                                                      \
    }                                                                                                        \
                                                                                                             \
private:                                                                                                     \
    Type name##_ = value;                                                                                    \
                                                                                                             \
public:                                                                                                      \
    static_assert(true)
