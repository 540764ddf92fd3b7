#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the kernels of src/codecs/device with nvcc, compares all of them on the CUDA device of this
# machine with the host's codecs, byte by byte, and measures them against a copy in the device's
# memory. Less than ten minutes on four cores. It needs nvcc, a C++20 compiler, and the headers and libraries
# of Highway and fmt (Debian: libhwy-dev, libfmt-dev), nothing else of what the program needs.
# With --train it builds the program instead, trains on the device, checks what a run must hold, and measures images
# per second. That needs everything of scripts/lib/packages.sh but libtorch-dev, and a LibTorch for CUDA of nvcc's
# major version; less than ten minutes on 16 cores.
#
#   scripts/test_cuda.sh [--arch LIST] [--deps DIR] [--jobs N] [--compile-only] [--quick]
#   scripts/test_cuda.sh --train [--torch DIR] [--arch LIST] [--deps DIR] [--jobs N] [--compile-only] [--quick]
#
#   --arch LIST      compute capabilities, "75 87 90" (default: that of the device here; without one, 75 to 90)
#   --train          train, in place of the kernels
#   --torch DIR      the folder torch of a wheel for CUDA (default: that of python3)
#   --deps DIR       where Highway and fmt lie as under /, if not in the system: Debian packages unpacked by
#                    dpkg -x, say
#   --jobs N         compilers at once (default: the cores of this machine)
#   --compile-only   do not run
#   --quick          fewer seeds, and one size of the measurement; with --train no measurement
#   --help           this text
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/cuda_training.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/cuda_training.sh"

train="" torch="" arch="" deps="" jobs=$(nproc) compile_only="" quick=""
# shellcheck disable=SC2034 # read_options reads it
declare -A options=([--arch]="text arch" [--deps]="text deps" [--jobs]="natural jobs"
  [--compile-only]="flag compile_only" [--quick]="flag quick" [--train]="flag train" [--torch]="text torch")
rest=()
read_options "$@"
[[ ${#rest[@]} -eq 0 ]] || fail 2 "unknown argument \"${rest[0]}\"; see --help."

nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[[ -x $nvcc ]] || fail 1 "nvcc was not found: install NVIDIA's CUDA toolkit, or set CUDACXX to its nvcc."
# Wrappers in other folders call the one that lies beside the headers.
cuda=$("$nvcc" --dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p' | head -n 1)
readonly BUILD=$EQT_ROOT/build/cuda
mkdir -p "$BUILD"
cd "$EQT_ROOT"

if [[ -z $arch ]]; then
  arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .) || true
  [[ -n $arch ]] || arch="75 80 86 87 89 90"
fi
[[ -z $deps ]] || deps=$(cd "$deps" && pwd)

if [[ -n $train ]]; then
  torch=${torch:-$(python_torch)}
  [[ -n $torch ]] || fail 2 "expected a LibTorch for CUDA, found none in python3: name the folder torch of a wheel by --torch."
  say "Building build/cuda-train with $torch"
  [[ -z $deps ]] || export LD_LIBRARY_PATH=$deps/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  CUDACXX=$nvcc build_training "$torch" "$deps" "$arch" "$jobs" ||
    fail 1 "the program could not be built, so nothing was trained: see build/cuda-train.log."
  "$TRAINING_PROGRAM" --version | grep LibTorch
  [[ -z $compile_only ]] || exit 0
  mkdir -p runs/test-cuda
  say "Training"
  check_training
  [[ -n $quick ]] || measure_training
  say "Not run: several devices or hosts, Jetson boards, bert, torchscript, compute-sanitizer"
  [[ $WRONG -eq 0 ]] || fail 1 "$WRONG checks failed."
  exit 0
fi

targets=()
for capability in $arch; do targets+=(-gencode "arch=compute_$capability,code=sm_$capability"); done

include=(-Isrc/base -Isrc/codecs)
flags=(-std=c++20 -O2 "${include[@]}" -Itests -isystem "$cuda/include" -DHWY_COMPILE_ONLY_STATIC=1)
libraries=(-lhwy -lfmt -ldl -lpthread)
if [[ -n $deps ]]; then
  libs=$(dirname "$(find "$deps" -name 'libhwy.so*' | head -n 1)")
  flags+=(-isystem "$deps/usr/include")
  libraries=("-L$libs" "-Wl,-rpath,$libs" "${libraries[@]}")
fi
native=(-ffp-contract=off)
[[ $(uname -m) != x86_64 ]] || native+=(-march=x86-64-v3)

compile() {  # SOURCE: into an object of its name
  local object=$BUILD/${1//\//_}.o
  if [[ $1 == *.cu ]]; then
    "$nvcc" -std=c++20 -O3 -fmad=false "${targets[@]}" --threads 0 "${include[@]}" -c "$1" -o "$object"
  else
    "${CXX:-g++}" "${flags[@]}" "${native[@]}" -Iinclude -c "$1" -o "$object"
  fi
}
sources=(src/codecs/device/cuda_queue.cu tests/device/device_check.cpp
  src/base/core/{error,instructions,random,worker_threads}.cpp src/codecs/codec/*/*.cpp)
for source in src/codecs/codec/*.cpp src/codecs/device/*.cpp; do  # plugins need a library more
  [[ $source == */plugin.cpp || $source == */no_cuda_queue.cpp ]] || sources+=("$source")
done
started=$SECONDS
say "Compiling ${#sources[@]} sources with $jobs jobs, kernels for sm_${arch// /, sm_}"
rm -f "$BUILD"/*.o "$BUILD/device_check"
running=0 failed=0
for source in "${sources[@]}"; do
  if [[ $running -ge $jobs ]]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
  compile "$source" &
  running=$((running + 1))
done
while [[ $running -gt 0 ]]; do
  wait -n || failed=1
  running=$((running - 1))
done
[[ $failed -eq 0 ]] || fail 1 "a source did not compile; the compiler's words stand above."
"$nvcc" "${targets[@]}" "$BUILD"/*.o -o "$BUILD/device_check" -cudart static \
  "${libraries[@]/#-Wl,/-Xlinker=}"
say "Compiled in $((SECONDS - started)) s: build/cuda/device_check"
[[ -z $compile_only ]] || exit 0
"$BUILD/device_check" ${quick:+--quick}
