#include "runtime/api/library.h"

#include "ir/host/calls.h"
#include "runtime/library/functions.h"

#include <algorithm>
#include <utility>

namespace lz::runtime {

LibraryFn find_library(std::string_view symbol) {
    static constexpr std::pair<std::string_view, LibraryFn::Plain> kSymbols[] = {
        {"concat", concat}, {"cumsum", cumsum}, {"cumprod", cumprod}, {"sort", sort}, {"scatter", scatter},
    };
    if (symbol.starts_with(ir::kCallPrefix))
        return find_registered_call(symbol.substr(ir::kCallPrefix.size()));
    const auto *found =
        std::ranges::find(kSymbols, symbol, &std::pair<std::string_view, LibraryFn::Plain>::first);
    return found == std::end(kSymbols) ? LibraryFn() : LibraryFn(found->second);
}

} // namespace lz::runtime
