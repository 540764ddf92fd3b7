#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Decentralised runs that cannot work: exit 2, the violated condition, and a valid choice. Every
# condition: config/unit/gossip_config_test.cpp and setup/mpi/gossip_graphs_test.cpp.
# CTest gives it the program without LibTorch, which starts faster: what is refused computes nothing. bad_input.sh
# and verbs.sh have refusals of the usual program.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

S=synchronization
SMALL=(--set=train.steps=1 --set=train.batch_size=2 --set=data.limit_train=8 --set=data.limit_test=3)

# refuse RANKS REGEX WHAT ARGUMENTS: a run that must not start.
refuse() {
  local ranks=$1 text=$2 what=$3
  shift 3
  train "$ranks" refused "${SMALL[@]}" "$@"
  expect_failure 2 "$text" "$what"
  expect_within 20 "$what"
  [[ ! -e $RUN/summary.json ]] || wrong "$what: a refused run wrote a summary"
  rm -rf "$RUN"
}

refuse_config 'momentum 0 .*d2.*found 0\.9' "momentum with d2" --set=$S.algorithm=d2
refuse_config 'event_threshold 2\.0 only .*choco-sgd.*quant-sgp.*found it with "deep-squeeze"' \
  "events with deep-squeeze" --set=$S.algorithm=deep-squeeze --set=$S.event_threshold=2
refuse_config 'event_threshold 2\.0 only .*found it with "ad-psgd"' "events in pairs" \
  --set=$S.algorithm=ad-psgd --set=$S.event_threshold=2

# Some that only the ranks together can find out: from the graph, or from its file.
refuse 3 'd2.*symmetric.*star' "d2 on a directed ring" --set=$S.algorithm=d2 \
  --set=optimizer.momentum=0 --set=$S.topology.directed=true
refuse 3 'graph that does not change.*one-peer-exponential.*deep-squeeze' "events on a graph that changes" \
  --set=$S.algorithm=choco-sgd --set=$S.event_threshold=2 --set=$S.topology.kind=one-peer-exponential
refuse 3 'delay: expected a graph that does not change.*one-peer-exponential' "late gossip on a graph that changes" \
  --set=$S.algorithm=d-psgd --set=$S.delay=1 --set=$S.topology.kind=one-peer-exponential
echo '{"ranks": 3, "edges": [[0, 1, 0.75], [1, 2, 0.5]]}' >graph.json
refuse 3 'graph\.json.*1\.25 for rank 1' "weights above 1" --set=$S.algorithm=sgp \
  --set=$S.topology.kind=graph "--set=$S.topology.file=$PWD/graph.json"

refuse 2 'fragments: expected at most 1[0-9], .*found 300' "more fragments than fusion buckets" \
  --set=$S.algorithm=local-sgd --set=$S.local_steps=600 --set=$S.fragments=300

# A consensus step that is far too large: a warning with the value, and the run continues.
train 2 accepted "${SMALL[@]}" --set=$S.algorithm=choco-sgd --set=compressor.name=topk \
  --set=$S.consensus_step=1
expect_code 0 "a large consensus step"
note=$(grep '"type":"note"' "$RUN/metrics.jsonl" || true)
[[ $note =~ consensus_step\ 1\ may\ not\ contract\ with\ topk.*auto.*take\ (0\.[0-9]+) ]] ||
  wrong "a large consensus step: no warning in \"$note\""

# Slices that are left out: how many, in a note.
train 2 events "${SMALL[@]}" --set=$S.algorithm=choco-sgd --set=$S.event_threshold=2
expect_code 0 "events"
grep '"type":"note"' "$RUN/metrics.jsonl" | grep -qE 'event-triggered gossip: [0-9]+ of [0-9]+ slices were sent, [0-9]+ were left out' ||
  wrong "events: no note about the slices that were sent"

# Rounds that do less than their keys promise: warnings, and the run continues.
train 2 rounds "${SMALL[@]}" --set=$S.algorithm=local-sgd --set=$S.local_steps=qsr --set=$S.outer.momentum=0.9
expect_code 0 "short rounds with outer momentum"
for text in 'outer.momentum multiplies .* by 10 .*rounds of 16' 'qsr.* with a constant learning rate'; do
  grep '"type":"note"' "$RUN/metrics.jsonl" | grep -q "$text" || wrong "short rounds: no note that matches \"$text\""
done
late=(--set=$S.algorithm=local-sgd --set=$S.local_steps=4)
train 2 late "${SMALL[@]}" "${late[@]}" --set=$S.delay=3
expect_code 0 "a long delay"
grep '"type":"note"' "$RUN/metrics.jsonl" | grep -q 'delay 3 is more than half of the 4 steps' || wrong "a long delay: no note"
train 2 half "${SMALL[@]}" "${late[@]}" --set=$S.delay=2
expect_code 0 "half a round's delay"
! grep -q 'more than half' "$RUN/metrics.jsonl" || wrong "half a round's delay: a note"
finish
