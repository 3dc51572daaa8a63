# A page as Doxygen reads it: every page and section gets a label of its own, links lead to these, blocks of code are told by
# their language alone, and hidden blocks and comments are left out.
#
#   awk -v page=docs/x.md -f page_filter.awk docs/x.md

function label(path) {
    sub(/\.md$/, "", path)
    gsub(/[^A-Za-z0-9]/, "_", path)
    return path == "README" ? "start" : "page_" path
}

function slug(title) {
    title = tolower(title)
    gsub(/[^a-z0-9 _-]/, "", title)
    gsub(/[ -]/, "_", title)
    return title
}

function resolve(target,    n, part, i, depth, out) { # relative to the page's folder
    n = split(folder target, part, "/")
    depth = 0
    for (i = 1; i <= n; i++) {
        if (part[i] == "..")
            depth--
        else if (part[i] != "." && part[i] != "")
            out[++depth] = part[i]
    }
    target = out[1]
    for (i = 2; i <= depth; i++)
        target = target "/" out[i]
    return target
}

function with_links(line,    result, text, target, section, at) {
    result = ""
    while (match(line, /\[[^]]*\]\([^)]*\)/)) {
        at = substr(line, RSTART, RLENGTH)
        result = result substr(line, 1, RSTART - 1)
        line = substr(line, RSTART + RLENGTH)
        text = at
        sub(/^\[/, "", text)
        sub(/\]\(.*$/, "", text)
        target = at
        sub(/^.*\]\(/, "", target)
        sub(/\)$/, "", target)
        if (result ~ /!$/ || target ~ /^https?:/) { # a picture
            if (result ~ /!$/)
                sub(/^.*\//, "", target)
            result = result "[" text "](" target ")"
            continue
        }
        section = ""
        if (target ~ /#/) {
            section = target
            sub(/^.*#/, "", section)
            gsub(/-/, "_", section)
            sub(/#.*$/, "", target)
        }
        target = target == "" ? page : resolve(target)
        gsub(/[`*]/, "", text)
        if (target ~ /\.md$/)
            result = result "@ref " label(target) (section == "" ? "" : "_" section) " \"" text "\""
        else
            result = result text
    }
    return result line
}

# Doxygen takes backslashes and quotes in code for its own.
function with_code(line,    n, part, i) {
    n = split(line, part, "`")
    if (n % 2 == 0)
        return line
    line = part[1]
    for (i = 2; i <= n; i++) {
        if (i % 2 == 0) {
            gsub(/&/, "\\&amp;", part[i])
            gsub(/</, "\\&lt;", part[i])
            gsub(/>/, "\\&gt;", part[i])
            gsub(/\\/, "\\\\\\\\", part[i])
            gsub(/--/, "\\\\--", part[i])
            gsub(/@/, "\\\\@", part[i])
            gsub(/"/, "\\&quot;", part[i])
            gsub(/#/, "\\\\#", part[i])
            gsub(/%/, "\\\\%", part[i])
            gsub(/::/, "\\\\::", part[i])
            gsub(/\*/, "\\\\*", part[i])
            gsub(/\|/, "\\&#124;", part[i])
            line = line "<code>" part[i] "</code>"
        } else {
            line = line part[i]
        }
    }
    gsub(/\*\*<code>/, "<b><code>", line)
    gsub(/<\/code>\*\*/, "</code></b>", line)
    return line
}

BEGIN {
    folder = page
    if (!sub(/[^\/]*$/, "", folder))
        folder = ""
}
/^<!--cpp( [a-z]+)?$/ { hidden = 1 }
hidden {
    if (/^-->$/)
        hidden = 0
    next
}
/^<!-- .* -->$/ { next }
fenced {
    if (/^```$/) {
        print "@endcode"
        fenced = 0
    } else {
        print
    }
    next
}
/^```/ {
    print ""
    print /^```cpp/ ? "@code{.cpp}" : "@code{.unparsed}"
    fenced = 1
    next
}
!indented && /^    / && blank { indented = 1; print "@code{.unparsed}" }
indented && (/^    / || /^$/) {
    if (/^$/) {
        gap = gap "\n"
    } else {
        printf "%s", gap
        gap = ""
        print substr($0, 5)
    }
    next
}
indented { indented = 0; gap = ""; print "@endcode\n" }
/^#+ / {
    title = $0
    sub(/^#+ /, "", title)
    if (/^# [0-9]+\. /) # no list
        sub(/\. /, " \xC2\xB7 ")
    name = label(page) (/^# / ? "" : "_" slug(title))
    print $0 (name in used ? "" : " {#" name "}")
    used[name]
    blank = 1
    next
}
{
    blank = /^$/
    print with_code(with_links($0))
}
END {
    if (indented)
        print "@endcode"
}
