#pragma once
/// Calls that are made to fail, and the count of all.

#include "tests/support/cuda/driver/cuda_api.h"

#include <string>

namespace lz::fake_cuda {

/// Counts a call of the function; what it has to fail with, else CUDA_SUCCESS. `stays`: it is an error of the
/// context that is current, too. Any thread.
CUresult count_call(const char *function, bool &stays);
/// The same, and the context has it.
CUresult fail_or_count(const char *function);

/// Keeps a report for lazuli_fake_cuda_message and writes it to stderr.
void report(const std::string &text);

/// One exported function: the name that cuGetProcAddress is asked for, and the first version of CUDA that
/// has it in this form.
struct Exported {
    const char *symbol;
    int version;
    void *address;
};
/// All of them, ended by a null symbol; made of functions.def.
const Exported *exported_functions();

} // namespace lz::fake_cuda
