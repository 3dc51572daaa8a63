# Compares what a program printed with what its page says:  awk -f compare.awk expected printed
# In the first, `…` stands for any characters of a line, and a line of it alone for any number of lines.

NR == FNR { want[++wanted] = $0; next }
{ got[++found] = $0 }

function matches(line, pattern,    n, part, i, at) {
    n = split(pattern, part, "…")
    if (n <= 1)
        return line == pattern
    if (substr(line, 1, length(part[1])) != part[1])
        return 0
    line = substr(line, length(part[1]) + 1)
    for (i = 2; i < n; i++) {
        if (!(at = index(line, part[i])) && part[i] != "")
            return 0
        if (part[i] != "")
            line = substr(line, at + length(part[i]))
    }
    return length(line) >= length(part[n]) && substr(line, length(line) - length(part[n]) + 1) == part[n]
}

END {
    i = j = 1
    while (i <= wanted) {
        if (want[i] == "…") {
            while (want[i] == "…")
                i++
            while (j <= found && (i > wanted || !matches(got[j], want[i])))
                j++
            continue
        }
        if (j > found || !matches(got[j], want[i])) {
            print "line " i " of what the page says is\n    " want[i] "\nand what was printed there is\n    " \
                (j > found ? "nothing" : got[j])
            exit 1
        }
        i++
        j++
    }
    if (j <= found) {
        print "more was printed than the page says:\n    " got[j]
        exit 1
    }
}
