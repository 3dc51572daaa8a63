#!/usr/bin/env bash
# Installs from Debian packages what Lazuli is built with and is missing here; does nothing where all is there.
# Without root it prints the command that would do it and fails.
#
#   bash cmake/install-deps.sh            what the build and its tests need
#   bash cmake/install-deps.sh --peers    also the libraries that the benchmarks compare with
#   bash cmake/install-deps.sh --docs     also what the site of the documents is made with
#   bash cmake/install-deps.sh --package  also what an archive is tried with: pkg-config, and the oldest clang that a
#                                         user of the library may have, where the package sources have it
set -euo pipefail

packages=(
    g++ cmake ninja-build ccache ca-certificates
    libtbb-dev libfmt-dev nlohmann-json3-dev libxxhash-dev libcli11-dev libdlpack-dev
    libgtest-dev libgmock-dev libbenchmark-dev
    zlib1g-dev libzstd-dev libxml2-dev libffi-dev # LLVM's CMake files ask for the last three
)
if [ "${1:-}" = --peers ]; then
    packages+=(libopenblas-dev libdnnl-dev libeigen3-dev)
elif [ "${1:-}" = --docs ]; then
    packages+=(doxygen)
elif [ "${1:-}" = --package ]; then
    packages+=(pkg-config)
elif [ $# -gt 0 ]; then
    echo "install-deps.sh: unknown argument '$1'; it takes --peers, --docs, --package or nothing." >&2
    exit 2
fi

llvm_packages() { # of version $1
    echo "llvm-$1-dev" "llvm-$1-tools" "clang-$1" "libclang-rt-$1-dev" "lld-$1" "clang-format-$1"
}
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
all_installed() { local p; for p in "$@"; do installed "$p" || return 1; done; }
available() { apt-cache show "$1" >/dev/null 2>&1; }
if [ "${1:-}" = --package ] && available clang-14; then
    packages+=(clang-14)
fi

if ! command -v dpkg-query >/dev/null; then
    echo "install-deps.sh: this is not a Debian system. Install what these packages hold: ${packages[*]} $(llvm_packages 22)" >&2
    exit 1
fi

missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done

# LLVM 22, or 19 where a system has it and not 22.
llvm=""
for version in 22 19; do
    # shellcheck disable=SC2046
    if all_installed $(llvm_packages $version); then
        llvm=$version
        break
    fi
done

# CUDA's headers and NVRTC, for the CUDA backend and its tests, which need no GPU. They may be missing.
oldest_cuda=12.1
has_cuda() {
    local root
    for root in "${CUDA_HOME:-/none}" "${CUDA_PATH:-/none}" /usr/local/cuda /usr; do
        [ -e "$root/include/cuda.h" ] && [ -e "$root/include/cublasLt.h" ] && return 0
    done
    return 1
}
cuda_package() { # Debian's, where its component non-free is among the sources and new enough
    local version
    version=$(apt-cache policy nvidia-cuda-dev 2>/dev/null | sed -n 's/^ *Candidate: \([0-9].*\)/\1/p')
    [ -n "$version" ] && dpkg --compare-versions "$version" ge $oldest_cuda && echo nvidia-cuda-dev
}
no_cuda() {
    echo "install-deps.sh: CUDA's headers are not here, and the package sources have none from $oldest_cuda on (Debian's are in non-free): the CUDA backend and its tests are left out. CUDA_HOME may name a toolkit." >&2
}

if [ ${#missing[@]} -eq 0 ] && [ -n "$llvm" ]; then
    if has_cuda; then
        exit 0
    elif ! cuda_package >/dev/null; then
        no_cuda
        exit 0
    fi
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
    else
        for version in 22 19; do
            available "llvm-$version-dev" && break
        done
        [ -n "$llvm" ] || missing+=($(llvm_packages $version))
        has_cuda || missing+=($(cuda_package))
        echo "install-deps.sh: packages are missing and only root can install them. Run:" >&2
        echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
        [ "${missing[*]}" = nvidia-cuda-dev ] && exit 0 # what can be missing
        exit 1
    fi
fi

apt() { # waits for another apt instead of failing
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -y -q "$@"
}

apt update || echo "install-deps.sh: 'apt-get update' failed; trying with the package lists that are here." >&2
if [ -z "$llvm" ]; then
    for version in 22 19; do
        if available "llvm-$version-dev" && available "clang-$version"; then
            llvm=$version
            break
        fi
    done
    if [ -z "$llvm" ]; then
        echo "install-deps.sh: this system's package sources have neither LLVM 22 nor 19 (llvm-22-dev, llvm-19-dev)." >&2
        exit 1
    fi
    for package in $(llvm_packages "$llvm"); do
        installed "$package" || missing+=("$package")
    done
fi

if ! has_cuda; then
    missing+=($(cuda_package)) || no_cuda
fi
[ ${#missing[@]} -eq 0 ] && exit 0

echo "install-deps.sh: installing ${missing[*]}"
apt install --no-install-recommends "${missing[@]}"
