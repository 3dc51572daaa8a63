# Each public header compiles alone, in any order, with nothing but its own include root: no IR, LLVM, CUDA or private
# header, and nothing that the user would have to include first.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE headers RELATIVE "${SOURCE}/frontend/include/lazuli" "${SOURCE}/frontend/include/lazuli/*.h")
if(NOT headers)
    message(FATAL_ERROR "Found no public header in frontend/include/lazuli/.")
endif()
set(file "${BUILD}/public_header.cpp")
foreach(name IN LISTS headers)
    file(WRITE "${file}" "#include <lazuli/${name}>\n#include <lazuli/${name}>\n")
    execute_process(
        COMMAND "${CXX}" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -H "-I${SOURCE}/frontend/include" "${file}"
        RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
        message(SEND_ERROR "<lazuli/${name}> does not compile alone:\n${output}")
    endif()
    # clang's own headers (stdint.h) lie below its folder of LLVM.
    string(REGEX REPLACE "\n[^\n]*/lib/clang/[^\n]*" "" output "${output}")
    # Ours of such names are not the toolkit's.
    string(REGEX REPLACE "\n[^\n]*/lazuli/device/cuda[a-z_]*\\.h" "" output "${output}")
    if(status EQUAL 0 AND output MATCHES "\n\\.+ ([^\n]*(frontend/record|/llvm|/fmt|/tbb|/oneapi|/nlohmann|cuda)[^\n]*\\.h[^\n]*)")
        message(SEND_ERROR "<lazuli/${name}> includes ${CMAKE_MATCH_1}; public headers hide what is behind them.")
    endif()
endforeach()
list(LENGTH headers count)
message(STATUS "${count} public headers stand alone.")
