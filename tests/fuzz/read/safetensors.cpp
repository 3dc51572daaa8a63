// libFuzzer: `load` of safetensors and of their index. What it accepts, can be read.
#include "safetensors.h"
#include "tests/support/files/any_file.h"

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return lz::fuzz::mutate(data, size, max_size, seed, lz::fuzz::change_safetensors);
}

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    setenv("LAZULI_CODEGEN", "interpret", 1); // views are computed; compiling them would take all the time
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lz::test::refusal_of({reinterpret_cast<const std::byte *>(data), size});
    return 0;
}
