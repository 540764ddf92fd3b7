#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In a container of packaging/Containerfile: an ssh server, so that mpirun and rack.sh can use the container as
# a host.
#
#   container_host [PORT]    listens on PORT [2222]
#
# Lets in root with a key of /root/.ssh/authorized_keys, nobody else, and nobody with a password. The server's
# own keys are kept in /var/lib/equant-train/ssh, so that they stay when the container is replaced.
set -eu
port=${1:-2222}
keys=/var/lib/equant-train/ssh
[ -s /root/.ssh/authorized_keys ] || {
  echo "container_host: expected a public key in /root/.ssh/authorized_keys, found none; mount one there." >&2
  exit 2
}
mkdir -p "$keys" /run/sshd
chmod 700 "$keys"
[ -s "$keys/host_key" ] || ssh-keygen -q -t ed25519 -N "" -f "$keys/host_key"
exec /usr/sbin/sshd -D -e -f /dev/null -p "$port" -h "$keys/host_key" -o PidFile=none -o UsePAM=no -o StrictModes=no \
  -o PermitRootLogin=prohibit-password -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no \
  -o AllowUsers=root -o AuthorizedKeysFile=.ssh/authorized_keys
