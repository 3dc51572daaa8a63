# Blocks of a page that are parts of a file (```cpp examples/x.cpp) stand in it, word for word and in its order:
#   awk -f quotes.awk page.md     in the root of the source

function check(text,    at) {
    if (!(path in content)) {
        content[path] = ""
        while ((getline line < path) > 0)
            content[path] = content[path] line "\n"
        close(path)
        from[path] = 1
    }
    at = index(substr(content[path], from[path]), text)
    if (at == 0) {
        print FILENAME ":" first ": this is not a part of " path (index(content[path], text) ? " behind the one before" : "") "."
        failed = 1
    } else {
        from[path] += at + length(text) - 1
    }
}

!inside && /^```(cpp|text) [a-z_]+\/[A-Za-z0-9_.\/]+$/ {
    inside = 1
    path = $2
    text = ""
    first = FNR
    next
}
inside && /^```$/ {
    inside = 0
    check(text)
    next
}
inside { text = text $0 "\n" }
END { exit failed }
