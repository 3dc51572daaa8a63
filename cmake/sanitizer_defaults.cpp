// What the sanitizers are told in every test program, so that a test run by hand behaves as it does under
// ctest.

extern "C" {

extern const int lazuli_sanitizer_defaults;
const int lazuli_sanitizer_defaults = 1; // the linker takes this file for it, see tests/CMakeLists.txt

#if defined(LAZULI_SANITIZE_ADDRESS)

const char *__asan_default_options();
const char *__asan_default_options() {
    return "detect_stack_use_after_return=1:strict_init_order=1:check_initialization_order=1:"
           "allocator_may_return_null=1" /* tests ask for more than there is */;
}

const char *__ubsan_default_options();
const char *__ubsan_default_options() {
    return "print_stacktrace=1";
}

#elif defined(LAZULI_SANITIZE_THREAD)

const char *__tsan_default_options();
const char *__tsan_default_options() {
    return "halt_on_error=1:second_deadlock_stack=1:history_size=4:allocator_may_return_null=1";
}

// oneTBB and LLVM are not instrumented: what they do is ordered by atomics that cannot be seen here (memset
// and the like in the one, statics whose counts our inlined copies of LLVM's headers touch in the other).
const char *__tsan_default_suppressions();
const char *__tsan_default_suppressions() {
    return "called_from_lib:libtbb.so\n"
           "race:llvm::PassBuilder::~PassBuilder\n";
}

#endif
}
