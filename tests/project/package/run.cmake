# Installs Lazuli into an empty folder and configures, builds and runs a user's project against it.
cmake_minimum_required(VERSION 3.25)
set(work "${BUILD}/package-test")
file(REMOVE_RECURSE "${work}")

function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "'${command}' ended with ${status}.")
    endif()
endfunction()

run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${work}/prefix")

# Moved after it was installed: nothing may depend on where it was put first.
file(RENAME "${work}/prefix" "${work}/moved")
run(${CMAKE_COMMAND} -S "${SOURCE}/tests/project/package" -B "${work}/build" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" "-DCMAKE_PREFIX_PATH=${work}/moved"
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run(${CMAKE_COMMAND} --build "${work}/build")
run("${work}/build/consumer")
execute_process(COMMAND "${work}/build/consumer" save "${work}/program.lzp" RESULT_VARIABLE status)
if(status EQUAL 0)
    run("${work}/build/runner" "${work}/program.lzp")
elseif(NOT status EQUAL 77)
    message(FATAL_ERROR "The installed library saves no program: ${status}.")
endif()

# What they export is the public API alone. (A sanitizer adds names of its own.)
if(NOT CXX_FLAGS)
    file(GLOB_RECURSE libraries "${work}/moved/*/liblazuli.so" "${work}/moved/*/liblazuli-run.so")
    list(LENGTH libraries count)
    if(NOT count EQUAL 2)
        message(FATAL_ERROR "Installed were not two libraries but: ${libraries}")
    endif()
    file(GLOB_RECURSE emitter "${work}/moved/*/liblazuli-llvm.so.*.*.*")
    run(bash "${SOURCE}/tests/project/package/exports.sh" ${libraries} ${emitter})
endif()

# The CUDA driver that needs no GPU comes with it.
if(FAKE_CUDA)
    file(GLOB_RECURSE driver "${work}/moved/*/liblazuli_fake_cuda.so")
    file(GLOB_RECURSE cublaslt "${work}/moved/*/liblazuli_fake_cublaslt.so")
    execute_process(COMMAND ${CMAKE_COMMAND} -E env "LAZULI_CUDA_DRIVER=${driver}" "LAZULI_CUBLASLT=${cublaslt}"
            "${work}/build/consumer" cuda:0
        OUTPUT_VARIABLE output COMMAND_ECHO STDOUT RESULT_VARIABLE status)
    message("${output}")
    if(NOT status EQUAL 0 AND NOT (status EQUAL 77 AND output MATCHES "${NO_NVRTC}"))
        message(FATAL_ERROR "The installed CUDA driver without a GPU does not work: ${status}.")
    endif()
endif()

# As a part of another project: what that installs is its own, though nothing of Lazuli was built.
file(WRITE "${work}/parent/CMakeLists.txt"
    "cmake_minimum_required(VERSION 3.25)\nproject(parent LANGUAGES C CXX)\nadd_subdirectory(\"${SOURCE}\" lazuli)\n"
    "add_executable(own own.cpp)\ninstall(TARGETS own)\n")
file(WRITE "${work}/parent/own.cpp" "int main() {}\n")
run(${CMAKE_COMMAND} -S "${work}/parent" -B "${work}/parent-build" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${CXX}"
    -DLAZULI_CPU_JIT=OFF)
run(${CMAKE_COMMAND} --build "${work}/parent-build" --target own)
run(${CMAKE_COMMAND} --install "${work}/parent-build" --prefix "${work}/parent-prefix")
file(GLOB_RECURSE installed RELATIVE "${work}/parent-prefix" "${work}/parent-prefix/*")
if(NOT installed STREQUAL "bin/own")
    message(FATAL_ERROR "A project that has Lazuli as a part installed: ${installed}")
endif()
