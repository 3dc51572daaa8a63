# Runs a program that trains, and looks at the losses that it prints: the last is less than BELOW.
#
#   cmake -DPROGRAM=digits "-DARGUMENTS=digits.csv.gz;--epochs;2" -DBELOW=1 -P trains.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND "${PROGRAM}" ${ARGUMENTS} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} ended with ${result}:\n${output}${errors}")
endif()
string(REGEX MATCHALL "(step|epoch) +[0-9]+ +loss [0-9.]+" losses "${output}")
list(LENGTH losses count)
if(count LESS 2)
    message(FATAL_ERROR "At least two losses were expected:\n${output}")
endif()
list(GET losses -1 last)
string(REGEX REPLACE ".* " "" last "${last}")
if(NOT last LESS BELOW)
    message(FATAL_ERROR "The last loss is ${last}, and ought to be less than ${BELOW}:\n${output}")
endif()
