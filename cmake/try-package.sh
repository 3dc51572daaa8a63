#!/usr/bin/env bash
# Tries an archive of cmake/package.sh as a user would: unpacks it, builds a project and the examples against it with
# CMake and with pkg-config, and runs them, and lz-opt, in a root folder that holds the C++ runtime and nothing else.
#
#   bash cmake/try-package.sh <archive>
set -euo pipefail
archive=$(realpath "$1")
cd "$(dirname "$0")/.."
source=$PWD

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/root"
tar -C "$work/root" -xf "$archive"
mv "$work"/root/lazuli-* "$work/root/opt" # another name than it was packed under
prefix=$work/root/opt

# With CMake: the project of tests/project/package, and the examples as they were installed.
cmake -S "$source/tests/project/package" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/consumer" >/dev/null
cmake -S "$prefix/share/lazuli/examples" -B "$work/examples" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/examples" --target quickstart device_walk >/dev/null
cp "$work/consumer/consumer" "$work/consumer/runner" "$work/examples/quickstart" "$work/examples/device_walk" "$work/root/"

# With pkg-config, by each compiler that install-deps.sh --package installs.
if ! command -v pkg-config >/dev/null; then
    echo "try-package.sh: pkg-config is not here: bash cmake/install-deps.sh --package" >&2
    exit 1
fi
compilers=(g++)
for version in 22 19; do
    command -v clang++-$version >/dev/null && { compilers+=("clang++-$version"); break; }
done
if command -v clang++-14 >/dev/null; then
    compilers+=(clang++-14)
elif apt-cache show clang-14 >/dev/null 2>&1; then
    echo "try-package.sh: clang 14 is not here: bash cmake/install-deps.sh --package" >&2
    exit 1
else
    echo "not tried: this system's package sources have no clang 14"
fi
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
for compiler in "${compilers[@]}"; do
    # shellcheck disable=SC2046 # several words
    $compiler -O1 "$source/tests/project/package/main.cpp" -o "$work/root/by-$compiler" \
        $(pkg-config --cflags --libs lazuli)
    # shellcheck disable=SC2046
    $compiler -O1 "$source/tests/project/package/runner.cpp" -o "$work/root/runner-by-$compiler" \
        $(pkg-config --cflags --libs lazuli-run)
done

# An empty root: the dynamic linker, libc, libm, libstdc++ and libgcc_s.
for library in $(ldd "$work/root/consumer" "$prefix/lib/liblazuli.so" "$prefix"/lib/liblazuli-llvm.so.?.? | grep -o '/[^ ]*\(ld-linux[^ ]*\|lib\(c\|m\|stdc++\|gcc_s\|pthread\|dl\|rt\)\.so\.[0-9]*\)' | sort -u); do
    mkdir -p "$work/root$(dirname "$library")"
    cp -L "$library" "$work/root$library"
done
mkdir "$work/root/tmp"

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(unshare --user --map-root-user)
fi
chroot=$(PATH=$PATH:/usr/sbin:/sbin command -v chroot)
# The programs' own RUNPATH names the folder in which they were built.
enter=("${as_root[@]}" env -i LD_LIBRARY_PATH=/opt/lib LAZULI_CACHE_DIR=/tmp/cache "$chroot" "$work/root")
in_root() { "${enter[@]}" "$@"; }

in_root /consumer
in_root /consumer save /tmp/program.lzp
in_root /runner /tmp/program.lzp
for compiler in "${compilers[@]}"; do
    in_root "/by-$compiler"
    in_root "/runner-by-$compiler" /tmp/program.lzp
done
for example in quickstart device_walk; do
    cmake -DPROGRAM="${enter[0]}" "-DARGUMENTS=$(IFS=';' && echo "${enter[*]:1}");/$example" \
        "-DEXPECTED=$source/examples/expected/$example.txt" -P "$source/examples/checks/output.cmake"
done
in_root /opt/bin/lz-opt --version
# By themselves both find what lies beside them (a root without /proc cannot show it).
for file in "$prefix/bin/lz-opt" "$prefix"/lib/liblazuli.so "$prefix"/lib/liblazuli-llvm.so.?.?; do
    if env -i ldd "$file" | grep -E 'lib(tbb|fmt)\.so' | grep -v "=> $prefix/"; then
        echo "try-package.sh: $file takes these from elsewhere." >&2
        exit 1
    fi
done
printf 'lazuli 1\ngraph @g(%%x: f32[2] @cpu = dense<[1, 2]>) {\n  %%0 = add %%x, %%x : f32[2] @cpu\n  return %%0\n}\n' \
    >"$work/root/g.lz"
in_root /opt/bin/lz-opt /g.lz --run=check
echo "the archive works in an empty root."
