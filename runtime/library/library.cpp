#include "runtime/api/library.h"

#include "runtime/library/functions.h"

#include <algorithm>
#include <utility>

namespace lz::runtime {

LibraryFn find_library(std::string_view symbol) {
    static constexpr std::pair<std::string_view, LibraryFn> kSymbols[] = {
        {"cumsum", cumsum},
        {"cumprod", cumprod},
        {"sort", sort},
        {"scatter", scatter},
    };
    const auto *found = std::ranges::find(kSymbols, symbol, &std::pair<std::string_view, LibraryFn>::first);
    return found == std::end(kSymbols) ? nullptr : found->second;
}

} // namespace lz::runtime
