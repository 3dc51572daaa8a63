#include "ir/host/functions.h"

#include "ir/host/fold_levels.h"
#include "ir/host/product/parts.h"

namespace lz::ir {

namespace {

template <class F>
void *address_of(F *function) {
    return reinterpret_cast<void *>(function);
}

void *find_part(const ProductParts &parts, std::string_view name) {
    return name == parts.multiply_tile_name ? address_of(parts.multiply_tile)
           : name == parts.pack_panel_name  ? address_of(parts.pack_panel)
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
    if (kBf16Parts)
        return find_part(*kBf16Parts, name);
    return nullptr;
}

} // namespace lz::ir
