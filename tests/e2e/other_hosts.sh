#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What other hosts say, send and are called, with remote shells that this test makes: no answer is run by this host's
# shell or steers its terminal, what is collected stays in the run folder, and names that Open MPI mistakes are
# refused or kept apart.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
hosts=$EQT_ROOT/scripts/run_hosts.sh
rack=$EQT_ROOT/scripts/rack.sh

# Runs the words on this machine, as agents of mpirun and rsync do; each host has its own run folder, and its own
# folder for Open MPI: two daemons that make the same one at the same time end.
cat >"$WORK/here" <<'SH'
#!/bin/sh
host=$1
shift
while [ "${1#-}" != "$1" ]; do shift; done
exec sh -c "$(printf '%s' "$*" | sed "s|$RACK_OUT|$RACK_OUT.$host|g; s|$MPI_FOLDER|$MPI_FOLDER.$host|g")"
SH
# Answers with a command for every number that it is asked for.
cat >"$WORK/hostile" <<'SH'
#!/bin/sh
case "$*" in
  *mkdir*) exit 0 ;;
  *'rsync --server'*) shift; exec sh -c "$*" ;;
  *end=1*)
    printf '%s\n' 'free=hosts[$(touch pwned)]' 'mpi='"$(mpirun --version | sed -n '1s/.* //p')" rsync=1 root=yes \
      "architecture=$(dpkg --print-architecture)"
    printf 'debian=12\033]0;title\007\302\233\nend=1\n' ;;
  *mpirun*--version*) exec mpirun --version ;;
  *now=*) echo 'now=hosts[$(touch pwned)]' ;;
  *) echo 'hosts[$(touch pwned)]' ;;
esac
SH
# Never ends its answer.
printf '#!/bin/sh\nexec cat /dev/zero\n' >"$WORK/endless"
# Has another version of MPI, and stays while it is listened to.
printf '#!/bin/sh\ncase "$*" in *mpirun*--version*) echo "mpirun (Open MPI) 3.0.1" ;; esac
case "$*" in *while*) exec sleep 20 ;; esac\n' >"$WORK/older"
chmod +x "$WORK/here" "$WORK/hostile" "$WORK/endless" "$WORK/older"
export RACK_OUT=$WORK/run MPI_FOLDER=$WORK/mpi
echo pi0 >"$WORK/rack"

# none_ran WHAT: no answer was evaluated, and nothing that was printed steers a terminal.
none_ran() {
  [[ ! -e pwned ]] || wrong "$1: this host ran a command in another host's answer"
  ! LC_ALL=C grep -q $'[\x1b\x07]\|\xc2\x9b' "$OUT" "$ERR" || wrong "$1: control characters were printed"
}
run "$hosts" --hosts pi0 --shell "$WORK/hostile" --bind core --threads 1 --program /bin/true -- x
expect_failure 6 'host pi0: expected a whole number for its cores.*found "hosts\[' "a host without a number of cores"
none_ran "nproc"
run "$rack" --only check --shell "$WORK/hostile" "$WORK/rack" tiny.json
expect_code 0 "a host with odd answers"
grep -q 'Debian 12?\]0;title??,' "$OUT" || wrong "the answers are not shown"
none_ran "check"
if command -v dpkg-deb >/dev/null; then
  mkdir -p package/DEBIAN
  # shellcheck disable=SC2016  # nothing is to be expanded
  printf '%s\n' "Package: x" "Version: 1" "Architecture: all" 'Installed-Size: hosts[$(touch pwned)]' \
    "Maintainer: tests" "Description: none" >package/DEBIAN/control
  dpkg-deb -Znone --root-owner-group --build package x.deb >/dev/null
  run "$rack" --only install --deb x.deb --shell "$WORK/hostile" "$WORK/rack" tiny.json
  expect_failure 6 'host pi0: expected a whole number for the bytes free at /' "a host without free bytes"
  none_ran "install"
fi
run "$hosts" --hosts pi0 --shell "$WORK/endless" --bind core --threads 1 --program /bin/true -- x
expect_within 20 "an answer without an end"
expect_code 6 "an answer without an end"

if command -v rsync >/dev/null; then
  run "$rack" --only copy --shell "$WORK/hostile" "$WORK/rack" tiny.json
  expect_failure 6 "host pi0: expected a whole number for the bytes free at $WORK" "a host without free bytes to copy to"
  none_ran "copy"
  # What another host holds in place of results.
  there=$RACK_OUT.pi0
  mkdir -p "$there/checkpoints"
  echo '{}' >"$there/summary.json"
  echo one >"$there/checkpoints/state"
  chmod u+s "$there/checkpoints/state"
  ln -s /etc/passwd "$there/passwd"
  ln -s ../../outside "$there/checkpoints/up"
  ln -s checkpoints/state "$there/newest"
  mkfifo "$there/metrics.jsonl"
  [[ $(id -u) -ne 0 ]] || mknod "$there/device" c 1 5 2>/dev/null || true
  run "$rack" --only collect --shell "$WORK/here" "$WORK/rack" tiny.json --out "$RACK_OUT"
  expect_code 0 "a run with links, a pipe and a device"
  expect_equal one "$(cat "$RACK_OUT/newest")" "a link within the run"
  expect_equal "checkpoints checkpoints/state newest summary.json" \
    "$(cd "$RACK_OUT" && find . -mindepth 1 -printf '%P\n' | sort | paste -sd' ')" "what was collected"
  [[ ! -u $RACK_OUT/checkpoints/state ]] || wrong "a collected file runs as its owner"
fi

# Daemons of different versions would not understand each other.
run "$hosts" --hosts pi0 --shell "$WORK/older" --program /bin/true -- x
expect_failure 6 'expected MPI [45][^ ]* on every host, as here, found 3\.0\.1 on pi0' "run_hosts.sh, another MPI"
run "$EQT_ROOT/scripts/run_hosts.sh" --elastic --hosts pi0 --shell "$WORK/older" tiny.json
expect_failure 6 'found 3\.0\.1 on pi0' "--elastic, another MPI"

# Paths reach a shell that is not bash, also with letters that are none in this locale.
folder="$WORK/it's grün"
mkdir -p "$folder/run"
echo begun >"$folder/run/metrics.jsonl"
cat >"$folder/program" <<'SH'
#!/bin/sh
case $1 in --version) echo equant-train 1 ;; *) echo "$*" >>"${0%/*}/starts" ;; esac
SH
chmod +x "$folder/program"
LC_ALL=C run "$hosts" --elastic --no-standby --hosts pi0 --shell "$WORK/here" --program "$folder/program" tiny.json \
  --out "$folder/run"
expect_code 0 "a path with other letters"
grep -q -e ' --resume$' "$folder/starts" || wrong "a run in a path with other letters is not continued"
# shellcheck disable=SC2016  # shells expand such words
words=("it's" "'" 'a\b' $'two\nlines' '$x `y` "z" & ' grün '')
# shellcheck source=scripts/lib/hosts.sh
expect_equal "$(printf '%s|' "${words[@]}")" \
  "$(LC_ALL=C; source "$EQT_ROOT/scripts/lib/hosts.sh"; sh -c "printf '%s|' $(quoted "${words[@]}")")" "words for a shell"

# Names that Open MPI does not take, and a file of them that does not end.
printf '%s\n' pi_0 pi_1 >"$WORK/underscore"
for names in "--hosts pi_0,pi_1" "--hostfile $WORK/underscore"; do
  # shellcheck disable=SC2086  # two words
  run "$hosts" $names --shell "$WORK/here" --program /bin/true -- x
  expect_failure 2 'found "pi_0": Open MPI.s daemon crashes on "_"' "$names"
done
run "$EQT_ROOT/scripts/run_hosts.sh" --elastic --hosts pi_0 --shell "$WORK/here" tiny.json
expect_failure 2 'daemon crashes on "_"' "--elastic, a name with _"
run "$rack" --shell "$WORK/here" "$WORK/underscore" tiny.json
expect_failure 2 'daemon crashes on "_"' "rack.sh, a name with _"
run "$hosts" --hosts $'pi0\e[31m' --program /bin/true -- x
expect_failure 2 'found "pi0\?\[31m"' "a name with control characters"
none_ran "a name with control characters"
mkfifo "$WORK/pipe"
run "$hosts" --hostfile "$WORK/pipe" --program /bin/true -- x
expect_failure 2 'file of hosts that ends within 10 s' "a pipe that nobody writes to"
run "$hosts" --hostfile /dev/zero --program /bin/true -- x
expect_failure 2 'found none in /dev/zero' "a device that does not end"

# Open MPI would cut these two at their first dot. Version 5.0 may wait for ever after ranks that end at once.
# shellcheck disable=SC2016  # for the ranks
printf '#!/bin/sh\necho "rank $OMPI_COMM_WORLD_RANK, $OMPI_COMM_WORLD_LOCAL_SIZE here"\nsleep 0.5\n' >"$WORK/ranks"
chmod +x "$WORK/ranks"
run "$hosts" --hosts node.rack1.lan,node.rack2.lan --shell "$WORK/here" \
  --program "$WORK/ranks" -- x
expect_code 0 "two hosts with one name before the dot"
expect_equal "rank 0, 1 here rank 1, 1 here" "$(sort "$OUT" | paste -sd' ')" "ranks of two hosts"
finish
