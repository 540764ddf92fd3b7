#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rack.sh on four hosts with their own ssh servers, system folders and work folders, two of which let in a
# user with sudo and two root: from nothing to a finished run, the same again, a run that is stopped and
# resumed, and refusals, one of them of a host that is down.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
rack=$EQT_ROOT/scripts/rack.sh

refused() {
  local code=$1 text=$2
  shift 2
  run "$rack" "$@"
  expect_failure "$code" "$text" "rack.sh $*"
}
printf '%s\n' '# the rack' 'pi0 slots=2' 'pi1' >hosts
printf '%s\n' 'pi0' 'pi0 slots=2' >twice
echo '# none' >none
refused 2 'file of hosts is missing'
refused 2 'readable file, found none' nosuch tiny.json
refused 2 'line NAME slots=K for each host' none tiny.json
refused 2 'pi0 twice' twice tiny.json
refused 2 'readable config file, found none at nosuch' hosts nosuch
refused 2 '"fly"' --only fly hosts tiny.json
refused 2 '--least needs a whole number' --least none hosts tiny.json
refused 2 'found none at nosuch' --data nosuch hosts tiny.json
refused 2 'expected a Debian package, found none at tiny.json' --deb tiny.json hosts tiny.json
refused 6 'host pi0 does not answer to "false pi0 true"' --shell false hosts tiny.json
run "$rack" --leave-out --shell false hosts tiny.json
expect_code 6 "--leave-out without any host"

[[ $(id -u) -eq 0 ]] || skip "only root can start ssh servers of other hosts"
for tool in /usr/sbin/sshd ssh ssh-keygen rsync dpkg-deb apt-get; do
  command -v "$tool" >/dev/null || skip "$tool was not found"
done
"$EQT_ROOT/scripts/netlab.sh" --check >"$WORK/check" 2>&1 || skip "$(cat "$WORK/check")"

# A package with the program alone, and a newer one for another architecture.
architecture=$(dpkg --print-architecture)
make_deb() {
  mkdir -p "package/DEBIAN" "package/usr/bin"
  cp -L "$EQT_PROGRAM" package/usr/bin/equant-train
  printf '%s\n' "Package: equant-train" "Version: $1" "Architecture: $2" "Installed-Size: $3" \
    "Maintainer: tests" "Description: the program" >package/DEBIAN/control
  dpkg-deb -Znone --root-owner-group --build package "$4" >/dev/null
}
make_deb 1-1 "$architecture" 1000 program.deb
make_deb 1-1 riscv64 1000 other.deb
make_deb 2-1 "$architecture" 999999999999 huge.deb
ssh-keygen -q -t ed25519 -N "" -f "$WORK/key"
ssh-keygen -q -t ed25519 -N "" -f "$WORK/host_key"

# Inside the laboratory board0 starts the run; the others are hosts with system folders of their own
# over this machine's, so that installing changes nothing here.
cat >start_host.sh <<'SH'
set -e
work=$1
mkdir "/dev/shm/$(hostname)" && cd "/dev/shm/$(hostname)"
for folder in usr etc var; do
  mkdir -p "$folder/upper" "$folder/work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$folder/upper,workdir=$folder/work" "/$folder"
done
mount -t tmpfs host /run && mkdir /run/sshd
mkdir home && mount --bind home /root
rm -f /usr/bin/equant-train
dpkg --force-all --purge equant-train >/dev/null 2>&1 || true
mkdir rack && mount --bind rack "$work/rack"
# A user whose sudo asks for a password, as long as there is no file for it. The password * fits none.
case $(hostname) in
  board[12])
    useradd --home-dir "$PWD/tester" --no-create-home --shell /bin/bash --password '*' tester
    mkdir tester && chown tester tester rack ;;
esac
cp "$work/key.pub" /etc/rack_keys
exec /usr/sbin/sshd -f /dev/null -h "$work/host_key" -o PidFile=none -o StrictModes=no -o UsePAM=no \
  -o PermitRootLogin=prohibit-password -o AuthorizedKeysFile=/etc/rack_keys -E "$work/sshd.$(hostname)"
SH
cat >ssh_config <<EOT
IdentityFile $WORK/key
IdentitiesOnly yes
BatchMode yes
UserKnownHostsFile $WORK/known_hosts
StrictHostKeyChecking accept-new
LogLevel ERROR
EOT
cp ssh_config as_root
if command -v sudo >/dev/null; then
  printf '%s\n' 'Host board1 board2' '  User tester' >>ssh_config
else
  echo "sudo was not found: all hosts let in root, and installing by sudo is not tested"
fi
chmod 755 "$WORK"
mkdir -p rack/data
cp tiny.json rack/
head -c 100000 /dev/zero >rack/data/bytes
printf '%s\n' '# four' board1 board2 board3 'board4 slots=1' >hosts
sed '$d' hosts >three
cat >inside.sh <<'SH'
set -euo pipefail
source "$1/tests/e2e/lib.sh"
rm -rf "$WORK"
trap - EXIT
top=$2 WORK=$2/inside rack=$1/scripts/rack.sh agent=$(mpi_remote_shell)
mkdir -p "$WORK/mpi"
chmod 1777 "$WORK/mpi"
cd "$top"
for board in 1 2 3 4; do
  "$agent" board$board unshare --mount bash "$top/start_host.sh" "$top" >start.$board 2>&1 ||
    skip "no host can be started: $(cat start.$board)"
done
unset OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent
export TMPDIR=/dev/shm
shell=(--shell "ssh -F $top/ssh_config" --interface eth0)
lines_of() { grep -c "^$1 *board[1-4]: $2" "$OUT" || true; }

run "$rack" "${shell[@]}" hosts rack/tiny.json
expect_failure 2 'board1 has no executable /usr/bin/equant-train; give its package' "hosts without the program"
run "$rack" "${shell[@]}" --only install --deb other.deb hosts rack/tiny.json
expect_failure 2 'board1 needs equant-train for .*none of --deb has it' "a package for another architecture"
if command -v sudo >/dev/null; then
  run "$rack" "${shell[@]}" --only install --deb program.deb hosts rack/tiny.json
  expect_failure 2 'board1: installing equant-train needs root, and sudo asks for a password' "sudo with a password"
  for board in 1 2; do
    ssh -F "$top/as_root" root@board$board 'umask 227; echo "tester ALL=(root) NOPASSWD: ALL" >/etc/sudoers.d/tester'
  done
fi

run "$rack" "${shell[@]}" --only install --deb huge.deb hosts rack/tiny.json
expect_failure 74 'bytes free at /, equant-train needs 10[0-9]{14}' "a package larger than the disk"

run "$rack" "${shell[@]}" --only install --deb program.deb hosts rack/tiny.json
expect_equal 4 "$(lines_of install 'equant-train 1-1 installed$')" "hosts installed"
run "$rack" "${shell[@]}" --only run hosts rack/tiny.json
expect_failure 2 'board1 cannot read the config .*/rack/tiny.json; send it there with --only copy' "a run without the config"

# Long enough to be stopped.
steps=(--set train.steps=40 --set train.epochs=40 --set train.evaluate_every=40 --set data.limit_train=128)
all=("${shell[@]}" --deb program.deb --deb other.deb --data rack/data hosts rack/tiny.json --out rack/run "${steps[@]}")
run "$rack" "${all[@]}"
expect_code 0 "from nothing to a finished run"
expect_equal 4 "$(lines_of check '.*Debian.* eth0 10\.77\.0\.[2-5], Open MPI .* equant-train 0.*')" "hosts checked"
expect_equal 4 "$(lines_of copy '.*tiny.json copied (1 files), .*/data copied (1 files)')" "hosts copied to"
expect_equal 1 "$(grep -c '^doctor .*: .' "$OUT")" "what doctor says"
expect_equal 4 "$(grep -cE '^board[1-4] .* [0-9.]+$' "$OUT")" "hosts with their speeds"
expect_equal 1 "$(grep -c '^run .*: finished' "$OUT")" "the run"
expect_equal 1 "$(lines_of collect '[1-9].* files fetched to .*/rack/run')" "hosts with results"
RUN=$top/rack/run
expect_equal 4 "$(summary ranks)" "ranks of the run that was fetched"

run "$rack" "${all[@]}"
expect_code 0 "the same again"
expect_equal 4 "$(lines_of install 'nothing to do')" "hosts with nothing to install"
expect_equal 4 "$(lines_of copy 'nothing to do')" "hosts with nothing to copy"
expect_equal 1 "$(lines_of run 'nothing to do')" "a run that is finished"
expect_equal 1 "$(lines_of collect 'nothing to do')" "results that are here"

# SIGTERM ends a run with its state saved on every host; --resume ends like the run that nobody stopped.
stopped=("${shell[@]}" --data rack/data hosts rack/tiny.json --out rack/stopped "${steps[@]}")
whole=$(summary parameter_hash) OUT=$WORK/stopped.out ERR=$WORK/stopped.err CODE=0
set_mpi folder "$WORK/mpi"
"$rack" --only run "${stopped[@]}" >"$OUT" 2>"$ERR" </dev/null &
job=$!
for ((tick = 0; tick < 200; tick++)); do
  ! ssh -F "$top/ssh_config" board1 "grep -qs type.:.step $top/rack/stopped/metrics.jsonl" || break
  sleep 0.1
done
kill -TERM "$job"
wait "$job" || CODE=$?
expect_code 75 "SIGTERM to rack.sh"
expect_text 'the run has ended after step [0-9]+ of 40, its state is saved' "SIGTERM to rack.sh"
run "$rack" --only run "${stopped[@]}" --resume
expect_code 0 "--resume after SIGTERM"
run "$rack" --only collect "${stopped[@]}"
RUN=$top/rack/stopped
expect_equal "$whole" "$(summary parameter_hash)" "the parameters of a run that was stopped and resumed"

# One host with a clock that is a minute ahead and another program: a warning, and an error.
on4() { ssh -F "$top/ssh_config" board4 "$@"; }
on4 'printf "#!/bin/sh\nexec /bin/date -d \"60 seconds\" \"\$@\"\n" >/usr/local/bin/date; chmod +x /usr/local/bin/date'
run "$rack" "${shell[@]}" --only check hosts rack/tiny.json
expect_code 0 "a wrong clock is no error"
grep -qE 'warning: the clock of board4 differs by \+(5[5-9]|60)' "$OUT" || wrong "no warning of a wrong clock"
on4 'rm /usr/local/bin/date /usr/bin/equant-train; printf "#!/bin/sh\necho equant-train 9\n" >/usr/bin/equant-train; chmod +x /usr/bin/equant-train'
run "$rack" "${shell[@]}" --only run hosts rack/tiny.json --out rack/other
expect_failure 2 'same equant-train on every host, found .* on board1 and 9 on board4' "two versions of the program"
on4 'printf "#!/bin/sh\necho mpirun \"(Open MPI)\" 3.0\n" >/usr/local/bin/mpirun; chmod +x /usr/local/bin/mpirun'
run "$rack" "${shell[@]}" --only check hosts rack/tiny.json
expect_failure 6 'expected MPI .*found 3.0 on board4' "two versions of Open MPI"
on4 'rm /usr/local/bin/mpirun /usr/bin/rsync'
run "$rack" "${shell[@]}" --only copy hosts rack/tiny.json
expect_failure 2 'board4 has no rsync' "a host without rsync"

# The last host is down.
on4 'ip link set eth0 down' >/dev/null 2>&1 &
link=$!
sleep 1
run "$rack" "${shell[@]}" --only check hosts rack/tiny.json
expect_failure 6 'host board4 does not answer to .* within 5 s.*--leave-out' "a host that is down"
run "$rack" "${shell[@]}" --only check --leave-out --least 4 hosts rack/tiny.json
expect_failure 6 '3 of 4 hosts answer, at least 4 are needed' "fewer hosts than --least"
run "$rack" "${shell[@]}" --leave-out --data rack/data hosts rack/tiny.json --out rack/three
expect_code 0 "a run without the host that is down"
RUN=$top/rack/three
expect_equal 3 "$(summary ranks)" "ranks without the host that is down"
kill "$link" 2>/dev/null || true
finish
SH
RUN_LIMIT=380 run "$EQT_ROOT/scripts/netlab.sh" --ranks 5 --rate unlimited --once -- bash "$WORK/inside.sh" "$EQT_ROOT" "$WORK"
cat "$OUT"
[[ $CODE -eq 0 ]] || cat "$ERR"
exit "$CODE"
