# Makes programs of the C++ blocks of a page; docs/README.md says how a page is written.
#
#   awk -f extract.awk -v id=tutorial-01-first -v name=first.cpp -v out=folder page.md
#
# Writes folder/ID.cpp, and where the page says what it prints folder/ID.expected, and folder/ID.sh for its shell
# blocks; ID is `id`, with a number for every further program of the page. Prints a line for each: `run ID` is compiled
# and run, `wrong ID FILE FIRST LAST` must not compile, for an error in these lines.

function start_program(title) {
    finish_program()
    number++
    program = number == 1 ? id : id "-" number
    file = title != "" ? title : name
    includes = globals = body = expected = shell = ""
    complete = blocks = lines = 0
}

function whole(inner) { # of a program whose blocks stand in main()
    return includes "#include <lazuli/lazuli.h>\n#include <iostream>\n" globals "int main() {\n" inner "\n}\n"
}

function write(text, path) {
    printf "%s", text > path
    close(path)
}

function finish_program() {
    if (blocks == 0)
        return
    write(complete ? body : whole(body), out "/" program ".cpp")
    if (expected != "")
        write(expected, out "/" program ".expected")
    if (shell != "") {
        stem = file
        sub(/[.]cpp$/, "", stem)
        write("ln -s \"$PROGRAM\" " stem "\n" shell, out "/" program ".sh") # `./stem` runs it again
    }
    print "run " program
    blocks = 0
}

# The lines of a block, with what has to stand at the top of a file taken out and left as empty lines.
function without_includes(text,    n, line, i, result) {
    n = split(text, line, "\n")
    for (i = 1; i < n; i++) {
        if (line[i] ~ /^(#include|using namespace) /) {
            includes = includes line[i] "\n"
            line[i] = ""
        }
        result = result line[i] "\n"
    }
    return result
}

function take_block(info, text, count,    at, first) {
    if (info ~ /^(cpp|text) [a-z_]+\//) # a part of a file: quotes.awk
        return
    if (info ~ /^cpp( |$)/) {
        if (number == 0 || complete || (blocks > 0 && text ~ /(^|\n)int main\(/))
            start_program("")
        blocks++
        first = lines + 1
        lines += count
        at = "#line " first " \"" file "\"\n"
        if (text ~ /(^|\n)int main\(/) {
            complete = 1
            body = at text
        } else if (info == "cpp") {
            body = body at without_includes(text)
        } else if (info == "cpp global") {
            globals = globals at without_includes(text)
        } else if (info == "cpp no-run") {
            body = body "(void)[&] {\n" at without_includes(text) "};\n"
        } else if (info == "cpp wrong") {
            wrongs++
            write(whole(body at without_includes(text)), out "/" id "-wrong-" wrongs ".cpp")
            print "wrong " id "-wrong-" wrongs " " file " " first " " lines
        } else {
            fail("unknown kind of block `" info "`")
        }
    } else if (info ~ /^text( |$)/ && prints) {
        if (blocks == 0)
            fail("something is printed, and no program stands before it")
        expected = expected text
    } else if (info == "sh run") {
        if (blocks == 0)
            fail("a shell block is run beside a program, and none stands before it")
        shell = shell text
    }
}

function take_hidden(info, text) {
    if (number == 0 || complete)
        start_program("")
    blocks++
    if (info == "cpp")
        body = body "#line 1 \"hidden part of " file "\"\n" without_includes(text)
    else if (info == "cpp global")
        globals = globals "#line 1 \"hidden part of " file "\"\n" without_includes(text)
    else
        fail("unknown kind of hidden block `" info "`")
}

function fail(message) {
    print FILENAME ":" FNR ": " message > "/dev/stderr"
    failed = 1
    exit 1
}

inside == "" && /^```/ {
    inside = "fence"
    info = substr($0, 4)
    text = ""
    count = 0
    next
}
inside == "fence" && /^```$/ {
    inside = ""
    take_block(info, text, count)
    prints = 0
    next
}
inside == "" && /^<!--cpp( [a-z]+)?$/ {
    inside = "hidden"
    info = substr($0, 5)
    text = ""
    next
}
inside == "hidden" && /^-->$/ {
    inside = ""
    take_hidden(info, text)
    next
}
inside != "" {
    text = text $0 "\n"
    count++
    next
}
/^<!-- program: .* -->$/ {
    title = $0
    sub(/^<!-- program: /, "", title)
    sub(/ -->$/, "", title)
    start_program(title)
    next
}
/[^ ]/ { prints = $0 ~ /prints:?$/ }

END {
    if (!failed) {
        if (inside != "") {
            print FILENAME ": a block is not closed" > "/dev/stderr"
            exit 1
        }
        finish_program()
    }
}
