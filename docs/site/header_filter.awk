# A public header as Doxygen shall see it: macros that declare are written out, and what only the engine needs to see is left
# out: the caller's line, which every function takes as its last argument, and marks of visibility.
#
#   awk -v def=functions.def -f header_filter.awk header.h

function rows(line,    kind, name, about) { # of functions.def: `LZ_UNARY(exp, Exp, Float) ///< e to the power x`
    if (line !~ /^LZ_(UNARY|UNARY_COMPOSED|BINARY|COMPARISON)\(/)
        return
    kind = line
    sub(/\(.*/, "", kind)
    name = line
    sub(/^[A-Z_]*\(/, "", name)
    sub(/[,)].*/, "", name)
    about = line
    if (!sub(/^.*\/\/\/< /, "", about))
        about = ""
    if (in_tensor) {
        if (kind ~ /UNARY/) {
            print "/// As the function lz::" name "."
            print "Tensor " name "();"
            print "/// In place: as `x = " name "(x)` for every handle of it, but that dtype and shape stay."
            print "Tensor &" name "_();"
        } else {
            print "/// As the function lz::" name " of this tensor and `other`."
            print "Tensor " name "(Operand other);"
            if (kind == "LZ_BINARY") {
                print "/// In place: as `x = " name "(x, other)` for every handle of it, but that dtype and shape stay."
                print "Tensor &" name "_(Operand other);"
            }
        }
    } else {
        if (about != "")
            print "/// " about
        print "Tensor " name (kind ~ /UNARY/ ? "(const Tensor &x);" : "(Operand a, Operand b);")
    }
}

# What a header holds is a topic, which its first comment explains.
function as_topic(text,    about, name) {
    if (!match(text, /#pragma once\n(\/\/\/[^\n]*\n)+/))
        return text
    about = substr(text, RSTART + 13, RLENGTH - 13)
    text = substr(text, 1, RSTART + 12) substr(text, RSTART + RLENGTH)
    name = FILENAME
    sub(/^.*\//, "", name)
    sub(/\.h$/, "", name)
    gsub(/(^|\n)\/\/\/ ?/, "\n", about)
    sub(/^\n/, "", about)
    if (!match(text, /\nnamespace lz \{\n/))
        return text
    text = substr(text, 1, RSTART + RLENGTH - 1) "/** @addtogroup topic_" name "\n" about "@{ */\n" substr(text, RSTART + RLENGTH)
    sub(/\n\} \/\/ namespace lz\n/, "\n/** @} */\n} // namespace lz\n", text)
    return text
}

# Overloads that follow each other share the comment of the first, and a method without a comment is the function of its name.
function share_comments(text,    line, n, i, result, comment, shared, name, shared_name, open, head) {
    n = split(text, line, "\n")
    comment = shared = shared_name = head = ""
    for (i = 1; i < n; i++) {
        if (line[i] ~ /^ *\/\/\/ /) {
            comment = comment line[i] "\n"
            continue
        }
        if (line[i] ~ /^ *template <.*>$/ && line[i + 1] ~ /\(/) { # goes with the line that follows
            head = head line[i] "\n"
            continue
        }
        name = line[i]
        if (!open && line[i] ~ /^ *(LZ_FUNCTION|LZ_METHOD|[A-Za-z].*[ &*][a-z_0-9]+\(|[A-Z][A-Za-z]*\()/) {
            if (name ~ /LZ_FUNCTION|LZ_METHOD_OF_TWO/) {
                sub(/,.*/, "", name)
                sub(/^ *LZ_METHOD_OF_TWO\(/, "", name)
            } else {
                sub(/^ *LZ_METHOD\(/, "", name)
                sub(/\(.*/, "", name)
            }
            sub(/^.*[ &*]/, "", name)
            if (comment == "" && name == shared_name && line[i] !~ /= default;/)
                comment = shared
            if (comment == "" && in_tensor && line[i] ~ /^    LZ_METHOD/)
                comment = "    /// As the function lz::" name ".\n"
            if (comment == "" && in_tensor && name ~ /_$/ && line[i] ~ /^    Tensor &/)
                comment = "    /// In place, for every handle of this tensor: `" substr(name, 1, length(name) - 1) \
                    "` with its result stored here; dtype and shape stay.\n"
            if (comment == "" && is_part && line[i] ~ /^    (const Part &[a-z]|void [a-z_]+\(\) = delete)/)
                comment = "    /// Writes to the part.\n"
            if (comment == "" && name == "ndimension")
                comment = "    /// As dim.\n"
            if (comment == "" && in_tensor && name ~ /_as$/)
                comment = "    /// As the function without `_as`, by what the other tensor has.\n"
            shared = comment
            shared_name = name
        }
        if (comment == "" && line[i] ~ /^Tensor operator/)
            comment = "/// Elementwise; the operands broadcast and are promoted.\n"
        if (comment == "" && line[i] ~ /^Tensor &operator/)
            comment = "/// In place: every handle of x sees the change; its dtype and shape stay.\n"
        if (comment == "" && line[i] ~ /^ +[A-Za-z].* = default;/)
            comment = "    /// As the compiler makes it.\n"
        if (comment == "" && line[i] ~ /operator<<\(std::ostream &/)
            comment = "/// Prints it.\n"
        if (comment == "" && is_part && line[i] ~ /^    [A-Za-z]+ (at|index|operator\[\])\(/)
            comment = "    /// A part of the part, to be read.\n"
        if (comment == "" && line[i] ~ /^    const TensorData &(operator|[a-z])/)
            comment = "    /// As Tensor's.\n"
        if (comment == "" && line[i] ~ /^ +(const )?Value [&*]operator(\*|->)\(/)
            comment = "    /// The value.\n"
        open = line[i] !~ /[;{}:]( *\/\/.*)?$/ && line[i] !~ /^ *(\/\/|#|$|template|requires)/
        result = result comment head line[i] "\n"
        comment = head = ""
    }
    return result comment
}

BEGIN { RS = "\001" }
{
    in_tensor = FILENAME ~ /\/tensor\.h$/
    is_part = FILENAME ~ /\/indexing\.h$/
    text = $0
    # Methods that stand in a file of their own.
    if ((at = index(text, "#include \"lazuli/ops/libtorch_methods.def\"\n"))) {
        methods = def
        sub(/functions\.def$/, "libtorch_methods.def", methods)
        getline methods < methods # all of it
        gsub(/\n/, "\n    ", methods)
        text = substr(text, 1, at - 1) "    " methods "\n" substr(text, at + length("#include \"lazuli/ops/libtorch_methods.def\"\n"))
    }
    # The definitions of the macros, with the lines that continue them.
    while (match(text, /(^|\n)#(define|undef) LZ_[^\n]*/)) {
        start = RSTART
        if (substr(text, start, 1) == "\n")
            start++
        rest = substr(text, start)
        before = substr(text, 1, start - 1)
        while (match(before, /(^|\n)\/\/\/[^\n]*\n$/)) # and what is said of them
            before = substr(before, 1, RSTART)
        while ((end = index(rest, "\n")) && substr(rest, end - 1, 1) == "\\")
            rest = substr(rest, end + 1)
        text = before substr(rest, index(rest, "\n") + 1)
    }
    gsub(/,[ \n]*Location loc = Location::current\(\)/, "", text)
    gsub(/Location loc = Location::current\(\)/, "", text)
    gsub(/, Location loc\)/, ")", text)
    gsub(/\(Location loc\)/, "()", text)
    while (match(text, /LZ_FUNCTION\([^,()]*, [a-z_]+\)/)) { # nothing but its tensor
        entry = substr(text, RSTART + 12, RLENGTH - 13)
        split(entry, part, ", ")
        text = substr(text, 1, RSTART - 1) part[1] "(const Tensor &" part[2] ")" substr(text, RSTART + RLENGTH)
    }
    while (match(text, /LZ_FUNCTION_OF_TWO\([^,()]*, [a-z_]+, [a-z_]+\)/)) { # and nothing but its two
        entry = substr(text, RSTART + 19, RLENGTH - 20)
        split(entry, part, ", ")
        text = substr(text, 1, RSTART - 1) part[1] "(const Tensor &" part[2] ", const Tensor &" part[3] ")" substr(text, RSTART + RLENGTH)
    }
    while (match(text, /LZ_METHOD_OF_TWO\([^,()]*, [a-z_]+\)/)) {
        entry = substr(text, RSTART + 17, RLENGTH - 18)
        split(entry, part, ", ")
        text = substr(text, 1, RSTART - 1) "LZ_METHOD(" part[1] "(const Tensor &" part[2] "))" substr(text, RSTART + RLENGTH)
    }
    gsub(/LZ_API /, "", text)
    # Bodies of member templates, behind their class.
    while (match(text, /\ntemplate <[^\n]*>\n[^\n;(]* [A-Z][A-Za-z]*::[a-z_]+\([^\n]*\{\n(    [^\n]*\n)*\}\n/))
        text = substr(text, 1, RSTART) substr(text, RSTART + RLENGTH)
    while (match(text, /LZ_ERROR_CLASS\([A-Za-z]+,[ \n]*"[^"]*"\);/)) {
        entry = substr(text, RSTART, RLENGTH)
        name = entry
        sub(/^LZ_ERROR_CLASS\(/, "", name)
        sub(/,.*/, "", name)
        about = entry
        sub(/^[^"]*"/, "", about)
        sub(/".*/, "", about)
        text = substr(text, 1, RSTART - 1) "/// Thrown for " about ".\nclass " name " : public Error {};" \
            substr(text, RSTART + RLENGTH)
    }
    # Modules' holders and options.
    while (match(text, /LZ_ACTIVATION\([^)]*\)/)) {
        entry = substr(text, RSTART + 14, RLENGTH - 15)
        split(entry, part, ", ")
        text = substr(text, 1, RSTART - 1) "class " part[1] "Impl : public " part[2] "<" part[1] "Impl, " part[3] "> {};\n" \
            "/// Holds a " part[1] "Impl.\nclass " part[1] " : public ModuleHolder<" part[1] "Impl> {}" substr(text, RSTART + RLENGTH)
    }
    while (match(text, /LZ_MODULE\([A-Za-z0-9]*\)/)) {
        name = substr(text, RSTART + 10, RLENGTH - 11)
        text = substr(text, 1, RSTART - 1) "class " name " : public ModuleHolder<" name "Impl> {}" substr(text, RSTART + RLENGTH)
    }
    while (match(text, /LZ_OPTION\([^,]*, [a-z_0-9]*, [^;]*\);/)) {
        entry = substr(text, RSTART + 10, RLENGTH - 12)
        split(entry, part, ", ")
        about = "const " part[1] " &" part[2] "() const;"
        entry = "auto &" part[2] "(" part[1] " new_value);\n    /// As set.\n    " about
        text = substr(text, 1, RSTART - 1) entry substr(text, RSTART + RLENGTH)
    }
    # LibTorch's names, and functions that take a dtype or a device in place of options.
    while (match(text, /LZ_ALIAS\([A-Za-z0-9]*, [A-Za-z0-9]*\)/)) {
        split(substr(text, RSTART + 9, RLENGTH - 10), part, ", ")
        text = substr(text, 1, RSTART - 1) "/// LibTorch's name of DType::" part[2] ".\ninline constexpr DType " part[1] \
            " = DType::" part[2] substr(text, RSTART + RLENGTH)
    }
    while (match(text, /LZ_TEXT\([A-Za-z0-9]*, "[a-z_]*"\)/)) {
        split(substr(text, RSTART + 8, RLENGTH - 9), part, ", ")
        text = substr(text, 1, RSTART - 1) "/// LibTorch's name of the text " part[2] ".\ninline constexpr const char *" part[1] \
            " = " part[2] substr(text, RSTART + RLENGTH)
    }
    while (match(text, /LZ_OF_KIND\([a-z_]*, \([^()]*\), \([^()]*\)\)/)) {
        entry = substr(text, RSTART + 11, RLENGTH - 12)
        name = entry
        sub(/,.*/, "", name)
        sub(/^[a-z_]*, \(/, "", entry)
        sub(/\), \(.*/, "", entry)
        text = substr(text, 1, RSTART - 1) "/// With a dtype or a device in place of options.\n" \
            "template <OptionKind Kind>\nTensor " name "(" entry ", const Kind &kind);" substr(text, RSTART + RLENGTH)
    }
    text = as_topic(share_comments(text))
    at = is_part ? 0 : index(text, "#include \"lazuli/ops/functions.def\"\n")
    if (!at) {
        gsub(/#include "lazuli\/ops\/functions.def"\n/, "", text)
        printf "%s", text
        exit
    }
    printf "%s", substr(text, 1, at - 1)
    RS = "\n"
    while ((getline line < def) > 0)
        rows(line)
    printf "%s", substr(text, at + length("#include \"lazuli/ops/functions.def\"\n"))
}
