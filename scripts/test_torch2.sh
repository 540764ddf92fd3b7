#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program with a newer LibTorch, out of a wheel of PyPI, trains the quick start with it, and trains
# with ranks of both versions. A second call downloads nothing and builds only what has changed.
#
#   scripts/test_torch2.sh [--version V]
#
#   --version V  of the Python package torch [the newest]
#   --help       this text
#
# The wheel's headers and libraries are unpacked into build/torch2-wheel (0.6 GB), the build is build/torch2. Needs
# python3 with pip, and the usual build in build/release.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

version=""
declare -A options=([--version]="text version")
read_all_options "$@"
readonly WHEEL=$EQT_ROOT/build/torch2-wheel BUILD=$EQT_ROOT/build/torch2

# unpack_wheel REQUIREMENT: headers and shared libraries, without those that compute on devices.
unpack_wheel() {
  local downloads
  downloads=$(mktemp -d "$WHEEL/download.XXXXXX")
  say "Downloading $1"
  python3 -m pip download --quiet --no-deps --dest "$downloads" "$1" ||
    fail 1 "pip could not download $1: check the network, the version and that python3 has pip."
  python3 - "$downloads" "$WHEEL" <<'PY'
import glob, re, sys, zipfile
for path in glob.glob(sys.argv[1] + "/*.whl"):
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            device = re.search(r"(torch_cuda|cuda_linalg|nvshmem|c10_cuda|torch_python)", name)
            if name.startswith("torch/include/") or (re.search(r"\.so(\.\d+)*$", name) and not device):
                wheel.extract(name, sys.argv[2])
PY
  rm -rf "$downloads"
}

mkdir -p "$WHEEL"
[[ -e $WHEEL/have && $(<"$WHEEL/have") == "torch$version" ]] || {
  rm -rf "$WHEEL/torch"
  unpack_wheel "torch${version:+==$version}"
  # A build for CUDA asks for these when it starts, whatever it computes on.
  if ldd "$WHEEL/torch/lib/libtorch_cpu.so" | grep -q "lib\(cupti\|cudart\).*not found"; then
    unpack_wheel nvidia-cuda-cupti
    unpack_wheel nvidia-cuda-runtime
  fi
  echo "torch$version" >"$WHEEL/have"
}

cd "$EQT_ROOT"
usual=$EQT_ROOT/build/release/equant-train
[[ -x $usual ]] || fail 2 "expected the usual build at build/release/equant-train, found none: $EQT_PROGRAM_REMEDY."
say "Building build/release and build/torch2"
cmake --build build/release --target equant-train
cmake --preset release -B "$BUILD" -DEQT_TESTS=OFF -DEQT_TORCH_CPU_ONLY=ON -DCMAKE_PREFIX_PATH="$WHEEL/torch" >"$WHEEL/log" ||
  fail 1 "CMake failed: see build/torch2-wheel/log."
cmake --build "$BUILD" --target equant-train
libraries=$(find "$WHEEL" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
"$BUILD/equant-train" --version | grep LibTorch

say "Ranks with LibTorch of both versions"
EQT_PROGRAM=$usual EQT_OTHER_PROGRAM=$BUILD/equant-train EQT_BUILD_DIR=$EQT_ROOT/build/release tests/e2e/mixed_torch.sh
say "ResNet-20 with the newer one"
scripts/run_local.sh --ranks 2 --program "$BUILD/equant-train" configs/fashion_mnist_resnet20.json --out runs/torch2 --overwrite
