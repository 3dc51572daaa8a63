# The newest clang that Lazuli is developed with, under whatever name Debian gave it (sanitizer presets).
find_program(LAZULI_CLANG NAMES clang-22 clang-21 clang-20 clang-19 clang REQUIRED)
find_program(LAZULI_CLANGXX NAMES clang++-22 clang++-21 clang++-20 clang++-19 clang++ REQUIRED)
set(CMAKE_C_COMPILER "${LAZULI_CLANG}")
set(CMAKE_CXX_COMPILER "${LAZULI_CLANGXX}")
