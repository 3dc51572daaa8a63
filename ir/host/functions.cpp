#include "ir/host/functions.h"

#include "ir/host/fold_levels.h"
#include "ir/host/product_parts.h"

namespace lz::ir {

namespace {

template <class F>
void *address_of(F *function) {
    return reinterpret_cast<void *>(function);
}

void *find_part(const ProductParts &parts, std::string_view name) {
    return name == parts.multiply_tile_name  ? address_of(parts.multiply_tile)
           : name == parts.pack_rows_name    ? address_of(parts.pack_rows)
           : name == parts.pack_columns_name ? address_of(parts.pack_columns)
                                             : nullptr;
}

} // namespace

void *find_host_function(std::string_view name) {
    if (name == kFoldLevelsSymbol)
        return address_of(fold_levels);
    if (name == kFoldResultsSymbol)
        return address_of(fold_results);
    for (const PartSet *set : {kAvx512Parts, kAvxParts})
        if (set)
            for (const ProductParts *parts : {&set->f32, &set->f64})
                if (void *const found = find_part(*parts, name))
                    return found;
    return nullptr;
}

} // namespace lz::ir
