# cmake --install, find_package(lazuli) and cpack. The layers are objects inside liblazuli.so: nothing of them is exported.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(lazuli_cmake_folder "${CMAKE_INSTALL_LIBDIR}/cmake/lazuli")

install(TARGETS lazuli lazuli-run EXPORT lazuliTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET lazuli-llvm) # opened by path, linked by nobody
    install(TARGETS lazuli-llvm LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" NAMELINK_SKIP)
endif()
if(TARGET lz-opt)
    install(TARGETS lz-opt RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

if(TARGET lazuli_fake_cuda) # CUDA without a GPU: opened by path, linked by nobody
    install(TARGETS lazuli_fake_cuda lazuli_fake_cublaslt LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()

# What a machine may lack, beside the library: its RUNPATH looks there first.
if(LAZULI_BUNDLE)
    foreach(library TBB::tbb fmt::fmt)
        foreach(configuration RELEASE NONE RELWITHDEBINFO)
            get_target_property(file ${library} IMPORTED_LOCATION_${configuration})
            get_target_property(soname ${library} IMPORTED_SONAME_${configuration})
            if(file AND soname)
                break()
            endif()
        endforeach()
        file(REAL_PATH "${file}" file)
        install(PROGRAMS "${file}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" RENAME "${soname}")
    endforeach()
    # The licences of what then lies in the libraries or beside them, each as its Debian package has it.
    # LAZULI_LICENCE_<name> says where the text is on other systems.
    foreach(part "oneTBB libtbb-dev" "fmt libfmt-dev" "LLVM llvm-${LLVM_VERSION_MAJOR}-dev" "zlib zlib1g-dev"
            "zstd libzstd-dev" "xxHash libxxhash-dev" "nlohmann-json nlohmann-json3-dev" "CLI11 libcli11-dev"
            "DLPack libdlpack-dev")
        string(REPLACE " " ";" part "${part}")
        list(POP_FRONT part name package)
        if(name STREQUAL "LLVM" AND NOT LAZULI_CPU_JIT)
            continue()
        endif()
        find_file(LAZULI_LICENCE_${name} NAMES copyright PATHS "/usr/share/doc/${package}" NO_DEFAULT_PATH)
        if(NOT LAZULI_LICENCE_${name})
            message(FATAL_ERROR "LAZULI_BUNDLE: the licence of ${name} was not found in /usr/share/doc/${package}. "
                "Give the file's path: -DLAZULI_LICENCE_${name}=...")
        endif()
        install(FILES "${LAZULI_LICENCE_${name}}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/third-party" RENAME "${name}.txt")
    endforeach()
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/frontend/include/lazuli/"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lazuli"
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(EXPORT lazuliTargets NAMESPACE lazuli:: DESTINATION "${lazuli_cmake_folder}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/lazuliConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/lazuliConfig.cmake"
    INSTALL_DESTINATION "${lazuli_cmake_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lazuliConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/lazuliConfig.cmake" "${PROJECT_BINARY_DIR}/lazuliConfigVersion.cmake"
    DESTINATION "${lazuli_cmake_folder}")
# pkg-config --cflags --libs lazuli, or lazuli-run; its paths are relative to where it lies.
file(RELATIVE_PATH lazuli_pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
foreach(lazuli_pc_name lazuli lazuli-run)
    set(lazuli_pc_description "${PROJECT_DESCRIPTION}")
    if(lazuli_pc_name STREQUAL "lazuli-run")
        set(lazuli_pc_description "Runs programs that Lazuli saved, without compiler and tensors")
    endif()
    configure_file("${PROJECT_SOURCE_DIR}/cmake/lazuli.pc.in" "${PROJECT_BINARY_DIR}/${lazuli_pc_name}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${lazuli_pc_name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/README.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DATADIR}/lazuli"
    FILES_MATCHING PATTERN "*.cpp" PATTERN "CMakeLists.txt" PATTERN "data/*" PATTERN "expected" EXCLUDE)

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME lazuli)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
include(CPack)
