#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Four hosts, one of which is cut off during a run: run_hosts.sh --elastic continues with the other three
# from the newest checkpoint, and the run finishes.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
netlab=$EQT_ROOT/scripts/netlab.sh
"$netlab" --check >"$WORK/check" 2>&1 || skip "$(cat "$WORK/check")"

run "$EQT_ROOT/scripts/run_hosts.sh" --elastic tiny.json
expect_code 2 "no hosts"
run "$EQT_ROOT/scripts/run_hosts.sh" --elastic --hosts 'a;b' tiny.json
expect_code 2 "a host name that is none"
run "$EQT_ROOT/scripts/run_hosts.sh" --elastic --hosts a,b --shell false tiny.json
expect_code 6 "hosts that do not answer"
# A mistake in the config is no reason to start again.
run "$EQT_ROOT/scripts/run_hosts.sh" --elastic --hosts localhost --shell "sh -c true" tiny.json \
  --out "$WORK/mistake" --set train.batch_size=0
expect_code 2 "a mistake in the config"
expect_equal 1 "$(grep -c '^== Start' "$OUT")" "starts with a mistake in the config"

# A host that answers, and on which mpirun's daemon never starts.
cat >"$WORK/agent" <<'AGENT'
#!/bin/sh
shift
case "$*" in *rted*) echo $$ >>"$0.pids" && exec sleep 600 ;; esac
exec sh -c "$*"
AGENT
chmod +x "$WORK/agent"
started=$SECONDS
run "$EQT_ROOT/scripts/run_hosts.sh" --elastic --hosts elsewhere --shell "$WORK/agent" \
  --start-timeout 2 tiny.json --out "$WORK/elsewhere"
expect_code 6 "a host without mpirun's daemon"
expect_text 'mpirun started no rank on elsewhere within 2 seconds' "a host without mpirun's daemon"
expect_equal 1 "$(grep -c '^== Start' "$OUT")" "starts on a host without mpirun's daemon"
expect_number $((SECONDS - started)) "<" 40 "seconds until a start is given up"
[[ -s $WORK/agent.pids ]] || wrong "mpirun did not try to start its daemon"
while read -r pid; do
  for ((i = 0; i < 50; i++)); do
    [[ -e /proc/$pid ]] || break
    sleep 0.1
  done
  [[ $i -lt 50 ]] || wrong "what mpirun started for another host goes on: $(tr '\0' ' ' <"/proc/$pid/cmdline") $(grep State "/proc/$pid/status")"
done <"$WORK/agent.pids"

# Steps of a second, so that the host is cut off within the run.
export EQT_FAULT=slow:rank=0,step=0
cat >"$WORK/slow.json" <<'JSON'
{
  "name": "elastic", "threads_per_rank": 1,
  "model": {"name": "resnet20"},
  "data": {"name": "synthetic", "augment": false, "limit_train": 4096, "limit_test": 12},
  "train": {"epochs": 1, "steps": 20, "batch_size": 4},
  "synchronization": {"timeout_seconds": 4},
  "compressor": {"name": "qsgd"},
  "checkpoint": {"every_steps": 2},
  "output": {"progress": "off"}
}
JSON
RUN=$WORK/run
# shellcheck disable=SC2016  # the laboratory knows the hosts' names
run "$netlab" --ranks 4 --rate 100mbit --once --cut 2=12 -- bash -c \
  '"$0" --elastic --hosts "$NETLAB_HOSTS" --answer 2 --patience 6 "$1" --out "$2"' \
  "$EQT_ROOT/scripts/run_hosts.sh" "$WORK/slow.json" "$RUN"
expect_code 0 "a host that is cut off"
grep -q '^== board2 does not answer any more: it was cut off or is down$' "$OUT" || wrong "no word of the host that is cut off"
grep -q '^== Start 2: 3 ranks on board0:1,board1:1,board3:1' "$OUT" ||
  wrong "the second start: expected three hosts"
grep -q '^== Left out, for they do not answer within 2 s: board2$' "$OUT" || wrong "no word of the host that is left out"
[[ $CODE -ne 0 ]] || python3 - "$RUN" <<'PY' || wrong "records of a run that lost a host"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
notes = [r["text"] for r in records if r["type"] == "note"]
assert any("which 4 ranks saved, on 3" in n for n in notes), notes
steps = [r["step"] for r in records if r["type"] == "step"]
assert steps == sorted(set(steps)) and steps[-1] == 20, steps
PY
finish
