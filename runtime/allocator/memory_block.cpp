#include "runtime/allocator/memory_block.h"

#include <bit>

namespace lz::runtime {

size_t FreeBlocks::bin_of(size_t size) {
    size_t units = size / kMinBlock;
    if (units < kExact)
        return units;
    auto power = static_cast<size_t>(std::bit_width(units)) - 1; // at least 12
    size_t part = (units >> (power - 4)) & (kPerPower - 1);
    return kExact + (power - 12) * kPerPower + part;
}

size_t FreeBlocks::next_bin(size_t bin) const {
    size_t word = bin / 64;
    if (word >= kWords)
        return kBins;
    if (uint64_t rest = filled_[word] >> (bin % 64))
        return bin + static_cast<size_t>(std::countr_zero(rest));
    ++word;
    for (size_t top = word / 64; top < kTops; ++top, word = top * 64) {
        uint64_t words = filled_words_[top];
        if (word % 64)
            words = words >> (word % 64) << (word % 64);
        if (words) {
            size_t found = top * 64 + static_cast<size_t>(std::countr_zero(words));
            return found * 64 + static_cast<size_t>(std::countr_zero(filled_[found]));
        }
    }
    return kBins;
}

void FreeBlocks::insert(Block *block) {
    size_t bin = bin_of(block->size);
    Block *previous = nullptr;
    Block *next = bins_[bin];
    while (next && next->size < block->size) { // a bin of one size: never
        previous = next;
        next = next->next;
    }
    block->previous = previous;
    block->next = next;
    (previous ? previous->next : bins_[bin]) = block;
    if (next)
        next->previous = block;
    filled_[bin / 64] |= uint64_t{1} << (bin % 64);
    filled_words_[bin / 4096] |= uint64_t{1} << (bin / 64 % 64);
}

void FreeBlocks::remove(Block *block) {
    size_t bin = bin_of(block->size);
    (block->previous ? block->previous->next : bins_[bin]) = block->next;
    if (block->next)
        block->next->previous = block->previous;
    block->previous = block->next = nullptr;
    if (!bins_[bin]) {
        filled_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
        if (!filled_[bin / 64])
            filled_words_[bin / 4096] &= ~(uint64_t{1} << (bin / 64 % 64));
    }
}

Block *FreeBlocks::best_fit(size_t size) const {
    size_t bin = bin_of(size);
    if (bin >= kExact) {
        for (Block *block = bins_[bin]; block; block = block->next)
            if (block->size >= size)
                return block;
        ++bin;
    }
    bin = next_bin(bin);
    return bin < kBins ? bins_[bin] : nullptr;
}

Block *FreeBlocks::largest() const {
    for (size_t word = kWords; word-- > 0;)
        if (filled_[word]) {
            Block *block = bins_[word * 64 + 63 - static_cast<size_t>(std::countl_zero(filled_[word]))];
            while (block->next)
                block = block->next;
            return block;
        }
    return nullptr;
}

size_t BlockTable::position(const void *memory) const {
    size_t mask = slots_.size() - 1;
    size_t at = home(memory);
    while (slots_[at] && slots_[at]->memory != memory)
        at = (at + 1) & mask;
    return at;
}

void BlockTable::insert(Block *block) noexcept {
    slots_[position(block->memory)] = block;
    ++count_;
}

Block *BlockTable::find(const void *memory) const {
    return slots_[position(memory)];
}

Block *BlockTable::take(const void *memory) {
    size_t hole = position(memory);
    Block *taken = slots_[hole];
    if (!taken)
        return nullptr;
    // Entries after the hole that would no longer be found move into it.
    size_t mask = slots_.size() - 1;
    for (size_t at = (hole + 1) & mask; slots_[at]; at = (at + 1) & mask)
        if (((at - home(slots_[at]->memory)) & mask) >= ((at - hole) & mask)) {
            slots_[hole] = slots_[at];
            hole = at;
        }
    slots_[hole] = nullptr;
    --count_;
    return taken;
}

void BlockTable::grow() {
    std::vector<Block *> old(slots_.size() * 2);
    old.swap(slots_);
    --shift_;
    for (Block *block : old)
        if (block)
            slots_[position(block->memory)] = block;
}

void BlockArena::grow() {
    recycle(&blocks_.emplace_back());
}

} // namespace lz::runtime
