# SPDX-License-Identifier: Apache-2.0
# Functions for scripts that make a Debian in a folder and work there. Source it after
# scripts/lib/common.sh and scripts/lib/packages.sh; `root` names the folder, `release` the release.
# shellcheck shell=bash
# shellcheck disable=SC2154  # root and release are set by the script

# need_root_with TOOL...: exits with an error unless this is root and has these programs.
need_root_with() {
  local tool
  [[ $(id -u) -eq 0 ]] || fail 1 "a new root needs the rights of root: start this with sudo."
  for tool in "$@"; do
    command -v "$tool" >/dev/null || fail 1 "$tool was not found: install Debian's $tool."
  done
}

# need_release: exits with an error unless `release` is one that roots can be made of.
need_release() {
  [[ " $EQT_RELEASES " == *" $release "* ]] ||
    fail 2 "expected one of the releases ${EQT_RELEASES// /, }, found \"$release\"."
}

# make_system [mmdebstrap's OPTION...]: makes a bare system of `release` in `root`.
make_system() {
  local mirror="" keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
  if [[ $release == resolute ]]; then
    [[ -e $keys ]] || fail 1 "$keys was not found, with which Ubuntu signs its packages: install its package ubuntu-keyring."
    mirror=http://archive.ubuntu.com/ubuntu
    set -- --components=main,universe --keyring="$keys" "$@"
  fi
  say "Making a bare $release in $root"
  mkdir -p "$(dirname "$root")"
  mmdebstrap --quiet --mode=root --variant=apt --dpkgopt=force-unsafe-io "$@" "$release" "$root" ${mirror:+"$mirror"} ||
    fail 1 "mmdebstrap could not make a bare $release: its words stand above; check the network and this system's keyrings."
  # A name that has no address makes every mpirun ask the network for it, for seconds.
  printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)" >"$root/etc/hosts"
}

# inside SCRIPT ARGUMENT...: runs bash in the new root, with mounts that end with it. `also_mounted`,
# if it is set, names a folder that lies at /source, read-only.
inside() {
  # shellcheck disable=SC2016  # the shell inside expands it
  also_mounted=${also_mounted:-} unshare --mount --pid --ipc --fork --kill-child bash -c '
    set -e
    mount --bind "$0" "$0"  # a root that is a mount point can make namespaces of its own
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
    mkdir "$0/dev/pts"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$0/dev/pts"
    ln -s pts/ptmx "$0/dev/ptmx"
    if [[ -n $also_mounted ]]; then
      mkdir -p "$0/source"
      mount --bind -o ro "$also_mounted" "$0/source"
    fi
    exec chroot "$0" /usr/bin/env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "$@"' "$root" "$@"
}

# install_inside [apt-get's OPTION] PACKAGE...: without what they recommend. Patterns are expanded inside.
# shellcheck disable=SC2016  # the shell inside expands it
install_inside() {
  inside 'apt-get -qq -o Dpkg::Use-Pty=0 --no-install-recommends install -y $* >/tmp/apt.log 2>&1 ||
    { tail -n 20 /tmp/apt.log >&2; exit 1; }' install "$@"
}
