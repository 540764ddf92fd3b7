#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages, installs them with apt in a new Debian 12 that has nothing else, and uses
# them there as a user without rights: list, check, doctor, the quick start's training on 2 ranks, its
# report, and with the packages for development a plugin and a project of its own.
#
#   packaging/test_in_clean_root.sh [options]
#
#   --epochs N    of the training [2, as the quick start]
#   --packages DIR  with .deb files that are tested in place of new ones
#   --keep DIR    where the new Debian is made, and left for a look [a folder that is removed]
#   --quick       without the packages for development
#   --help        this text
#
# Needs root, mmdebstrap, lintian and Debian's archive: 0.5 GB of downloads, 3 GB of disk, 10 minutes.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"

epochs=2
packages=""
root=""
quick=""
declare -A options=([--epochs]="natural epochs" [--packages]="text packages" [--keep]="text root" [--quick]="flag quick")
read_all_options "$@"
[[ $(id -u) -eq 0 ]] || fail 1 "a new root needs the rights of root: start this with sudo."
for tool in mmdebstrap lintian; do
  command -v "$tool" >/dev/null || fail 1 "$tool was not found: install Debian's $tool."
done

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
debs=("$packages"/equant-train_*.deb "$packages"/libequant-codec-dev_*.deb)
for deb in "${debs[@]}"; do
  [[ -f $deb ]] || fail 1 "expected one package of each name in $packages, found no $(basename "$deb")."
done
[[ ${#debs[@]} -eq 2 ]] || fail 1 "expected one package of each name in $packages, found ${debs[*]}."

say "Asking lintian"
lintian --fail-on error,warning --tag-display-limit 0 --allow-root "${debs[@]}"

say "Making a Debian 12 in $root"
mmdebstrap --quiet --mode=root --variant=apt bookworm "$root"
mkdir "$root/packages"
cp "${debs[@]}" "$root/packages"

# inside SCRIPT ARGUMENT...: runs bash in the new root, with mounts that end with it.
inside() {
  # shellcheck disable=SC2016  # the shell inside expands it
  unshare --mount --pid --ipc --fork --kill-child bash -c '
    set -e
    mount -t proc proc "$0/proc"
    mount -t sysfs -o ro sysfs "$0/sys"
    mount -t tmpfs tmpfs "$0/dev"
    mkdir "$0/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
    for node in null zero full random urandom tty; do
      touch "$0/dev/$node"
      mount --bind "/dev/$node" "$0/dev/$node"
    done
    ln -s /proc/self/fd "$0/dev/fd"
    exec chroot "$0" /usr/bin/env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "$@"' "$root" "$@"
}

# as_user COMMAND: runs it in the new root as a user without rights.
# shellcheck disable=SC2016  # the shell inside expands it
as_user() { inside 'exec su --login tester --shell /bin/bash --command "set -euo pipefail; $1"' - "$1"; }

say "Installing equant-train with what it depends on and recommends"
inside 'apt-get -qq update
  apt-get -qq -o Dpkg::Use-Pty=0 install -y /packages/equant-train_*.deb >/tmp/apt.log 2>&1 || { tail -n 20 /tmp/apt.log >&2; exit 1; }
  useradd --create-home tester'

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
expect_words 'equant-train --help' "Keys: $share/configs/KEYS.md"
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
  say "A plugin, and a project that uses eqt::codec"
  inside 'apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends cmake g++ make /packages/libequant-codec-dev_*.deb \
    >/tmp/apt.log 2>&1 || { tail -n 20 /tmp/apt.log >&2; exit 1; }'
  # shellcheck disable=SC2016  # likewise
  as_user 'examples=/usr/share/doc/libequant-codec-dev/examples
    cc -shared -fPIC -O2 -o libmean_sign.so $examples/mean_sign.c
    equant-train list compressors --plugin ./libmean_sign.so | grep "^mean-sign"
    cmake -S $examples/compress_array -B compress_array >/dev/null
    cmake --build compress_array >/dev/null
    compress_array/compress_array'
fi

say "Removing the packages"
# shellcheck disable=SC2016  # the shell inside expands it
inside 'apt-get -qq -o Dpkg::Use-Pty=0 purge -y equant-train >/dev/null
  dpkg -s libequant-codec-dev >/dev/null 2>&1 && apt-get -qq -o Dpkg::Use-Pty=0 purge -y libequant-codec-dev >/dev/null
  left=$(find /usr /etc /var/lib -path /var/lib/dpkg -prune -o -iname "*equant*" -print)
  [[ -z $left ]] || { printf "left behind:\n%s\n" "$left" >&2; exit 1; }'
say "Installed, used and removed without trouble: $SECONDS s"
