#include "ir/host/functions.h"

#include "ir/host/fold_levels.h"
#include "ir/host/product_parts.h"

#include <algorithm>
#include <iterator>

namespace lz::ir {

namespace {

struct Function {
    std::string_view name;
    void *address;
};

template <class F>
Function function(const char *name, F *address) {
    return {name, reinterpret_cast<void *>(address)};
}

} // namespace

void *find_host_function(std::string_view name) {
    static const Function kFunctions[] = {
        function(kFoldLevelsSymbol, fold_levels),
        function(kFoldResultsSymbol, fold_results),
#if defined(__x86_64__)
        function(kPartSymbols[0].multiply_tile, multiply_tile_f32),
        function(kPartSymbols[0].pack_rows, pack_rows_f32),
        function(kPartSymbols[0].pack_columns, pack_columns_f32),
        function(kPartSymbols[1].multiply_tile, multiply_tile_f64),
        function(kPartSymbols[1].pack_rows, pack_rows_f64),
        function(kPartSymbols[1].pack_columns, pack_columns_f64),
#endif
    };
    const auto *const found = std::ranges::find(kFunctions, name, &Function::name);
    return found == std::end(kFunctions) ? nullptr : found->address;
}

} // namespace lz::ir
