# Trains char_gpt for a few steps: the loss falls, and where it was stopped and goes on from its checkpoint it is what it
# would have been, to the last digit that tells two numbers apart.
#
#   cmake -DPROGRAM=char_gpt -DFOLDER=for/checkpoints -P char_gpt.cmake
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")

# train(VARIABLE argument...): all that it printed.
function(train variable)
    execute_process(COMMAND "${PROGRAM}" ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "char_gpt ${ARGN} ended with ${result}:\n${output}${errors}")
    endif()
    set(${variable} "${output}" PARENT_SCOPE)
endfunction()
# loss_of(VARIABLE OUTPUT STEP): as it is printed.
function(loss_of variable output step)
    if(NOT output MATCHES "step +${step}  loss ([0-9.]+)")
        message(FATAL_ERROR "no loss of step ${step} was printed:\n${output}")
    endif()
    set(${variable} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

set(small --layers 2 --width 32 --heads 2 --context 32 --batch 8 --sample 40)
foreach(dtype f32 bf16)
    train(whole ${small} --dtype ${dtype} --steps 40 --checkpoint "${FOLDER}/whole_${dtype}.safetensors")
    loss_of(first "${whole}" 2)
    loss_of(last "${whole}" 40)
    if(NOT last LESS first)
        message(FATAL_ERROR "The loss of 40 steps in ${dtype} fell from ${first} to ${last}:\n${whole}")
    endif()
    set(path "${FOLDER}/parts_${dtype}.safetensors")
    train(begin ${small} --dtype ${dtype} --steps 17 --checkpoint "${path}")
    train(end ${small} --dtype ${dtype} --steps 40 --checkpoint "${path}")
    loss_of(resumed "${end}" 40)
    if(NOT end MATCHES "goes on from step 17" OR NOT resumed STREQUAL last)
        message(FATAL_ERROR "After going on from step 17 in ${dtype} the loss is ${resumed}, and else ${last}:\n${end}")
    endif()
    file(SHA256 "${path}" one)
    file(SHA256 "${FOLDER}/whole_${dtype}.safetensors" other)
    if(NOT one STREQUAL other)
        message(FATAL_ERROR "The checkpoints of step 40 in ${dtype} differ.")
    endif()
endforeach()

# The size that the page speaks of, where the program is no slow one: it has learned which character follows which.
# (Guessing is ln 76 = 4.3 nats. On 2 cores of an AMD EPYC the mean of the steps up to 150 was 2.425, after 25 s.)
if(FULL)
    train(full --steps 150 --sample 20)
    if(NOT full MATCHES "step +150  loss [0-9.]+  mean ([0-9.]+)")
        message(FATAL_ERROR "no mean of step 150 was printed:\n${full}")
    endif()
    if(NOT CMAKE_MATCH_1 LESS 2.6 OR NOT full MATCHES "8[0-9][0-9][0-9][0-9][0-9] parameters")
        message(FATAL_ERROR "A hundred and fifty steps of the whole network:\n${full}")
    endif()
endif()

# What cannot be is said in a line.
execute_process(COMMAND "${PROGRAM}" --text "${FOLDER}/missing.txt" ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 1 OR NOT errors MATCHES "^char_gpt: cannot read [^\n]*missing.txt\n$")
    message(FATAL_ERROR "Of a text that is not there it said:\n${errors}")
endif()
file(WRITE "${FOLDER}/cut.safetensors" "nothing")
execute_process(COMMAND "${PROGRAM}" ${small} --checkpoint "${FOLDER}/cut.safetensors" ERROR_VARIABLE errors RESULT_VARIABLE result
    OUTPUT_QUIET)
if(NOT result EQUAL 1 OR NOT errors MATCHES "^char_gpt: [^\n]*cut.safetensors")
    message(FATAL_ERROR "Of a damaged checkpoint it said:\n${errors}")
endif()
