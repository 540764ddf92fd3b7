#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the README's two commands as a newcomer does: in a bare system of a release, made for it, as a user who may
# call sudo, in a clone of this checkout's last commit. Prints what they print.
#
#   scripts/test_release.sh RELEASE [options] [-- arguments of scripts/test.sh]
#
#   RELEASE        bookworm (Debian 12), trixie (Debian 13) or resolute (Ubuntu 26.04)
#   --arch arm64   cross-builds for arm64 and runs there by qemu: scripts/test_arm64.sh --whole
#   --root DIR     where the system is made, and left for a next call [build/root-RELEASE]
#   --as-root      as root, without sudo
#   --quick        only scripts/quickstart.sh
#   --packages DIR builds the Debian packages there too, into DIR
#   --help         this text
#
#   scripts/test_release.sh trixie -- --label unit
# Needs root, mmdebstrap and the release's archive: 0.6 GB of downloads, 5 GB of disk, an hour on 2 cores.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
source "$EQT_ROOT/scripts/lib/packages.sh"
# shellcheck source=packaging/lib.sh
source "$EQT_ROOT/packaging/lib.sh"

architecture=""
root=""
without_sudo=""
quick=""
packages=""
declare -A options=(
  [--arch]="text architecture" [--root]="text root" [--as-root]="flag without_sudo" [--quick]="flag quick"
  [--packages]="text packages"
)
[[ $# -gt 0 ]] || fail 2 "a release is missing: ${EQT_RELEASES// /, }; see --help."
if [[ $1 == --help || $1 == -h ]]; then usage; exit 0; fi
release=$1
shift
read_options "$@"
set -- ${rest[@]+"${rest[@]}"}
[[ $# -eq 0 || $1 == -- ]] || fail 2 "unknown argument \"$1\"; arguments of scripts/test.sh come after --."
[[ $# -eq 0 ]] || shift
need_release
case $architecture in
  "" | "$(dpkg --print-architecture)") ;;
  arm64) exec "$EQT_ROOT/scripts/test_arm64.sh" --whole --release "$release" ${1:+-- "$@"} ;;
  *) fail 2 "--arch: expected arm64, found \"$architecture\"." ;;
esac
need_root_with mmdebstrap git
root=$(realpath -m -- "${root:-$EQT_ROOT/build/root-$release}")

[[ -e $root ]] || make_system --include=git,ca-certificates,passwd,sudo
home=/home/newcomer
inside 'id newcomer >/dev/null 2>&1 || useradd --create-home --shell /bin/bash newcomer
  echo "newcomer ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/newcomer'
rm -rf --one-file-system "$root$home/equant-train"
git clone --quiet --no-hardlinks "$EQT_ROOT" "$root$home/equant-train" ||
  fail 1 "git could not clone $EQT_ROOT; its words stand above."
inside 'chown -R newcomer: /home/newcomer'
say "$(inside 'sed -n "s/^PRETTY_NAME=//p" /etc/os-release'), $(dpkg --print-architecture)," \
  "$(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo), $(cores) cores; commit $(git -C "$EQT_ROOT" log -1 --format=%h)"

# as_newcomer COMMAND: in the clone.
as_newcomer() {
  # shellcheck disable=SC2016  # the shell inside expands it
  if [[ -n $without_sudo ]]; then
    inside 'cd /home/newcomer/equant-train; git config --global --replace-all safe.directory "*"; exec bash -c "$1"' - "$1"
  else
    inside 'exec su --login newcomer --command "cd equant-train && $1"' - "$1"
  fi
}

status=0
say "scripts/quickstart.sh"
as_newcomer scripts/quickstart.sh || fail 1 "scripts/quickstart.sh failed on $release; its words stand above."
if [[ -z $quick ]]; then
  say "scripts/test.sh $*"
  as_newcomer "scripts/test.sh $([[ $# -eq 0 ]] || printf '%q ' "$@")" || status=$?
fi
if [[ -n $packages ]]; then
  install_inside dpkg-dev file
  as_newcomer 'cmake --build build/release --target debian_packages' || fail 1 "the packages could not be built on $release."
  mkdir -p "$packages"
  cp "$root$home"/equant-train/build/release/*.deb "$packages"
fi
[[ $status -eq 0 ]] || fail 1 "scripts/test.sh failed on $release; its words stand above."
say "Both commands work on $release: $SECONDS s"
