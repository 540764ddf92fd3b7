#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/examples/equant-train.service: systemd can read it, and its command, which is started and stopped here
# as systemd would, ends after SIGTERM with its state saved, and goes on to the end of an uninterrupted run.
# CTest gives it the program without LibTorch, which starts faster: the command is the same. signals.sh stops and
# resumes runs of LibTorch.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unit=$EQT_ROOT/docs/examples/equant-train.service
example=$EQT_ROOT/docs/examples/equant-train.env

# setting NAME: prints its value in the unit, with the paths of this checkout.
setting() { sed -n "s/^$1=//p" "$unit" | sed "s#/usr/share/equant-train#$EQT_ROOT#g"; }

if command -v systemd-analyze >/dev/null; then
  sed "s#/usr/share/equant-train#$EQT_ROOT#g" "$unit" >"$WORK/equant-train.service"
  run systemd-analyze verify "$WORK/equant-train.service"
  expect_code 0 "systemd-analyze verify"
  [[ ! -s $ERR ]] || wrong "systemd-analyze verify warns"
else
  echo "systemd-analyze was not found: whether systemd can read the unit is not tested"
fi
for variable in $(setting ExecStart | sed 's/[^$]*\$[{]*\([A-Z]*\)[^$]*/\1 /g'); do
  grep -q "^$variable=" "$example" || wrong "equant-train.env does not set $variable"
done

# service OUT [NAME=VALUE...]: the command of the unit, as an array `command`, with these settings.
printf '%s\n' 'localhost slots=2' >hosts
service() {
  local words
  # shellcheck disable=SC2034,SC2030  # the command that eval expands has them
  words=$(
    # shellcheck source=docs/examples/equant-train.env
    source "$example"
    LEAST=1 HOSTS=$WORK/hosts CONFIG=$WORK/tiny.json OUT=$1 OPTIONS="--program $EQT_PROGRAM"
    ARGUMENTS="--set train.steps=60 --set train.epochs=60 --set data.limit_train=128 --set train.evaluate_every=4"
    shift
    for word in "$@"; do printf -v "${word%%=*}" %s "${word#*=}"; done
    # As systemd does: $NAME becomes words, ${NAME} one word.
    eval "printf '%s\n' $(setting ExecStart | sed 's/\${\([A-Z]*\)}/"${\1}"/g')"
  )
  mapfile -t command <<<"$words"
  command=(env -i "PATH=$PATH" "TMPDIR=$WORK" LANG=C.UTF-8 "${command[@]}")
}

# has_code CODE SETTING: whether the unit's setting lists it.
has_code() { [[ " $(setting "$2") " == *" $1 "* ]]; }

RUN=$WORK/whole
service "$RUN"
run "${command[@]}"
expect_code 0 "a run that nobody stops"
whole=$(summary parameter_hash)

RUN=$WORK/stopped OUT=$WORK/stopped.out ERR=$WORK/stopped.err CODE=0
service "$RUN"
"${command[@]}" >"$OUT" 2>"$ERR" </dev/null &
job=$!
for ((tick = 0; tick < 1200; tick++)); do
  ! grep -q '"type":"step"' "$RUN/metrics.jsonl" 2>/dev/null || break
  kill -0 "$job" 2>/dev/null || break
  sleep 0.05
done
kill -TERM "$job"
wait "$job" || CODE=$?
expect_code 75 "SIGTERM to the unit's command"
has_code 75 SuccessExitStatus || wrong "the unit does not take 75 for a success"
has_code 75 RestartForceExitStatus || wrong "the unit does not continue a run that another board's shutdown has ended"
expect_text 'its state is saved' "SIGTERM to the unit's command"
[[ ! -e $RUN/summary.json ]] || wrong "a stopped run wrote a summary"
# Its helpers end with it, within a second.
for ((tick = 0; tick < 20; tick++)); do
  left=$(pgrep -af -- "--out $RUN( |\$)") || break
  sleep 0.1
done
[[ -z $left ]] || wrong "processes run after the unit's command has ended: $left"

run "${command[@]}"
expect_code 0 "the unit started again"
grep -q 'was stopped, it continues' "$OUT" || wrong "the unit started again does not say that the run continues"
expect_equal "$whole" "$(summary parameter_hash)" "the parameters of a run that was stopped and started again"
expect_equal 60 "$(summary steps)" "the steps of a run that was stopped and started again"
run "${command[@]}"
expect_code 0 "the unit of a finished run"
grep -q 'nothing to do' "$OUT" || wrong "a finished run is repeated"

# What systemd does not try again, and what it does.
service "$WORK/mistake" 'ARGUMENTS=--set train.batch_size=0'
run "${command[@]}"
expect_code 2 "a mistake in the config"
for code in 2 3 4 70 74; do
  has_code "$code" RestartPreventExitStatus || wrong "the unit tries again after exit code $code"
done
printf '%s\n' localhost nosuch >hosts
service "$WORK/alone" LEAST=2 "OPTIONS=--program $EQT_PROGRAM --shell false"
run "${command[@]}"
expect_failure 6 '1 of 2 hosts answer, at least 2 are needed' "fewer hosts than --least"
! has_code 6 RestartPreventExitStatus || wrong "the unit does not wait for boards that are off"

# A signal before a rank is started: there is nothing to save, and the code is the same.
printf '%s\n' '#!/bin/sh' 'sleep 2' >silent
chmod +x silent
RUN=$WORK/early OUT=$WORK/early.out ERR=$WORK/early.err CODE=0
"$EQT_ROOT/scripts/run_hosts.sh" --elastic --hosts pi0 --shell "$WORK/silent" --program "$EQT_PROGRAM" tiny.json --out "$RUN" \
  >"$OUT" 2>"$ERR" </dev/null &
job=$!
sleep 1
kill -TERM "$job"
wait "$job" || CODE=$?
expect_code 75 "SIGTERM while hosts are asked"
[[ ! -e $RUN ]] || wrong "SIGTERM while hosts are asked: a run was started"
# mpirun, which is starting them then, ends with 0.
cat >launching <<'AGENT'
#!/bin/sh
shift
case $* in *rted*) touch "${0%/*}/launches"; exec sleep 60 ;; esac
exec sh -c "$*"
AGENT
chmod +x launching
echo pi0 >hosts
service "$RUN" "OPTIONS=--program $EQT_PROGRAM --shell $WORK/launching"
OUT=$WORK/launch.out ERR=$WORK/launch.err CODE=0
"${command[@]}" >"$OUT" 2>"$ERR" </dev/null &
job=$!
for ((tick = 0; tick < 600; tick++)); do
  [[ ! -e launches ]] || break
  sleep 0.05
done
sleep 0.5
kill -TERM "$job"
wait "$job" || CODE=$?
expect_code 75 "SIGTERM while ranks are started"
finish
