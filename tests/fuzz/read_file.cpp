// libFuzzer: `load` takes any bytes: safetensors, .npy, .npz, .pt. What it accepts, can be read.
#include "tests/support/any_file.h"

#include <cstdlib>

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    setenv("LAZULI_CODEGEN", "interpret", 1); // views are computed; compiling them would take all the time
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lz::test::refusal_of({reinterpret_cast<const std::byte *>(data), size});
    return 0;
}
