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
    if (name == parts.multiply_tile_name)
        return address_of(parts.multiply_tile);
    if (parts.pack_gathered && name == parts.pack_gathered_name)
        return address_of(parts.pack_gathered);
    if (parts.pack_panels && name == parts.pack_panels_name)
        return address_of(parts.pack_panels);
    return parts.pack_panel && name == parts.pack_panel_name ? address_of(parts.pack_panel) : nullptr;
}

} // namespace

void *find_host_function(std::string_view name) {
    if (name == kFoldLevelsSymbol)
        return address_of(fold_levels);
    if (name == kFoldResultsSymbol)
        return address_of(fold_results);
    if (name == kFillPlacesSymbol)
        return address_of(fill_places);
    if (name == kPackGathered32Symbol)
        return address_of(pack_gathered_32);
    if (name == kPackGathered64Symbol)
        return address_of(pack_gathered_64);
    for (const PartSet *set : {kAvx512Parts, kAvxParts})
        if (set)
            for (const ProductParts *parts : {&set->f32, &set->f64})
                if (void *const found = find_part(*parts, name))
                    return found;
    for (const ProductParts *parts : {kBf16Parts, kI16PairParts, kI16PairAvx2Parts, kInt8Parts})
        if (parts)
            if (void *const found = find_part(*parts, name))
                return found;
    return nullptr;
}

} // namespace lz::ir
