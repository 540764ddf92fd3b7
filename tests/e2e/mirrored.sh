# SPDX-License-Identifier: Apache-2.0
# Functions for tests of EQT_MIRROR: runs with it end as those without. Source it after lib.sh, with its value.
# shellcheck shell=bash
# shellcheck disable=SC2154  # lib.sh sets RUN, CODE and WORK
readonly MIRROR=$1

note_of() { grep '"type":"note"' "$RUN/metrics.jsonl" | grep -qF -- "$1" || wrong "$RUN: expected a note with \"$1\""; }

# same RANKS NAME [ARGUMENTS]: the run NAME and, with EQT_MIRROR, NAME-MIRROR.
same() {
  local ranks=$1 name=$2 key
  shift 2
  train "$ranks" "$name" "$@"
  expect_code 0 "$name"
  declare -A found=()
  for key in parameter_hash train_loss test_accuracy sent_bytes; do found[$key]=$(summary "$key"); done
  export EQT_MIRROR=$MIRROR
  train "$ranks" "$name-$MIRROR" "$@"
  unset EQT_MIRROR
  expect_code 0 "$name with EQT_MIRROR=$MIRROR"
  [[ $CODE -eq 0 ]] || return 0
  for key in "${!found[@]}"; do
    expect_equal "${found[$key]}" "$(summary "$key")" "$name with EQT_MIRROR=$MIRROR: $key"
  done
}

# resume_both_ways NAME [ARGUMENTS]: the two runs of same(), of 6 steps, go on from the checkpoint of step 4, each the
# other way, and end as before.
resume_both_ways() {
  local name=$1 begun hash
  shift
  hash=$(summary parameter_hash)
  for begun in "$name" "$name-$MIRROR"; do
    rm -rf "$WORK/again"
    cp -r "$WORK/$begun" "$WORK/again"
    rm -rf "$WORK"/again/checkpoints/step-*6 "$WORK"/again/summary.json "$WORK"/again/model.pt
    [[ $begun == "$name-$MIRROR" ]] || export EQT_MIRROR=$MIRROR
    train 2 again "$@" --resume
    unset EQT_MIRROR
    expect_code 0 "$begun, resumed the other way"
    expect_equal "$hash" "$(summary parameter_hash)" "$begun, resumed the other way"
  done
}
