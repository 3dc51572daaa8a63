// libFuzzer: `load` of safetensors and of their index. What it accepts, can be read.
#include "structured.h"
#include "tests/support/files/any_file.h"

namespace {

/// The length of the header is right again, most of the time.
std::string changed(std::string file, lz::fuzz::Random &random) {
    uint64_t length = 0;
    if (file.size() >= sizeof length)
        std::memcpy(&length, file.data(), sizeof length);
    if (file.size() < sizeof length || length > file.size() - sizeof length) {
        if (!lz::fuzz::change_digits(file, random) || random.one_in(2))
            lz::fuzz::change(file);
        return file;
    }
    std::string head = file.substr(sizeof length, length), elements = file.substr(sizeof length + length);
    switch (random.below(4)) {
    case 0:
        lz::fuzz::change_length(elements, random);
        break;
    case 1:
        lz::fuzz::change(head);
        break;
    default:
        for (size_t numbers = 1 + random.below(3); numbers > 0; --numbers)
            lz::fuzz::change_digits(head, random);
    }
    length = random.one_in(16) ? lz::fuzz::odd_number(random) : head.size();
    return std::string(reinterpret_cast<const char *>(&length), sizeof length) + head + elements;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return lz::fuzz::mutate(data, size, max_size, seed, changed);
}

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    setenv("LAZULI_CODEGEN", "interpret", 1); // views are computed; compiling them would take all the time
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lz::test::refusal_of({reinterpret_cast<const std::byte *>(data), size});
    return 0;
}
