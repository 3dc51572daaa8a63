# Groups source files that are compiled as one: prints `group file` for each. No two files of a group define the same name
# at namespace scope, one of them a type of which another has the name in its text, or disagree in their using-directives.
# A name that is seen where there is none only makes groups smaller.
#
#   awk -v max_files=8 -v max_lines=2500 -f cmake/group_sources.awk file...

# Everything at namespace scope begins in the first column: clang-format sees to that.
function define(name, text) {
    if (name in defined_here) {
        if (defined_here[name] != text) {
            defined_here[name] = "" # agrees with no other file
        }
    } else {
        defined_here[name] = text
    }
}

function fits(g,    name) {
    if (directives[g] != directives_here || files[g] == max_files || lines[g] + lines_here > max_lines) {
        return 0
    }
    for (name in defined_here) {
        if ((g, name) in defined && (defined[g, name] != defined_here[name] || defined_here[name] == "")) {
            return 0
        }
    }
    for (name in types_here) {
        if ((g, name) in words) {
            return 0
        }
    }
    for (name in words_here) {
        if ((g, name) in types) {
            return 0
        }
    }
    return 1
}

# Puts the file that was read into the first group that takes it, or into a new one.
function place_file(    g, name) {
    g = 1
    while (g <= groups && !fits(g)) {
        g++
    }
    if (g > groups) {
        groups = g
        directives[g] = directives_here
    }
    files[g]++
    lines[g] += lines_here
    for (name in defined_here) {
        defined[g, name] = defined_here[name]
        delete defined_here[name]
    }
    for (name in types_here) {
        types[g, name]
        delete types_here[name]
    }
    for (name in words_here) {
        words[g, name]
        delete words_here[name]
    }
    print g, file_here
}

FNR == 1 {
    if (file_here != "") {
        place_file()
    }
    file_here = FILENAME
    directives_here = ""
    lines_here = 0
}

{
    lines_here++
    sub(/^template <>/, "")
    if (/^template </) { # to the bracket that closes it
        depth = 0
        for (i = 10; i <= length($0); i++) {
            c = substr($0, i, 1)
            depth += c == "<" ? 1 : c == ">" ? -1 : 0
            if (depth == 0) {
                break
            }
        }
        $0 = substr($0, i + 1)
        sub(/^ */, "")
    }
    sub(/^\[\[[^]]*\]\] */, "")
    rest = $0
    while (match(rest, /[A-Z][A-Za-z0-9_]*/)) { # types have such names
        words_here[substr(rest, RSTART, RLENGTH)]
        rest = substr(rest, RSTART + RLENGTH)
    }
}

/^# *include ".*macros\.h"/ { # they would be those of the files after it: it stays alone
    directives_here = FILENAME
}
/^using namespace / {
    directives_here = directives_here " " substr($3, 1, index($3, ";"))
    next
}
/^(using|namespace) .*;/ { # using a::B;  using B = ...;  namespace b = ...;
    name = $0
    sub(/ *=.*/, "", name)
    sub(/;.*/, "", name)
    sub(/.*[ :]/, "", name)
    define(name, $0)
    if (/=/) {
        types_here[name]
    }
    next
}
/^# *define / {
    name = $0
    sub(/^# *define */, "", name)
    sub(/[^A-Za-z0-9_].*/, "", name)
    define("#" name, "")
    next
}
/^# *undef / {
    delete defined_here["#" $2]
    next
}
/^(struct|class|union|enum) / && !/;$/ {
    name = $0
    sub(/^(struct|class|union|enum( class)?) */, "", name)
    sub(/^alignas\([^)]*\) */, "", name)
    if (name ~ /^[A-Za-z_]/) {
        sub(/[^A-Za-z0-9_].*/, "", name)
        define(name, "")
        types_here[name]
    }
    if ($0 !~ /^enum/) {
        next
    }
}
/^enum .*{/ { # enumerators
    rest = $0
    sub(/^[^{]*{/, "", rest)
    while (match(rest, /[A-Za-z_][A-Za-z0-9_]*/)) {
        define(substr(rest, RSTART, RLENGTH), "")
        rest = substr(rest, RSTART + RLENGTH)
    }
    next
}
/^[A-Za-z_]/ && !/^(TEST|INSTANTIATE|namespace|extern|static_assert|friend|public|private|protected)/ {
    # A function: the first name before a parenthesis; a variable: each name before '=', or the last before ';', '{' or '['.
    head = $0
    gsub(/(alignas|decltype|noexcept|requires|__attribute__|explicit) *\(+[^)]*\)+/, "", head)
    gsub(/\[\[[^]]*\]\]/, "", head)
    if (match(head, /[({=;[]/)) {
        first = substr(head, RSTART, 1)
        name = substr(head, 1, RSTART - 1)
        sub(/ *$/, "", name)
        if (name ~ /[ *&>][A-Za-z_][A-Za-z0-9_]*$/ || name ~ /^[A-Za-z_][A-Za-z0-9_]*$/) { # not a member: A::b
            sub(/.*[^A-Za-z0-9_]/, "", name)
            define(name, "")
        }
        if (first != "(") {
            rest = head
            while (match(rest, /, \**[A-Za-z_][A-Za-z0-9_]* *[=;,{]/)) {
                name = substr(rest, RSTART + 2, RLENGTH - 3)
                gsub(/[ *]/, "", name)
                define(name, "")
                rest = substr(rest, RSTART + RLENGTH - 1)
            }
        }
    }
}

END {
    if (file_here != "") {
        place_file()
    }
}
