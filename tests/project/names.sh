#!/usr/bin/env bash
# One name is one class: no two files define a class, struct, union or enum of one name in one namespace. Two that did
# would be one type to the linker (the one-definition rule), without a word. What is in an anonymous namespace is its
# file's own. Read by lines, as clang-format leaves them.
#
#   names.sh SOURCE
set -uo pipefail
cd "$1" || exit 1
find ir passes runtime codegen frontend -name '*.h' -o -name '*.cpp' | sort | xargs awk '
FNR == 1 { depth = 0 }
/^(inline )?namespace( [A-Za-z_0-9:]+)? \{$/ {
    name = $0
    sub(/^(inline )?namespace ?/, "", name)
    sub(/ ?\{$/, "", name)
    space[++depth] = name == "" ? "(" FILENAME ")" : name
    next
}
/^\} \/\/ (inline )?namespace/ { --depth; next }
/^(template ?<.*> ?)?(class|struct|union|enum class|enum) [A-Za-z_0-9]+( final)?( :[^:].*)? \{/ {
    line = $0
    sub(/^template ?<.*> ?/, "", line)
    sub(/^enum class /, "enum ", line)
    split(line, words, /[ {:]+/)
    key = ""
    for (i = 1; i <= depth; ++i)
        key = key space[i] "::"
    key = key words[2]
    if (!(key in where)) {
        where[key] = FILENAME
        ++classes
    } else if (where[key] != FILENAME) {
        print key " is two classes, of " where[key] " and of " FILENAME ": give one of them another name."
        failed = 1
    }
}
END {
    if (classes < 800) {
        print "Only " classes + 0 " classes were found."
        failed = 1
    }
    if (!failed)
        print classes " classes have a name each in their namespaces."
    exit failed
}'
