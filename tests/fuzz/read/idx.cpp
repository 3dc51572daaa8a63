// libFuzzer: the reader of MNIST's IDX files, packed or not. What it accepts, can be read.
#include "structured.h"

#include <lazuli/data/images.h>

namespace {

/// A number of the shape, or the type, or bytes more or less.
void change_idx(std::string &file, lz::fuzz::Random &random) {
    if (file.size() < 8)
        return lz::fuzz::change(file);
    switch (random.below(5)) {
    case 0:
        lz::fuzz::change(file);
        break;
    case 1:
        lz::fuzz::change_length(file, random);
        break;
    case 2: // the type, or how many axes
        file[2 + random.below(2)] = static_cast<char>(random.below(16));
        break;
    default: { // an extent, big-endian
        const size_t axes = std::min<size_t>(static_cast<uint8_t>(file[3]), (file.size() - 4) / 4);
        const size_t at = 4 + 4 * random.below(std::max<size_t>(axes, 1));
        const uint64_t number = lz::fuzz::odd_number(random);
        for (size_t i = 0; i < 4; ++i)
            file[at + i] = static_cast<char>((random.one_in(2) ? number
                                              : i == 3         ? random.below(32)
                                                               : 0) >>
                                             (8 * (3 - i)));
    }
    }
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return lz::fuzz::mutate(data, size, max_size, seed,
                            [](const std::string &file, lz::fuzz::Random &random) {
                                return lz::fuzz::change_packed(
                                    file, random, [&](std::string &plain) { change_idx(plain, random); });
                            });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static lz::fuzz::MemoryFile file;
    file.write(data, size);
    try {
        const lz::Tensor read = lz::data::read_idx(file.path());
        unsigned sum = 0;
        const int64_t bytes = read.numel() * lz::size_of(read.dtype());
        const auto *const elements = bytes ? static_cast<const uint8_t *>(read.data<void>()) : nullptr;
        for (int64_t i = 0; i < bytes; ++i)
            sum += elements[i];
        [[maybe_unused]] static volatile unsigned seen;
        seen = sum;
    } catch (const lz::IoError &) {
    }
    return 0;
}
