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
run(${CMAKE_COMMAND} -S "${SOURCE}/tests/package" -B "${work}/build" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" "-DCMAKE_PREFIX_PATH=${work}/moved"
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run(${CMAKE_COMMAND} --build "${work}/build")
run("${work}/build/consumer")
