#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rounds of a quorum: a slow board, what is recorded and repeated, resuming, refusals, ends.
# CTest gives it the program without LibTorch, which starts faster: most ranks here compute nothing. The real
# network is one of LibTorch.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

S=synchronization
rounds=(--set=$S.algorithm=local-sgd --set=$S.local_steps=4 --set=$S.delay=auto)
quorum=("${rounds[@]}" --set=$S.quorum=3 --set=compressor.name=int8)
boards=(--set=train.emulate_compute=0.02 --set=train.steps=40)

# A real network with error feedback, in two epochs.
usual train 4 real "${rounds[@]}" --set=$S.quorum=3 --set=compressor.name=topk --set=train.steps=16 \
  --set=data.limit_train=512 --set=checkpoint.every_epochs=1
expect_code 0 "four ranks"
[[ $CODE -eq 0 ]] || finish
expect_equal true "$(summary replicas_identical)" "all ranks end with one model"
expect_equal "$(summary sent_bytes)" "$(summary received_bytes)" "what is sent is received"
expect_equal allgather "$(value "$RUN/summary.json" collective)" "members send to all ranks"
hash=$(summary parameter_hash)

# Every step of every rank has counted once.
counts() {
  python3 - "$1" <<'PY'
import json, re, sys
folder = sys.argv[1]
decisions = [json.loads(line) for line in open(folder + "/decisions.jsonl")]
decisions = [d for d in decisions if d["kind"] == "quorum"]
assert [d["step"] for d in decisions] == list(range(1, len(decisions) + 1)), decisions
assert all(len(d["values"]) == 8 and "ranks were ready" in d["why"] for d in decisions), decisions
members = [[c > 0 for c in d["values"][:4]] for d in decisions]
assert all(sum(m) >= 3 for m in members), decisions
notes = [json.loads(line).get("text", "") for line in open(folder + "/metrics.jsonl")]
last = [n for n in notes if "rounds of a quorum" in n][-1]
counted, of, least, slow, most = map(int, re.search(
    r"(\d+) of (\d+) steps have counted; steps so far from (\d+) \(rank (\d)\) to (\d+)", last).groups())
assert counted == of, last
assert sum(sum(d["values"][:4]) for d in decisions) <= counted, last
print(len(decisions), sum(m.count(False) for m in members), least, slow, most)
PY
}
counts "$RUN" >"$WORK/found" || wrong "decisions of a real network"

# Repeated bit for bit, whatever the timing.
cp "$RUN/decisions.jsonl" "$WORK/decisions.jsonl"
EQT_FAULT=slow:rank=1,step=3 usual train 4 again "${rounds[@]}" --set=$S.quorum=3 --set=compressor.name=topk \
  --set=train.steps=16 --set=data.limit_train=512 "--set=train.replay=$WORK/decisions.jsonl"
expect_code 0 "a replay"
expect_equal "$hash" "$(summary parameter_hash)" "a replay's parameter_hash"
train 3 others "${rounds[@]}" --set=$S.quorum=3 "--set=train.replay=$WORK/decisions.jsonl"
expect_failure 3 'replay.*6 counts of 3 ranks.*found 8' "a replay on other ranks"

# Goes on from the end of an epoch, on as many ranks and on others, which may need another quorum.
cp -r "$WORK/real" "$WORK/cut"
rm -rf "$WORK"/cut/checkpoints/step-*16 "$WORK/cut/summary.json" "$WORK/cut/model.pt"
for ranks in 4 5 2; do
  cp -r "$WORK/cut" "$WORK/resumed$ranks"
  usual train "$ranks" "resumed$ranks" "${rounds[@]}" --set=$S.quorum=$((ranks == 2 ? 2 : 3)) \
    --set=compressor.name=topk --set=train.steps=16 --set=data.limit_train=512 \
    --set=checkpoint.every_epochs=1 --resume
  expect_code 0 "resumed on $ranks ranks"
  expect_equal true "$(summary replicas_identical)" "resumed on $ranks ranks: one model"
done

# A slow board takes fewer steps; the job does not wait for it, and leaves it out of rounds.
train 4 uneven "${quorum[@]}" "${boards[@]}" '--set=train.emulate_compute=[0.02, 0.02, 0.02, 0.1]'
expect_code 0 "a slow board"
counts "$RUN" >"$WORK/found" || wrong "decisions of a slow board"
read -r closed left_out least slow most <"$WORK/found"
expect_number "$left_out" ">" 0 "rounds without the slow board, of $closed"
expect_equal 3 "$slow" "the rank with the fewest steps"
expect_number "$((2 * least))" "<" "$most" "steps of the slow board"

# refused CODE REGEX WHAT ARGUMENTS
refused() {
  train 4 refused "${quorum[@]}" "${@:4}"
  expect_failure "$1" "$2" "$3"
}
refused 2 'quorum: expected from 2 to 4.*found 1' "a quorum of a few" --set=$S.quorum=1
refused 2 'quorum: expected from 2 to 4.*found 5' "more than all ranks" --set=$S.quorum=5
refused 2 'levels do not adapt.*alq' "levels that adapt" --set=compressor.name=alq
refused 2 'delay of at least 1' "no delay" --set=$S.delay=0

# fault SPECIFICATION CODE WHAT: a run on 4 ranks that must end within 10 seconds.
fault() {
  export EQT_FAULT=$1
  rm -rf "$WORK/fault"
  train 4 fault "${quorum[@]}" "${boards[@]}" --set=$S.timeout_seconds=2
  unset EQT_FAULT
  expect_within 10 "$3"
  [[ $CODE == $2 ]] || wrong "$3: expected exit code $2, found $CODE"
  [[ ! -e $RUN/summary.json ]] || wrong "$3: a failed run wrote a summary"
}
fault stall:rank=2,step=6 7 "a trainer stalls"
expect_text 'rank 2/4. step 6.*this rank itself' "a trainer stalls"
fault stop:rank=2,step=6 7 "a rank is stopped"
expect_text 'rank 2' "a rank is stopped"
fault stop:rank=0,step=6 7 "the rank that leads is stopped"
expect_text 'rank 0' "the rank that leads is stopped"
fault kill:rank=1,step=6 '@(137|7)' "a rank dies"
fault throw:rank=2,step=6 70 "an error of a trainer"
expect_text 'EQT_FAULT' "an error of a trainer"
fault throw:rank=1,step=8,bucket=0 70 "an error in a round"
expect_text 'EQT_FAULT' "an error in a round"
fault flip:rank=1,step=8,bucket=0 5 "a damaged message of a round"
expect_text 'rank 1' "a damaged message of a round"
fault nan:rank=1,step=6 4 "a model that is not finite"
finish
