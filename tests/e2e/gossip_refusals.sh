#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Decentralised runs that cannot work: exit 2, the violated condition, and a valid choice.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

S=synchronization
gossip() { echo "--set=$S.algorithm=$1"; }
kind() { echo "--set=$S.topology.kind=$1"; }
DIRECTED="--set=$S.topology.directed=true"
PLAIN=(--set=optimizer.momentum=0)  # what d2 and gradient-tracking need

accept_config() {
  local what=$1
  shift
  program check --config tiny.json "$@"
  expect_code 0 "$what"
}

# refuse RANKS REGEX WHAT ARGUMENTS: a run that must not start.
refuse() {
  local ranks=$1 text=$2 what=$3
  shift 3
  train "$ranks" refused "$@"
  expect_failure 2 "$text" "$what"
  expect_within 20 "$what"
  [[ ! -e $RUN/summary.json ]] || wrong "$what: a refused run wrote a summary"
  rm -rf "$RUN"
}
# accept RANKS WHAT ARGUMENTS: a similar run that works.
accept() {
  local ranks=$1 what=$2
  shift 2
  train "$ranks" accepted --set=train.steps=1 --overwrite "$@"
  expect_code 0 "$what"
}

# Keys without effect.
refuse_config "$S\.consensus_step .*allreduce" "a consensus step without gossip" \
  --set=$S.consensus_step=0.5
refuse_config "$S\.order .*combine-then-adapt.*local-sgd" "an order without gossip" \
  "$(gossip local-sgd)" --set=$S.order=combine-then-adapt
refuse_config "$S\.adaptive_step .*choco-sgd" "AdaGossip without public copies" \
  "$(gossip d-psgd)" --set=$S.adaptive_step=true
refuse_config "$S\.local_steps .*local-sgd" "local steps of another algorithm" \
  "$(gossip ad-psgd)" --set=$S.local_steps=4
refuse_config "$S\.local_steps .*d2" "local steps of a direction that needs every mix" \
  "$(gossip d2)" --set=$S.local_steps=4 --set=optimizer.momentum=0
refuse_config "$S\.post_local_epochs .*local-sgd" "post-local epochs without local-sgd" \
  --set=$S.post_local_epochs=4
refuse_config "$S\.local_steps above 1" "post-local epochs of one local step" \
  "$(gossip local-sgd)" --set=$S.post_local_epochs=4
refuse_config "$S\.collective .*neighbours" "a collective for gossip" \
  "$(gossip d-psgd)" --set=$S.collective=ring

# Momentum.
refuse_config 'momentum 0 .*d2.*found 0\.9' "momentum with d2" "$(gossip d2)"
refuse_config 'momentum 0 .*gradient-tracking' "momentum with gradient tracking" \
  "$(gossip gradient-tracking)"
refuse_config 'momentum_kind .*d2.*quasi-global' "quasi-global momentum with d2" \
  "$(gossip d2)" --set=optimizer.momentum_kind=quasi-global
refuse_config 'momentum_kind .*allreduce.*d-psgd' "quasi-global momentum without gossip" \
  --set=optimizer.momentum_kind=quasi-global
refuse_config 'momentum above 0 .*0\.9' "quasi-global momentum of 0" \
  "$(gossip d-psgd)" "${PLAIN[@]}" --set=optimizer.momentum_kind=quasi-global
refuse_config 'order "combine-then-adapt" only .*d2' "d2 that combines first" \
  "$(gossip d2)" "${PLAIN[@]}" --set=$S.order=combine-then-adapt
for algorithm in d-psgd sgp choco-sgd quant-sgp deep-squeeze sparse-push local-sgd; do
  accept_config "quasi-global momentum with $algorithm" \
    "$(gossip $algorithm)" --set=optimizer.momentum_kind=quasi-global
done

# Compressors that need gradients.
for algorithm in d-psgd choco-sgd local-sgd; do
  refuse_config "signsgd.*$algorithm.*ef-signsgd" "votes in $algorithm" \
    "$(gossip $algorithm)" --set=compressor.name=signsgd
  refuse_config "dgc.*$algorithm.*topk" "a memory of gradients in $algorithm" \
    "$(gossip $algorithm)" --set=compressor.name=dgc
done
refuse_config 'error_feedback .*ef14.*choco-sgd' "error feedback of gradients in gossip" \
  "$(gossip d-psgd)" --set=compressor.name=topk --set=$S.error_feedback=ef14

# Graphs.
graph() {
  printf '%s' "$1" >graph.json
  GRAPH=("$(kind graph)" "--set=$S.topology.file=$PWD/graph.json")
}
refuse 7 'torus.*found 7.*6 or 8 ranks' "a torus of 7" "$(gossip d-psgd)" "$(kind torus)"
graph '{"ranks": 4, "edges": [[0, 1], [2, 3]]}'
refuse 4 'graph\.json.*no edges lead from rank 0 to rank 2' "a graph in two pieces" \
  "$(gossip d-psgd)" "${GRAPH[@]}"
graph '{"ranks": 3, "edges": [[0, 1, 0.75], [1, 2, 0.5]]}'
refuse 3 'graph\.json.*1\.25 for rank 1' "weights above 1" "$(gossip sgp)" "${GRAPH[@]}"

# A chord makes out-degrees differ: columns sum to 1, rows do not.
graph '{"ranks": 4, "directed": true, "edges": [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]}'
for pair in d-psgd:sgp choco-sgd:quant-sgp deep-squeeze:sparse-push; do
  algorithm=${pair%:*} instead=${pair#*:}
  refuse 4 "$algorithm.*rows and columns sum to 1.*$instead" "$algorithm on an irregular graph" \
    "$(gossip "$algorithm")" "${GRAPH[@]}"
done
accept 4 "sgp on an irregular graph" "$(gossip sgp)" "${GRAPH[@]}"
refuse 4 'gradient-tracking.*rows and columns sum to 1' "gradient tracking on an irregular graph" \
  "$(gossip gradient-tracking)" "${PLAIN[@]}" "${GRAPH[@]}"

refuse 3 'choco-sgd.*does not change.*deep-squeeze' "public copies on a graph that changes" \
  "$(gossip choco-sgd)" "$(kind one-peer-exponential)"
refuse 3 'quant-sgp.*does not change.*sparse-push' "public copies and push-sum on such a graph" \
  "$(gossip quant-sgp)" "$(kind one-peer-exponential)"

refuse 3 'd2.*symmetric.*star' "d2 on a directed ring" "$(gossip d2)" "${PLAIN[@]}" "$DIRECTED"
refuse 4 'd2.*above -1/3.*-0\.3333.*odd number' "d2 where an eigenvalue is -1/3" \
  "$(gossip d2)" "${PLAIN[@]}"
refuse 4 'd2.*above -1/3.*-0\.6.*star' "d2 on a torus" "$(gossip d2)" "${PLAIN[@]}" "$(kind torus)"
accept 3 "d2 on an odd ring" "$(gossip d2)" "${PLAIN[@]}"

# A consensus step that is far too large: a warning with the value, and the run continues.
accept 2 "a large consensus step" "$(gossip choco-sgd)" --set=compressor.name=topk \
  --set=$S.consensus_step=1
note=$(grep '"type":"note"' "$RUN/metrics.jsonl" || true)
[[ $note =~ consensus_step\ 1\ may\ not\ contract\ with\ topk.*auto.*take\ (0\.[0-9]+) ]] ||
  wrong "a large consensus step: no warning in \"$note\""
[[ -z ${BASH_REMATCH[1]:-} ]] || accept 2 "the step of the warning" "$(gossip choco-sgd)" \
  --set=compressor.name=topk "--set=$S.consensus_step=${BASH_REMATCH[1]}"
! grep -q 'may not contract' "$RUN/metrics.jsonl" || wrong "the step of the warning: warned of too"
finish
