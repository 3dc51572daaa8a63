#!/usr/bin/env bash
# Makes a bundle for a machine with a GPU, CUDA's driver and NVRTC, and nothing that Lazuli needs: no LLVM, no network. It holds
# the programs of the tests and bench_gpu, stripped, the driver without a GPU, the scripts that run them, and the shared libraries
# that these need, LLVM's among them.
#
#   bash bench/gpu_package.sh          build/gpu/lazuli-gpu.tar.xz, 64 MiB at most
#   bash bench/gpu_package.sh --try    and tries it in an empty folder, on the driver without a GPU
#
# There:  tar xf lazuli-gpu.tar.xz && bash lazuli-gpu/bench/gpu.sh --bin=lazuli-gpu/bin
#    or:  bash lazuli-gpu/tests/gpu/run.sh lazuli-gpu/bin
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -gt 1 ] || { [ $# -eq 1 ] && [ "$1" != --try ]; }; then
    echo "gpu_package.sh: it takes --try or nothing." >&2
    exit 2
fi

max_mib=64
build=build/release
cmake --preset release
programs="bench_gpu test_gpu test_on_cuda test_frontend test_autograd test_nn test_optim test_semantics test_devices test_calls
    lazuli_run_file quickstart cuda_call agnostic regression hessian black_scholes digits char_gpt gpt2"
# shellcheck disable=SC2086 # several words
cmake --build $build --target $programs lazuli lazuli-run lazuli_fake_cuda lazuli_fake_cublaslt

to=build/gpu
stage=$to/stage/lazuli-gpu
rm -rf $to/stage
mkdir -p $stage/bin $stage/lib $stage/bench/results $stage/tests/gpu $stage/examples
for program in $programs; do
    cp $build/bin/"$program" $stage/bin/
done
cp $build/lib/liblazuli_fake_cuda.so $build/lib/liblazuli_fake_cublaslt.so $stage/lib/
cp $build/lib/liblazuli.so.?.? $build/lib/liblazuli-run.so.?.? $build/lib/liblazuli-llvm.so.?.? $stage/lib/
cp -r bench/gpu.sh bench/gpu $stage/bench/
cp tests/gpu/*.sh tests/gpu/*.txt $stage/tests/gpu/
for folder in frontend autograd nn optim; do
    mkdir -p $stage/tests/$folder
    cp -r tests/$folder/inputs $stage/tests/$folder/
done
cp -r examples/expected examples/data $stage/examples/
git describe --always --dirty >$stage/VERSION
# What a bare system has not: everything but the C library's and the compiler's.
for library in $(ldd $stage/bin/* $stage/lib/* | grep -o '=> /[^ ]*' | cut -c4- | sort -u); do
    case $(basename "$library") in
    libc.so.* | libm.so.* | libstdc++.so.* | libgcc_s.so.* | libpthread.so.* | libdl.so.* | librt.so.* | ld-linux* | liblazuli*) ;;
    *) cp -L "$library" $stage/lib/ ;;
    esac
done
strip $stage/bin/* $stage/lib/*.so*
for file in $stage/bin/*; do # beside it, wherever it is unpacked
    cat >"$file.sh" <<'SCRIPT'
#!/usr/bin/env bash
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH=$here/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/../programs/$(basename "$0")" "$@"
SCRIPT
done
mv $stage/bin $stage/programs
mkdir $stage/bin
for script in $stage/programs/*.sh; do
    mv "$script" "$stage/bin/$(basename "$script" .sh)"
    chmod +x "$stage/bin/$(basename "$script" .sh)"
done
archive=$to/lazuli-gpu.tar.xz
tar -C $to/stage --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -c lazuli-gpu | xz -T0 -4 >$archive
bytes=$(stat -c %s $archive)
unpacked=$(du -sm $to/stage | cut -f1)
if [ "$bytes" -gt $((max_mib << 20)) ]; then
    echo "gpu_package.sh: $archive has $bytes bytes; it may have $max_mib MiB." >&2
    exit 1
fi
echo "$archive: $((bytes >> 20)) MiB, unpacked $unpacked MiB"
[ $# -eq 1 ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$work" -xf $archive
cd "$work"
export LAZULI_CUDA_DRIVER=$work/lazuli-gpu/lib/liblazuli_fake_cuda.so LAZULI_CUBLASLT=$work/lazuli-gpu/lib/liblazuli_fake_cublaslt.so
export LAZULI_FAKE_CUDA_MEMORY=256M LAZULI_FAKE_CUDA_DEVICES=1
bash lazuli-gpu/tests/gpu/run.sh lazuli-gpu/bin --short
LAZULI_FAKE_CUDA_MEMORY=4G bash lazuli-gpu/bench/gpu.sh --bin=lazuli-gpu/bin --scale=4096 --no-tests --name=try
grep -q 'softmax of 1024' lazuli-gpu/bench/results/try.md
echo "the bundle works in an empty folder."
