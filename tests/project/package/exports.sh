#!/usr/bin/env bash
# What a library exports is the public API: names of lz, and none of the layers behind it.
#
#   exports.sh LIBRARY...
set -euo pipefail
for library in "$@"; do
    case $(basename "$library") in
    liblazuli-llvm.so*) # is opened for its one name (codegen/llvm_library.h)
        names=$(nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//')
        if [ "$names" != lazuli_llvm_library ]; then
            echo "exports.sh: $library exports $(head -c 300 <<<"$names"); it should be lazuli_llvm_library alone." >&2
            exit 1
        fi
        echo "$(basename "$library") exports its one name."
        continue
        ;;
    esac
    # The name alone, without what the compiler makes of it (tables of virtual functions, type information, thunks).
    names=$(nm -D --defined-only --demangle "$library" |
        sed -E 's/^[0-9a-f]* +[A-Za-z] //; s/^(non-virtual thunk to|virtual thunk to|typeinfo for|typeinfo name for|vtable for|VTT for|guard variable for|construction vtable for) //')
    count=$(wc -l <<<"$names")
    if [ "$count" -lt 50 ]; then
        echo "exports.sh: $library exports $count names; it should be its whole API." >&2
        exit 1
    fi
    # (An instance of a function template would be printed with its result in front; the API exports none.)
    wrong=$(grep -vE '^lz::' <<<"$names"; grep -E '^lz::(ir|passes|codegen|engine|runtime)::' <<<"$names") || true
    if [ -n "$wrong" ]; then
        echo "exports.sh: $library exports what is no part of the API (cmake/lazuli.map):" >&2
        head -n 20 <<<"$wrong" >&2
        exit 1
    fi
    echo "$(basename "$library") exports $count names, all of the API."
done
