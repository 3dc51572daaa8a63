// libFuzzer: the reader of CIFAR's records, packed or not. The first byte of an input says which of the two
// sets it is of.
#include "frontend/data/image_files.h"
#include "structured.h"

#include <lazuli/core/error.h>

namespace {

constexpr size_t kImage = size_t{3} * 32 * 32;

void change_records(std::string &file, size_t labels, lz::fuzz::Random &random) {
    const size_t record = labels + kImage;
    switch (random.below(5)) {
    case 0:
        lz::fuzz::change(file);
        break;
    case 1:
        lz::fuzz::change_length(file, random);
        break;
    case 2: // whole records more or less
        file.resize(record * random.below(4), static_cast<char>(random.below(8)));
        break;
    default: // a label
        if (file.size() >= record)
            file[random.below(file.size() / record) * record + random.below(labels)] =
                static_cast<char>(random.below(256));
        else
            file.resize(record);
    }
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return lz::fuzz::mutate(
        data, size, max_size, seed, [](const std::string &input, lz::fuzz::Random &random) -> std::string {
            if (input.empty())
                return {};
            const std::string first(1, random.one_in(8) ? static_cast<char>(random.below(2)) : input[0]);
            return first + lz::fuzz::change_packed(input.substr(1), random, [&](std::string &plain) {
                       change_records(plain, first[0] % 2 == 0 ? 1 : 2, random);
                   });
        });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static lz::fuzz::MemoryFile file;
    const bool hundred = size > 0 && data[0] % 2 != 0;
    file.write(data + (size > 0), size - (size > 0));
    try {
        const lz::data::ImageRecords read =
            lz::data::read_cifar({file.path()}, hundred ? 2 : 1, hundred ? 100 : 10, "CIFAR", {});
        if (read.pixels.size() != read.labels.size() * kImage || read.labels.empty())
            std::abort();
        for (const int64_t label : read.labels)
            if (label < 0 || label >= (hundred ? 100 : 10))
                std::abort();
    } catch (const lz::IoError &) {
    }
    return 0;
}
