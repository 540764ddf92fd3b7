#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Event files have the same figures as the records, with any reader, and each step once, even in a
# run that was killed and resumed.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
reader=$EQT_ROOT/tests/e2e/read_events.py
python=${EQT_TENSORBOARD_PYTHON:-python3}
two_epochs=(--set train.steps=0 --set train.epochs=2)
real=1

# read_back FOLDER WHAT: with our own reader and, if it is installed, with TensorBoard's; both print
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

# Killed after its newest checkpoint: the repeated steps count once.
export EQT_FAULT=kill:rank=1,step=13
train 2 killed "${two_epochs[@]}" --set checkpoint.every_steps=6 --set synchronization.algorithm=d-psgd
unset EQT_FAULT
expect_different 0 "$CODE" "a killed run"
train 2 killed "${two_epochs[@]}" --set checkpoint.every_steps=6 --set synchronization.algorithm=d-psgd --resume
expect_code 0 "a resumed run"
expect_equal 2 "$(event_files killed)" "event files of a run that went on"
read_back killed "a run that went on"

# Another run in the same folder removes the files of the first.
train 1 whole "${two_epochs[@]}"
expect_failure 2 "holds another run's" "a folder with results"
train 1 whole "${two_epochs[@]}" --overwrite
expect_code 0 "a run that overwrites"
expect_equal 1 "$(event_files whole)" "event files after --overwrite"
read_back whole "an overwritten run"

train 1 without --set output.tensorboard=false
expect_code 0 "a run without events"
expect_equal 0 "$(event_files without)" "event files of a run without"
# The same run for MLflow and Weights & Biases: exported to replacements that write their input, and
# to the packages themselves if they are installed.
trackers=$EQT_ROOT/tests/e2e/read_trackers.py
python3 "$trackers" write-stand-in "$WORK/stand-in"
tracker_python=${EQT_TRACKER_PYTHON:-python3}
unset EQT_TRACKER_PYTHON
for tracker in mlflow wandb; do
  HANDED=$WORK/$tracker.json PYTHONPATH=$WORK/stand-in run "$EQT_ROOT/scripts/export_runs.sh" --to $tracker "$WORK/whole"
  expect_code 0 "export_runs.sh --to $tracker"
  python3 "$trackers" stand-in "$WORK/whole" "$WORK/$tracker.json" 2>"$ERR" ||
    wrong "export_runs.sh --to $tracker hands over something else than the records"
done
run "$EQT_ROOT/scripts/export_runs.sh" --to mlflow "$WORK/stand-in"
expect_failure 3 'expected runs' "export_runs.sh of a folder without runs"
run "$EQT_ROOT/scripts/export_runs.sh" --to mlflow "$WORK/absent"
expect_failure 2 'no folder' "export_runs.sh of nothing"
export EQT_TRACKER_PYTHON=$tracker_python MLFLOW_TRACKING_URI=sqlite:///$WORK/mlflow.db MLFLOW_ALLOW_FILE_STORE=true
export WANDB_MODE=offline WANDB_SILENT=true WANDB_DIR=$WORK/offline
mkdir "$WORK/offline"
if "$tracker_python" -c 'import sqlalchemy' 2>/dev/null; then :; else MLFLOW_TRACKING_URI=file://$WORK/mlruns; fi
for tracker in mlflow wandb; do
  "$tracker_python" -c "import $tracker" 2>/dev/null || {
    echo "$tracker itself was left out: $tracker_python has no module $tracker (EQT_TRACKER_PYTHON names another)"
    continue
  }
  run "$EQT_ROOT/scripts/export_runs.sh" --to $tracker "$WORK/whole"
  expect_code 0 "export_runs.sh --to $tracker, the package itself"
  [[ $tracker == wandb ]] || run "$EQT_ROOT/scripts/export_runs.sh" --to mlflow "$WORK/whole"  # exporting
                                                                                               # twice
                                                                                               # makes
                                                                                               # one
                                                                                               # run
  "$tracker_python" "$trackers" $tracker "$WORK/whole" "$WORK/offline" 2>"$ERR" ||
    wrong "$tracker holds something else than the records"
done
[[ $real -eq 1 ]] || echo "TensorBoard's own reader was left out: $python has no module tensorboard (EQT_TENSORBOARD_PYTHON names another)"
finish
