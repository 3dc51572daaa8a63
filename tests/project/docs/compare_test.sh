#!/usr/bin/env bash
# compare.awk finds what is different, and only that.
set -uo pipefail
cd "$(dirname "$0")"
failed=0
check() { # equal|different EXPECTED PRINTED
    local found=equal
    awk -f compare.awk <(printf "$2") <(printf "$3") >/dev/null || found=different
    [ "$found" = "$1" ] || { echo "expected '$2' and printed '$3' are said to be $found"; failed=1; }
}
check equal 'a\nb\n' 'a\nb\n'
check different 'a\nb\n' 'a\nc\n'
check different 'a\nb\n' 'a\n'
check different 'a\n' 'a\nb\n'
check different 'a\n' ''
check equal 'took … ms\n' 'took 1.5 ms\n'
check different 'took … ms\n' 'took 1.5 s\n'
check equal 'a … b … c\n' 'a 1 b 2 c\n'
check different 'a … b … c\n' 'a 1 c\n'
check equal 'a…\n' 'a\n'
check different 'a…a\n' 'a\n'
check equal 'a\n…\nz\n' 'a\nb\nc\nz\n'
check equal 'a\n…\n' 'a\nb\nc\n'
check different 'a\n…\nz\n' 'a\nb\nc\n'
check different 'a\n…\nz\n' 'a\nz\nb\n'
exit $failed
