#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files that cannot be written, or a folder that cannot be made, end a run with code 74 and a
# reason: full disks, limits, read-only folders, a closed pipe. No result is lost silently.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export EQT_ROOT WORK

# Output of a verb.
run bash -c 'exec "$EQT_PROGRAM" schema >/dev/full'
expect_failure 74 'standard output' "a schema on a full disk"
run bash -c 'exec "$EQT_PROGRAM" list >&-'
expect_failure 74 'standard output' "a list without an output"
# shellcheck disable=SC2016
run bash -c '"$EQT_PROGRAM" schema | true; exit "${PIPESTATUS[0]}"'
[[ $CODE -eq 0 || $CODE -eq 74 ]] || wrong "a schema that nobody reads: expected code 0 or 74, found $CODE"

# shellcheck disable=SC2016
run bash -c 'ulimit -f 4 && exec "$EQT_PROGRAM" schema >"$WORK/limited"'
expect_failure 74 'standard output' "a schema beyond the limit of a file"

# Too little memory.
run bash -c 'ulimit -v 1000000 && exec "$EQT_PROGRAM" bench codecs --compressor none --values 268435456'
expect_failure 2 'out of memory.*--values' "more values than memory"

# A small stack, before LibTorch's tables are on it.
# shellcheck disable=SC2016
run bash -c 'ulimit -s 64 && exec "$EQT_PROGRAM" --version'
expect_failure 2 'a stack of at least 1 MiB' "a stack of 64 KiB"

# The last output of a run cannot be written.
run bash -c 'exec "$EQT_PROGRAM" --config "$WORK/tiny.json" --out "$WORK/unread" \
  --set train.emulate_compute=0 --set train.steps=2 >/dev/full'
expect_failure 74 'result table|standard output' "a result table on a full disk"

# The other cases need their own file systems.
disk=$WORK/disk
mkdir "$disk"
if ! mount -t tmpfs -o size=64k tmpfs "$disk" 2>/dev/null; then
  [[ $FAILURES -eq 0 ]] || finish
  skip "no right to mount a tmpfs; everything before held"
fi
trap 'umount "$disk" 2>/dev/null || umount -l "$disk"; rm -rf "$WORK"' EXIT
lean=(--set output.tensorboard=false)
train 2 disk/weights "${lean[@]}" --set train.steps=2
expect_failure 74 'disk/weights/model\.pt' "weights on a full disk"
[[ ! -e $disk/weights/model.pt && ! -e $disk/weights/model.pt.partial ]] ||
  wrong "half of the weights stay on a full disk"
rm -rf "$disk/weights"
train 2 disk/gradients "${lean[@]}" --set output.dump_gradients=2
expect_failure 74 'gradients/step00000002\.rank0\.npy.*(space|full)' "gradients on a full disk"
expect_equal "step00000002.rank0.json" "$(ls "$disk/gradients/gradients")" "what is left of a gradient on a full disk"
rm -rf "$disk/gradients"
mount -o remount,size=20k "$disk"
train 2 disk/full "${lean[@]}" --set train.emulate_compute=0 --set train.steps=400
expect_failure 74 'disk/full/metrics\.jsonl.*(space|full)' "records on a full disk"
[[ ! -e $disk/full/summary.json ]] || wrong "a run on a full disk has a summary"
rm -rf "$disk/full"
mount -o remount,size=36k "$disk"
train 2 disk/events --set train.emulate_compute=0 --set train.steps=400 --set output.step_records=false
expect_failure 74 'disk/events/events\.out\.tfevents\..*(space|full)' "events on a full disk"
rm -rf "$disk/events"
mount -o remount,ro "$disk"
train 2 disk/readonly --set train.steps=1
expect_failure 74 'disk/readonly' "a read-only folder"
finish
