# How every file of the project is compiled and linked.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # the static layers end up in liblazuli.so
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

# Flags of the project's own targets; never seen by its users.
add_library(lazuli_flags INTERFACE)
target_compile_options(lazuli_flags INTERFACE
    -Wall -Wextra -Wconversion
    -ffp-contract=off # the interpreter is the oracle: its bits may not depend on the host's having FMA
    # GCC's -Wconversion leaves signedness alone in C++, clang's does not: the same rule for both.
    $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
    $<$<BOOL:${LAZULI_WERROR}>:-Werror>)

# lazuli_short_fills(TARGET...): for layers where a user's call is some hundred instructions. GCC 12 fills objects of about a
# hundred bytes with `rep stos`, which begins slowly: by plain stores a call of a compiled function takes 5 % less.
function(lazuli_short_fills)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
        foreach(target IN LISTS ARGN)
            target_compile_options(${target} PRIVATE
                -mmemset-strategy=unrolled_loop:256:noalign,libcall:-1:noalign
                -mmemcpy-strategy=unrolled_loop:128:noalign,libcall:-1:noalign)
        endforeach()
    endif()
endfunction()

# --- sanitizers: flags for the whole tree, and a macro by which code generation instruments its modules
if(LAZULI_SANITIZE STREQUAL "address")
    # No -fsanitize=function: it reads a signature in front of the callee, which code from the JIT does not have.
    set(lazuli_sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        list(APPEND lazuli_sanitize -fno-sanitize=function)
    endif()
    target_compile_definitions(lazuli_flags INTERFACE LAZULI_SANITIZE_ADDRESS=1)
elseif(LAZULI_SANITIZE STREQUAL "thread")
    set(lazuli_sanitize -fsanitize=thread)
    target_compile_definitions(lazuli_flags INTERFACE LAZULI_SANITIZE_THREAD=1)
elseif(LAZULI_SANITIZE)
    message(FATAL_ERROR "LAZULI_SANITIZE is '${LAZULI_SANITIZE}'; it can be 'address', 'thread' or empty.")
endif()
if(lazuli_sanitize)
    add_compile_options(${lazuli_sanitize} -fno-omit-frame-pointer)
    add_link_options(${lazuli_sanitize})
endif()

# --- lld, where found: linking is a good part of a small change's build
set(lazuli_llvm_versions 22 23 24 21 20 19) # in order of preference
foreach(version IN LISTS lazuli_llvm_versions)
    list(APPEND lazuli_llvm_bin /usr/lib/llvm-${version}/bin)
endforeach()
find_program(LAZULI_LLD ld.lld HINTS ${lazuli_llvm_bin})
if(LAZULI_LLD)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        add_link_options(--ld-path=${LAZULI_LLD})
    else()
        cmake_path(GET LAZULI_LLD PARENT_PATH lazuli_lld_folder)
        add_link_options(-fuse-ld=lld -B${lazuli_lld_folder})
    endif()
endif()

# --- ccache, where found: paths relative to the tree, so that two build folders share their objects
find_program(LAZULI_CCACHE ccache)
if(LAZULI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${LAZULI_CCACHE})
endif()

if(LAZULI_CLANG_TIDY)
    find_program(LAZULI_CLANG_TIDY_PROGRAM NAMES clang-tidy HINTS ${lazuli_llvm_bin} REQUIRED)
    set(CMAKE_CXX_CLANG_TIDY ${LAZULI_CLANG_TIDY_PROGRAM} --quiet)
endif()
