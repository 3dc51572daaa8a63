# cmake --install, find_package(lazuli) and cpack. The layers are objects inside liblazuli.so: nothing of them is exported.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(lazuli_cmake_folder "${CMAKE_INSTALL_LIBDIR}/cmake/lazuli")

install(TARGETS lazuli EXPORT lazuliTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET lz-opt)
    install(TARGETS lz-opt RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/frontend/lazuli/"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lazuli"
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "detail" EXCLUDE)
install(EXPORT lazuliTargets NAMESPACE lazuli:: DESTINATION "${lazuli_cmake_folder}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/lazuliConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/lazuliConfig.cmake"
    INSTALL_DESTINATION "${lazuli_cmake_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lazuliConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/lazuliConfig.cmake" "${PROJECT_BINARY_DIR}/lazuliConfigVersion.cmake"
    DESTINATION "${lazuli_cmake_folder}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME lazuli)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
include(CPack)
