#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages, installs them with apt in a new Debian that has nothing else, and uses
# them there as a user without rights: list, check, doctor, the quick start's training on 2 ranks, its
# report, PyTorch's DistributedDataParallel with the shared library, and with the package for development
# a plugin and projects of its own in C++ and C.
#
#   packaging/test_in_clean_root.sh [options]
#
#   --epochs N    of the training [2, as the quick start]
#   --packages DIR  with .deb files that are tested in place of new ones
#   --release NAME  bookworm, trixie; one that is not this system's needs --packages [this system's]
#   --keep DIR    where the new Debian is made, and left for a look [a folder that is removed]
#   --quick       only the program, without the library and the package for development
#   --help        this text
#
# Needs root, mmdebstrap, lintian and Debian's archive: 0.5 GB of downloads, 3 GB of disk, 10 minutes.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
# shellcheck source=packaging/lib.sh
source "$EQT_ROOT/packaging/lib.sh"
# shellcheck source=scripts/lib/packages.sh
source "$EQT_ROOT/scripts/lib/packages.sh"

epochs=2
packages=""
root=""
release=$(release_here)
quick=""
declare -A options=([--epochs]="natural epochs" [--packages]="text packages" [--keep]="text root" [--release]="text release"
  [--quick]="flag quick")
read_all_options "$@"
need_root_with mmdebstrap lintian
need_release
[[ $release == "$(release_here)" || -n $packages ]] ||
  fail 2 "--release $release: expected --packages with packages that were built there, found none; scripts/test_release.sh $release --packages DIR builds them."

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
if [[ -z $root ]]; then
  root=$work/root
elif [[ -e $root ]]; then
  fail 2 "--keep: expected a folder that does not exist yet, found $root."
fi

if [[ -z $packages ]]; then
  build release debian_packages
  packages=$EQT_ROOT/build/release
fi
debs=("$packages"/equant-train_*.deb "$packages"/libequant-codec1_*.deb "$packages"/libequant-codec-dev_*.deb)
for deb in "${debs[@]}"; do
  [[ -f $deb ]] || fail 1 "expected one package of each name in $packages, found no $(basename "$deb")."
done
[[ ${#debs[@]} -eq 3 ]] || fail 1 "expected one package of each name in $packages, found ${debs[*]}."

say "Asking lintian"
lintian --fail-on error,warning,info,pedantic --display-info --pedantic --tag-display-limit 0 --allow-root "${debs[@]}"
for deb in "${debs[@]}"; do
  say "$(basename "$deb"): $(stat -c %s "$deb") bytes; depends on $(dpkg-deb --field "$deb" Depends)"
done

make_system
mkdir "$root/packages"
cp "${debs[@]}" "$root/packages"

# as_user COMMAND: runs it in the new root as a user without rights.
# shellcheck disable=SC2016  # the shell inside expands it
as_user() { inside 'exec su --login tester --shell /bin/bash --command "set -euo pipefail; $1"' - "$1"; }

say "Installing equant-train with what it depends on and recommends"
inside 'apt-get -qq update'
install_inside --install-recommends '/packages/equant-train_*.deb'
inside 'useradd --create-home tester'

say "The program"
as_user 'equant-train --version'
as_user 'equant-train list models'
as_user 'zgrep -q "^.SH FILES" /usr/share/man/man1/equant-train.1.gz'
share=/usr/share/equant-train

# expect_words COMMAND WORDS: the command fails or warns with these words.
expect_words() {
  local said
  said=$(as_user "{ $1; } 2>&1 || true")
  [[ $said == *"$2"* ]] || fail 1 "expected \"$2\" from \"$1\", found: $said"
}
say "Messages name installed files"
expect_words "equant-train check --config $share/configs/cifar10_resnet20/qsgd4.json" \
  "run $share/scripts/get_data.sh cifar10 and set data.path"
expect_words 'equant-train --config absent.json' "try one of $share/configs/"
expect_words 'equant-train --ranks 2' "$share/scripts/run_local.sh --ranks 2"
expect_words 'equant-train --help' "Keys: $share/docs/keys.md"
expect_words "$share/scripts/get_data.sh --help" "default: /home/tester/.local/share/equant-train/data"
expect_words "$share/scripts/get_data.sh fashion-mnist" /usr/share/datasets/fashion-mnist
expect_words "$share/scripts/run_local.sh --help" "$share/configs/quickstart.json --set"
expect_words "$share/scripts/sweep.sh --help" "$share/scripts/sweep.sh $share/configs/sweeps/accuracy.json"

say "doctor"
as_user 'mpirun -np 2 --oversubscribe equant-train doctor'

say "The quick start's training: $epochs epochs on 2 ranks"
as_user "mpirun -np 2 --oversubscribe equant-train --config $share/configs/quickstart.json --out runs/quickstart --set train.epochs=$epochs"
as_user 'equant-train report runs/quickstart >report.txt
  test -s runs/quickstart/summary.json && test -s runs/quickstart/report/report.html
  grep -q "\"replicas_identical\": true" runs/quickstart/summary.json'
as_user "$share/scripts/run_local.sh --ranks 2 $share/configs/quickstart.json --out runs/short --quiet --set train.steps=2 --set data.limit_train=256 --set data.limit_test=64"

if [[ -z $quick ]]; then
  say "PyTorch with the shared library"
  install_inside '/packages/libequant-codec1_*.deb' python3-torch python3-numpy
  # shellcheck disable=SC2016  # the shell inside expands it
  as_user 'export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=2
    echo "import equant, torch, torch.distributed as dist
dist.init_process_group(\"gloo\")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
equant.DDPHook(model, \"e-elastiquant\", when=\"always\")
for _ in range(3):
    model(torch.randn(8, 64)).square().sum().backward()
gradients = [torch.empty(64, 64) for _ in range(2)]
dist.all_gather(gradients, model.module.weight.grad)
assert torch.equal(*gradients) and gradients[0].count_nonzero() > 0" >hook.py
    RANK=1 python3 hook.py &
    RANK=0 python3 hook.py
    wait $!'

  say "A plugin, and projects that use the compressors from C++ and C"
  install_inside '/packages/libequant-codec-dev_*.deb' cmake g++ make
  # shellcheck disable=SC2016  # likewise
  as_user 'examples=/usr/share/doc/libequant-codec-dev/examples
    cc -shared -fPIC -O2 -o libmean_sign.so $examples/mean_sign.c
    equant-train list compressors --plugin ./libmean_sign.so | grep "^mean-sign"
    for name in compress_array compress_in_c; do
      cmake -S $examples/$name -B $name >/dev/null
      cmake --build $name >/dev/null
      $name/$name
    done
    cc $examples/compress_in_c/compress_in_c.c $(pkg-config --cflags --libs equant_codec) -o in_c
    ./in_c'
fi

say "Removing the packages"
# shellcheck disable=SC2016  # the shell inside expands it
inside 'for package in equant-train libequant-codec-dev libequant-codec1; do
    ! dpkg -s $package >/dev/null 2>&1 || apt-get -qq -o Dpkg::Use-Pty=0 purge -y $package >/dev/null
  done
  left=$(find /usr /etc /var/lib -path /var/lib/dpkg -prune -o -name "equant*" -print -o -name "libequant*" -print)
  [[ -z $left ]] || { printf "left behind:\n%s\n" "$left" >&2; exit 1; }'
say "Installed, used and removed without trouble: $SECONDS s"
