#!/usr/bin/env bash
# The API reference and all pages as a site that needs no network: build/docs/index.html.
#
#   bash docs/build.sh     a public name without a comment, or a link to nothing, is an error
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v doxygen >/dev/null; then
    echo "docs/build.sh: doxygen is missing; 'bash cmake/install-deps.sh --docs' installs it." >&2
    exit 1
fi

export LAZULI_SOURCE=$PWD LAZULI_SITE=$PWD/build/docs
main_header=$(git ls-files -- '*/lazuli/lazuli.h')
export LAZULI_INCLUDE=${main_header%/lazuli/lazuli.h}
LAZULI_VERSION=$(sed -n 's/^#define LAZULI_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$LAZULI_INCLUDE/lazuli/version.h" | paste -sd.)
export LAZULI_VERSION

rm -rf "$LAZULI_SITE"
mkdir -p "$LAZULI_SITE"

# What Doxygen reads: the public headers, with macros written out, ...
for header in "$LAZULI_INCLUDE"/lazuli/*.h "$LAZULI_INCLUDE"/lazuli/*/*.h; do
    name=$(basename "$header" .h)
    if grep -q '^namespace lz {' "$header" && ! grep -q "@defgroup topic_$name " docs/site/groups.dox; then
        echo "docs/build.sh: $header has no topic in docs/site/groups.dox." >&2
        exit 1
    fi
    mkdir -p "$LAZULI_SITE/headers/$(dirname "${header#"$LAZULI_INCLUDE"/}")"
    awk -v def="$LAZULI_INCLUDE/lazuli/ops/functions.def" -f docs/site/header_filter.awk "$header" \
        >"$LAZULI_SITE/headers/${header#"$LAZULI_INCLUDE"/}"
done
# ... and the pages, as it wants them.
for page in README.md $(find docs -name '*.md') CONTRIBUTING.md; do
    mkdir -p "$LAZULI_SITE/pages/$(dirname "$page")"
    awk -v page="$page" -f docs/site/page_filter.awk "$page" >"$LAZULI_SITE/pages/$page"
done
cp -r docs/pictures "$LAZULI_SITE/pages/docs/"

doxygen -w html "$LAZULI_SITE/header.html" "$LAZULI_SITE/unused.html" "$LAZULI_SITE/unused.css" docs/site/Doxyfile
sed -i 's|</head>|<meta name="color-scheme" content="light dark"/>\n</head>|' "$LAZULI_SITE/header.html"
doxygen docs/site/Doxyfile
rm -rf "$LAZULI_SITE"/unused.* "$LAZULI_SITE/header.html" "$LAZULI_SITE/pages" "$LAZULI_SITE/headers"

if [ -s "$LAZULI_SITE/warnings.txt" ]; then
    echo "docs/build.sh: Doxygen is not content:" >&2
    cat "$LAZULI_SITE/warnings.txt" >&2
    exit 1
fi
if grep -rlE '(src|href)="(https?:)?//[^"]*\.(js|css|woff2?|png|svg)"' "$LAZULI_SITE" --include='*.html'; then
    echo "docs/build.sh: these pages load something from the network." >&2
    exit 1
fi
echo "build/docs/index.html: $(find "$LAZULI_SITE" -name '*.html' | wc -l) pages."
