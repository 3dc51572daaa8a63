# lazuli_layer(): one row of the design's table of layers.
#
# Headers are included by their path in the project ("ir/graph/graph.h", "runtime/api/backend.h", <lazuli/tensor.h>). Each
# layer's headers are reached through an include root of its own, a folder that holds nothing but a symbolic link to
# the layer (inc/ir/ir -> ir/). A target gets the roots of the layers that its row names, and no other: an include
# that breaks the rule does not compile. tests/project/layering.cmake proves it.

# Beside the presets' build folders and shared by them, so that ccache sees the same paths from each.
cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${PROJECT_BINARY_DIR}" NORMALIZE lazuli_in_tree)
if(lazuli_in_tree AND PROJECT_BINARY_DIR MATCHES "/build/")
    set(LAZULI_INCLUDE_ROOTS "${PROJECT_SOURCE_DIR}/build/inc")
else()
    set(LAZULI_INCLUDE_ROOTS "${PROJECT_BINARY_DIR}/inc")
endif()

# lazuli_include_root(OUT path FOLDER): a root from which FOLDER (relative to the project) is included as `path/...`.
function(lazuli_include_root out name path folder)
    set(link "${LAZULI_INCLUDE_ROOTS}/${name}/${path}")
    cmake_path(GET link PARENT_PATH parent)
    file(MAKE_DIRECTORY "${parent}" "${PROJECT_SOURCE_DIR}/${folder}")
    if(NOT IS_SYMLINK "${link}")
        file(CREATE_LINK "${PROJECT_SOURCE_DIR}/${folder}" "${link}" SYMBOLIC RESULT ignored)
    endif()
    file(REAL_PATH "${link}" real)
    if(NOT real STREQUAL "${PROJECT_SOURCE_DIR}/${folder}")
        message(FATAL_ERROR "${link} leads to ${real}; it should lead to ${PROJECT_SOURCE_DIR}/${folder}.")
    endif()
    set(${out} "${LAZULI_INCLUDE_ROOTS}/${name}" PARENT_SCOPE)
endfunction()

# lazuli_sources(OUT FOLDER [EXCLUDE folder...]): the .cpp files under FOLDER; a file that holds nothing where there
# are none yet, because a library has to have one.
function(lazuli_sources out folder)
    cmake_parse_arguments(arg "" "" "EXCLUDE" ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.cpp")
    foreach(exclude IN LISTS arg_EXCLUDE)
        list(FILTER sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/${exclude}/")
    endforeach()
    if(NOT sources)
        string(MAKE_C_IDENTIFIER "${folder}" identifier)
        set(sources "${PROJECT_BINARY_DIR}/empty/${identifier}.cpp")
        if(NOT EXISTS "${sources}")
            file(WRITE "${sources}" "// ${folder}/ has no source yet.\n")
        endif()
    endif()
    set(${out} "${sources}" PARENT_SCOPE)
endfunction()

# lazuli_layer(NAME FOLDER folder INCLUDED_AS path [EXCLUDE folder...] [MAY_INCLUDE layer...] [LIBRARIES library...])
#
# A static library lazuli_NAME of the sources under FOLDER. Links are private, so that rights to include are not
# inherited: a layer sees the layers that it names, and its users see none of them unless they name them too.
function(lazuli_layer name)
    cmake_parse_arguments(arg "" "FOLDER;INCLUDED_AS" "EXCLUDE;MAY_INCLUDE;LIBRARIES" ${ARGN})
    lazuli_sources(sources "${arg_FOLDER}" EXCLUDE ${arg_EXCLUDE})
    if(LAZULI_UNITY)
        lazuli_join_sources(sources lazuli_${name} ${sources})
    endif()
    add_library(lazuli_${name} STATIC ${sources})
    lazuli_include_root(root "${name}" "${arg_INCLUDED_AS}" "${arg_FOLDER}")
    target_include_directories(lazuli_${name} PUBLIC "${root}")
    list(TRANSFORM arg_MAY_INCLUDE PREPEND lazuli_)
    target_link_libraries(lazuli_${name} PRIVATE lazuli_flags ${arg_MAY_INCLUDE} ${arg_LIBRARIES})
    set_property(GLOBAL APPEND PROPERTY lazuli_layers ${name})
    set_property(GLOBAL PROPERTY lazuli_layer_${name}_prefix "${arg_INCLUDED_AS}")
    set_property(GLOBAL PROPERTY lazuli_layer_${name}_folder "${arg_FOLDER}")
endfunction()

# lazuli_shared_library(TARGET MAP): a library that shows what cmake/MAP names and nothing else, names of the standard library
# that are instantiated in it included (their visibility is the default); and where it looks for others and how it is named.
function(lazuli_shared_library target map)
    set(map "${PROJECT_SOURCE_DIR}/cmake/${map}")
    target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL "-Wl,--version-script=${map}")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${map}")
    if(NOT LAZULI_SANITIZE) # a sanitizer's runtime is in the program, not in the library
        target_link_options(${target} PRIVATE -Wl,--no-undefined)
    endif()
    set_target_properties(${target} PROPERTIES
        VERSION ${PROJECT_VERSION}
        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
        INSTALL_RPATH "\$ORIGIN")
endfunction()
