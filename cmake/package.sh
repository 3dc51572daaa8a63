#!/usr/bin/env bash
# Makes one archive that runs where nothing but the C++ runtime is installed: liblazuli.so, liblazuli-llvm.so with LLVM
# inside, liblazuli-run.so, TBB and fmt beside them, lz-opt, headers, CMake and pkg-config files, examples, and the
# licences of all that is in it. It can be unpacked anywhere.
#
#   bash cmake/package.sh          build/package/lazuli-<version>-linux-<machine>.tar.xz
#   bash cmake/package.sh --try    and tries it: a user's project and the examples are built against the unpacked
#                                  archive, and run in a root folder that holds nothing else (cmake/try-package.sh)
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 1 ] || { [ $# -eq 1 ] && [ "$1" != --try ]; }; then
    echo "package.sh: it takes --try or nothing." >&2
    exit 2
fi

max_mib=60

bash cmake/install-deps.sh
cmake --preset package
cmake --build --preset package

version=$(sed -n 's/^#define LAZULI_VERSION_[A-Z]* \([0-9]*\)$/\1/p' frontend/include/lazuli/version.h | paste -sd.)
name=lazuli-$version-linux-$(uname -m)
folder=build/package
rm -rf "$folder/stage"
cmake --install "$folder" --prefix "$folder/stage/$name" --strip >/dev/null
archive=$folder/$name.tar.xz
# Names in order and no owners or times of this machine: the same tree gives the same bytes.
tar -C "$folder/stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -c "$name" | xz -T0 -4 >"$archive"

bytes=$(stat -c %s "$archive")
if [ "$bytes" -gt $((max_mib << 20)) ]; then
    echo "package.sh: $archive has $bytes bytes; it may have $max_mib MiB." >&2
    exit 1
fi

bytes_to_run=$(stat -L -c %s "$folder/stage/$name/lib/liblazuli-run.so")
if [ "$bytes_to_run" -ge $((4 << 20)) ]; then
    echo "package.sh: liblazuli-run.so has $bytes_to_run bytes; it is to have less than 4 MiB." >&2
    exit 1
fi

bash tests/project/package/exports.sh "$folder/stage/$name"/lib/liblazuli.so "$folder/stage/$name"/lib/liblazuli-run.so \
    "$folder/stage/$name"/lib/liblazuli-llvm.so.?.?

# Every library that is asked for is part of the C++ runtime or of the archive.
for file in "$folder/stage/$name"/lib/*.so* "$folder/stage/$name"/bin/*; do
    [ -L "$file" ] && continue
    for needed in $(objdump -p "$file" | sed -n 's/^ *NEEDED *//p'); do
        case $needed in
        libc.so.6 | libm.so.6 | libstdc++.so.6 | libgcc_s.so.1 | ld-linux*) ;;
        libpthread.so.0 | libdl.so.2 | librt.so.1) ;; # empty since glibc 2.34, but asked for
        *)
            if [ ! -e "$folder/stage/$name/lib/$needed" ]; then
                echo "package.sh: $(basename "$file") needs $needed, which is not in the archive." >&2
                exit 1
            fi
            ;;
        esac
    done
done

echo "$archive: $((bytes >> 20)) MiB"
if [ $# -eq 1 ]; then
    bash cmake/install-deps.sh --package
    bash cmake/try-package.sh "$archive"
fi
