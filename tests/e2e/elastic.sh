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

# One launcher for one run.
"$EQT_ROOT/scripts/run_hosts.sh" --elastic --hosts localhost --shell "sh -c true" tiny.json --out "$WORK/alone" \
  --set train.steps=100000 --set train.epochs=100000 >"$WORK/first.out" 2>&1 &
first=$!
for ((i = 0; i < 300; i++)); do
  [[ ! -s $WORK/alone/metrics.jsonl ]] || break
  sleep 0.1
done
run "$EQT_ROOT/scripts/run_hosts.sh" --elastic --hosts localhost --shell "sh -c true" tiny.json --out ./alone
expect_failure 2 "expected no other launcher of the run in ./alone, found process $first;" "a second launcher"
kill -TERM "$first"
CODE=0
wait "$first" || CODE=$?
expect_code 75 "the first launcher, stopped"
# Its run is not finished: the same command continues it.
run "$EQT_ROOT/scripts/run_hosts.sh" --elastic --hosts localhost --shell "sh -c true" tiny.json --out "$WORK/alone" \
  --set train.steps=100000 --set train.epochs=100000 --set train.batch_size=0
expect_code 2 "a run that is to be continued with a mistake"
grep -q "^== localhost has a run in $WORK/alone that was not finished: it continues$" "$OUT" || wrong "a run that was stopped is not continued"

# A replacement for the program notes the arguments of each start. Where there are records, two starts fail, and the
# second one leaves others.
cat >"$WORK/stand-in" <<'SH'
#!/bin/sh
case $1 in
  --version) echo equant-train 1 ;;
  check) exec "$EQT_PROGRAM" "$@" ;;
  *)
    echo "$*" >>"$STARTS"
    [ -e "$RUN/metrics.jsonl" ] && case $(wc -l <"$STARTS") in
      1) exit 7 ;;
      2) rm "$RUN/metrics.jsonl"; echo new >"$RUN/metrics.jsonl"; exit 7 ;;
    esac ;;
esac
exit 0
SH
chmod +x "$WORK/stand-in"
export STARTS=$WORK/starts RUN=$WORK/replaced
stand_in() {
  rm -f "$STARTS"
  run "$EQT_ROOT/scripts/run_hosts.sh" --elastic --no-standby --program "$WORK/stand-in" --answer 1 "$@" --out "$RUN"
}
# Once a start has trained, --overwrite would remove what it has trained.
mkdir "$RUN"
echo old >"$RUN/metrics.jsonl"
stand_in --hosts localhost tiny.json --overwrite
expect_code 0 "--overwrite, and two failures"
expect_equal "--overwrite --overwrite --resume" "$(grep -oE -e '--(overwrite|resume)' "$STARTS" | paste -sd' ')" \
  "what starts do with a run that is to be replaced"

# One rank of two has the batch of both, also where the user chooses the batches of ranks.
export RUN=$WORK/shared
shares() {
  local expected=$1
  shift
  stand_in --hosts localhost,pi1 --shell false "$@"
  expect_code 0 "one host of two, $*"
  expect_equal "$expected" "$(grep -oE 'train\.batch_.*' "$STARTS" | sed 's/.* //')" "batch of one host of two, $*"
}
shares 'train.batch_sizes=[32]' tiny.json
shares 'train.batch_sizes=[64]' tiny.json --set 'train.batch_sizes=[40,24]'
shares 'train.batch_size=32' tiny.json --set train.batch_sizes=auto
sed 's/"batch_size": 16/&, "batch_sizes": [100, 20]/' tiny.json >list.json
shares 'train.batch_sizes=[120]' list.json
sed 's/"batch_size": 16/&, "batch_sizes": "auto"/' tiny.json >auto.json
shares 'train.batch_size=32' auto.json

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

# Steps of a second, in which a new host joins after 8 s, and another is cut off after 24 and back after 32.
export EQT_FAULT=slow:rank=0,step=0
cat >"$WORK/slow.json" <<'JSON'
{
  "name": "elastic", "threads_per_rank": 1,
  "model": {"name": "resnet20"},
  "data": {"name": "synthetic", "augment": false, "limit_train": 4096, "limit_test": 12},
  "train": {"epochs": 1, "steps": 40, "batch_size": 4},
  "synchronization": {"timeout_seconds": 10},
  "compressor": {"name": "qsgd"},
  "output": {"progress": "off"}
}
JSON
RUN=$WORK/run
export FIRST_HOSTS=$WORK/hosts
printf 'board%s\n' 0 1 2 >"$FIRST_HOSTS"
# shellcheck disable=SC2016  # for the shell of the laboratory
run "$netlab" --ranks 4 --rate 100mbit --once --cut 2=24-32 -- bash -c \
  '{ sleep 8; echo board3 >>"$FIRST_HOSTS"; } & "$0" --elastic --hostfile "$FIRST_HOSTS" --answer 10 --patience 6 "$1" --out "$2"' \
  "$EQT_ROOT/scripts/run_hosts.sh" "$WORK/slow.json" "$RUN"
expect_code 0 "a host that is cut off, and comes back"
said() { grep -q "^== $1$" "$OUT" || wrong "expected the launcher to say \"$1\""; }
said 'Start 1: 3 ranks on board0,board1,board2'
said 'The run stops after a step, to go on with board3'
said 'Start 2: 4 ranks on board0,board1,board2,board3'
said 'board2 does not answer any more: it was cut off or is down'
said 'Left out, for they do not answer within 10 s: board2'
said 'Start 3: 3 ranks on board0,board1,board3'
said 'The run stops after a step, to go on with board2'
said 'Start 4: 4 ranks on board0,board1,board2,board3'
[[ $CODE -ne 0 ]] || python3 - "$RUN" <<'PY' || wrong "records of a run that lost a host"
import json, sys
records = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
steps = [r["step"] for r in records if r["type"] == "step"]
assert steps == list(range(1, 41)), steps
summary = json.load(open(sys.argv[1] + "/summary.json"))
starts = summary["starts"]
assert [len(s["hosts"]) for s in starts] == [s["ranks"] for s in starts] == [3, 4, 3, 4], starts
assert starts[2]["hosts"] == ["board0", "board1", "board3"], starts
assert [s["from"] for s in starts] == ["the beginning", "a checkpoint", "a state in memory", "a checkpoint"], starts
assert starts[1]["steps_lost"] == starts[3]["steps_lost"] == 0, starts
assert starts[2]["steps_lost"] <= 8, starts
# All ranks together keep the batch of the first three.
batches = [json.loads(r["config_json"])["train"].get("batch_sizes") if "config_json" in r else
           r["config"]["train"].get("batch_sizes") for r in records if r["type"] == "run"]
assert batches[:2] == [None, [3, 3, 3, 3]], batches
PY
finish
