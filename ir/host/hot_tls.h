#pragma once
/// How the variables of a thread that every operation looks at are declared:
///
///     LZ_HOT_TLS constinit thread_local T *mine = nullptr;
///
/// Their place is fixed when the library is loaded, so that they are read without a call of the loader's
/// (Drepper, "ELF Handling For Thread-Local Storage", 4.2: initial exec). That room is small where a library
/// is opened at run time: pointers and flags only, without destructors.
#define LZ_HOT_TLS [[gnu::tls_model("initial-exec")]]
