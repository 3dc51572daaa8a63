#include "runtime/api/library.h"

#include "ir/host/calls.h"
#include "runtime/library/functions.h"

#include <algorithm>

namespace lz::runtime {

namespace {

constexpr LibraryFunction kFunctions[] = {
    {{"concat", concat_scratch}, concat}, {{"cumsum", nullptr}, cumsum},
    {{"cumprod", nullptr}, cumprod},      {{"cummax", nullptr}, cummax},
    {{"cummin", nullptr}, cummin},        {{"sort", sort_scratch}, sort},
    {{"topk", topk_scratch}, topk},       {{"scatter", scatter_scratch}, scatter},
};
/// Of all functions that users register.
constexpr ir::LibraryRule kRegistered = {ir::kCallPrefix, registered_call_scratch};

const LibraryFunction *find_function(std::string_view symbol) {
    const auto *found = std::ranges::find(kFunctions, symbol, &LibraryFunction::symbol);
    return found == std::end(kFunctions) ? nullptr : found;
}

const ir::LibraryRule *find_rule(std::string_view symbol) {
    return symbol.starts_with(ir::kCallPrefix) ? &kRegistered : find_function(symbol);
}

} // namespace

const ir::LibraryRules &cpu_library() {
    static constexpr ir::LibraryRules kRules = {"cpu", find_rule};
    return kRules;
}

LibraryFn find_cpu_function(std::string_view symbol) {
    if (symbol.starts_with(ir::kCallPrefix))
        return find_registered_call(symbol.substr(ir::kCallPrefix.size()));
    const LibraryFunction *const found = find_function(symbol);
    return found ? LibraryFn(found->run) : LibraryFn();
}

} // namespace lz::runtime
