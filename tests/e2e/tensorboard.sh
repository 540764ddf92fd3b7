#!/usr/bin/env bash
# Event files hold what the records hold, whoever reads them, and each step once, even in a run that
# was killed and went on.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
reader=$EQT_ROOT/tests/e2e/read_events.py
python=${EQT_TENSORBOARD_PYTHON:-python3}
two_epochs=(--set train.steps=0 --set train.epochs=2)
real=1

# read_back FOLDER WHAT: with our own reader and, where it is at hand, with TensorBoard's; both print
# the same counts.
read_back() {
  local own theirs code=0
  own=$(python3 "$reader" "$WORK/$1" 2>"$ERR") || { wrong "$2: the events are not the records"; return; }
  echo "$2: $own" | tr '\n' ' ' && echo
  [[ $real -eq 1 ]] || return 0
  theirs=$("$python" "$reader" --real "$WORK/$1" 2>"$ERR") || code=$?
  [[ $code -ne 77 ]] || { real=0; return; }
  [[ $code -eq 0 ]] || wrong "$2: TensorBoard does not read the records"
  expect_equal "$own" "$theirs" "$2: what both readers count"
}

event_files() { find "$WORK/$1" -name 'events.out.tfevents.*' | wc -l; }

levels=(--set compressor.name=e-elastiquant --set compressor.bucket_size=512)
train 2 whole "${two_epochs[@]}" "${levels[@]}"
expect_code 0 "a run of two epochs"
expect_equal 1 "$(event_files whole)" "event files of a run"
read_back whole "two epochs"
python3 "$reader" "$RUN" | grep -q "level usage: True" || wrong "expected a histogram of level usage"

# Killed behind its newest checkpoint: the steps between count once.
export EQT_FAULT=kill:rank=1,step=13
train 2 killed "${two_epochs[@]}" --set checkpoint.every_steps=6 --set synchronization.algorithm=d-psgd
unset EQT_FAULT
expect_different 0 "$CODE" "a killed run"
train 2 killed "${two_epochs[@]}" --set checkpoint.every_steps=6 --set synchronization.algorithm=d-psgd --resume
expect_code 0 "a run that goes on"
expect_equal 2 "$(event_files killed)" "event files of a run that went on"
read_back killed "a run that went on"

# Another run in the same folder leaves nothing of the first.
train 1 whole "${two_epochs[@]}"
expect_failure 2 "holds another run's" "a folder with results"
train 1 whole "${two_epochs[@]}" --overwrite
expect_code 0 "a run that overwrites"
expect_equal 1 "$(event_files whole)" "event files after --overwrite"
read_back whole "an overwritten run"

train 1 without --set output.tensorboard=false
expect_code 0 "a run without events"
expect_equal 0 "$(event_files without)" "event files of a run without"
[[ $real -eq 1 ]] || echo "TensorBoard's own reader was left out: $python has no module tensorboard (EQT_TENSORBOARD_PYTHON names another)"
finish
