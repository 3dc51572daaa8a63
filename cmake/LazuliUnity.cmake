# Files that are compiled as one read their headers once: a build from nothing takes half the time, and a change to one
# file more. So it is done where builds are from nothing: LAZULI_UNITY joins the sources of all layers and tests, as the
# sanitizers' presets do, LAZULI_UNITY_TESTS those of the tests.

option(LAZULI_UNITY "Compile several source files as one" OFF)
option(LAZULI_UNITY_TESTS "Compile several source files of the tests as one" ${LAZULI_UNITY})

find_program(LAZULI_AWK NAMES awk mawk gawk)
if((LAZULI_UNITY OR LAZULI_UNITY_TESTS) AND NOT LAZULI_AWK)
    message(FATAL_ERROR "LAZULI_UNITY needs awk to group the sources.")
endif()

# lazuli_join_sources(OUT TARGET source...): files that include TARGET's sources, each a group in which no name is defined
# twice (cmake/group_sources.awk). A source that has options of its own, or
# SKIP_UNITY_BUILD_INCLUSION, stays as it is; they have to be set before.
function(lazuli_join_sources out target)
    set(alone)
    set(sources)
    foreach(source IN LISTS ARGN)
        set(own FALSE)
        foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS SKIP_UNITY_BUILD_INCLUSION)
            get_source_file_property(value "${source}" ${property})
            if(value)
                set(own TRUE)
            endif()
        endforeach()
        if(own)
            list(APPEND alone "${source}")
        else()
            list(APPEND sources "${source}")
        endif()
    endforeach()

    execute_process(
        COMMAND "${LAZULI_AWK}" -v max_files=8 -v max_lines=2500 -f "${PROJECT_SOURCE_DIR}/cmake/group_sources.awk"
            ${sources}
        OUTPUT_VARIABLE list
        COMMAND_ERROR_IS_FATAL ANY)
    set(folder "${PROJECT_BINARY_DIR}/unity/${target}")
    string(REPLACE "\n" ";" list "${list}")
    set(groups)
    foreach(line IN LISTS list)
        if(line MATCHES "^([0-9]+) (.*)$")
            set(group "${CMAKE_MATCH_1}")
            file(RELATIVE_PATH path "${folder}" "${CMAKE_MATCH_2}") # relative: build folders share objects by ccache
            list(APPEND groups "${group}")
            list(APPEND sources_${group} "${CMAKE_MATCH_2}")
            string(APPEND text_${group} "#include \"${path}\"\n")
        endif()
    endforeach()
    list(REMOVE_DUPLICATES groups)
    set(joined)
    foreach(group IN LISTS groups)
        list(LENGTH sources_${group} length)
        if(length EQUAL 1)
            list(APPEND alone "${sources_${group}}")
        else()
            file(CONFIGURE OUTPUT "${folder}/${group}.cpp" CONTENT "${text_${group}}" @ONLY)
            list(APPEND joined "${folder}/${group}.cpp")
        endif()
    endforeach()
    set(${out} ${joined} ${alone} PARENT_SCOPE)
endfunction()
