# The headers of CUDA's toolkit. They are needed to build the CUDA backend and its tests; its libraries are opened when a
# program runs.
find_path(LAZULI_CUDA_INCLUDE cuda.h
    HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include
    DOC "The folder of cuda.h and cublasLt.h, or OFF: the CUDA backend is left out")
if(LAZULI_CUDA_INCLUDE AND NOT EXISTS "${LAZULI_CUDA_INCLUDE}/cublasLt.h")
    message(STATUS "Found cuda.h and no cublasLt.h beside it.")
    set(LAZULI_CUDA_INCLUDE OFF)
endif()
if(NOT LAZULI_CUDA_INCLUDE)
    message(STATUS "Found no headers of CUDA: the backend for GPUs and its tests are left out. CUDA_HOME may name the toolkit.")
endif()

# What is said where a program on CUDA finds no NVRTC: tests that need it are skipped.
set(LAZULI_NO_NVRTC "was found: neither")
