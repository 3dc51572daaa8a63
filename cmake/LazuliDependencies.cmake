# Every third-party library, found once. cmake/install-deps.sh installs them from Debian packages.

find_package(Threads REQUIRED)
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
set(ZLIB_USE_STATIC_LIBS ${LAZULI_BUNDLE})
find_package(ZLIB REQUIRED)

# xxHash is used header-only: one thing less that a user's machine has to have.
find_path(LAZULI_XXHASH_INCLUDE xxhash.h REQUIRED)
add_library(lazuli_xxhash INTERFACE)
target_include_directories(lazuli_xxhash SYSTEM INTERFACE ${LAZULI_XXHASH_INCLUDE})
target_compile_definitions(lazuli_xxhash INTERFACE XXH_INLINE_ALL=1)

# DLPack is a header, which describes the struct that libraries pass tensors in.
find_path(LAZULI_DLPACK_INCLUDE dlpack/dlpack.h REQUIRED)
add_library(lazuli_dlpack INTERFACE)
target_include_directories(lazuli_dlpack SYSTEM INTERFACE ${LAZULI_DLPACK_INCLUDE})

# lz-opt's command line.
find_package(CLI11 REQUIRED)

# LLVM 22 is what is developed against; 19 or newer works. -DLLVM_DIR=... chooses one.
if(LAZULI_CPU_JIT)
    # By place and not by version number: LLVM's version file accepts nothing but an equal major and minor.
    foreach(version IN LISTS lazuli_llvm_versions)
        if(NOT LLVM_DIR)
            find_package(LLVM CONFIG QUIET PATHS /usr/lib/llvm-${version}/lib/cmake/llvm NO_DEFAULT_PATH)
        endif()
    endforeach()
    if(NOT LLVM_FOUND)
        find_package(LLVM CONFIG QUIET)
    endif()
    if(NOT LLVM_FOUND OR LLVM_VERSION_MAJOR LESS 19)
        message(FATAL_ERROR "Found no LLVM 19 or newer. Run cmake/install-deps.sh, point -DLLVM_DIR= at its CMake "
                            "files, or configure with -DLAZULI_CPU_JIT=OFF (the CPU then runs the interpreter).")
    endif()
    message(STATUS "LLVM ${LLVM_PACKAGE_VERSION} in ${LLVM_DIR}")

    add_library(lazuli_llvm INTERFACE)
    target_include_directories(lazuli_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
    separate_arguments(lazuli_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
    list(REMOVE_ITEM lazuli_llvm_definitions -D_GNU_SOURCE) # g++ and clang++ define it already
    target_compile_options(lazuli_llvm INTERFACE ${lazuli_llvm_definitions})
    if(NOT LLVM_ENABLE_RTTI)
        target_compile_options(lazuli_llvm INTERFACE -fno-rtti)
    endif()
    # A process that opens LLVM linked from its components loads a small part of what the shared libLLVM is: where the system
    # has them they are the default of builds for users. (A sanitizer would look into them, and what they have of debug
    # information stops valgrind.)
    find_library(LAZULI_ZSTD_STATIC libzstd.a)
    set(lazuli_llvm_static OFF)
    if(EXISTS "${LLVM_LIBRARY_DIR}/libLLVMOrcJIT.a" AND LAZULI_ZSTD_STATIC AND NOT LAZULI_SANITIZE
       AND CMAKE_BUILD_TYPE MATCHES "^(Release|MinSizeRel)$")
        set(lazuli_llvm_static ON)
    endif()
    option(LAZULI_LLVM_STATIC "Link LLVM's static component libraries instead of the shared libLLVM" ${lazuli_llvm_static})
    if(TARGET LLVM AND NOT LAZULI_LLVM_STATIC AND NOT LAZULI_BUNDLE)
        target_link_libraries(lazuli_llvm INTERFACE LLVM)
    else()
        # As built by Debian, LLVM's Support names shared libraries of compression, and Z3, which nothing here uses.
        if(LAZULI_ZSTD_STATIC)
            set_target_properties(LLVMSupport PROPERTIES
                INTERFACE_LINK_LIBRARIES "rt;dl;m;ZLIB::ZLIB;${LAZULI_ZSTD_STATIC};LLVMDemangle")
        elseif(LAZULI_BUNDLE)
            message(FATAL_ERROR "LAZULI_BUNDLE needs libzstd.a (libzstd-dev), which LLVM's components are linked with.")
        endif()
        llvm_map_components_to_libnames(lazuli_llvm_libraries
            core support passes orcjit orcdebugging jitlink native asmparser instrumentation)
        target_link_libraries(lazuli_llvm INTERFACE ${lazuli_llvm_libraries})
        target_link_options(lazuli_llvm INTERFACE -Wl,--strip-debug)
    endif()
endif()
