#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From the archives in docs/results the report makes the tables that are committed beside them, and their sweeps go on
# from them.
# CTest gives it the program without LibTorch, which starts faster: nothing is trained.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
results=$EQT_ROOT/docs/results

found=0
for archive in "$results"/*.tar.xz; do
  name=$(basename "$archive" .tar.xz)
  [[ -e $archive ]] || break
  found=$((found + 1))
  tar -xf "$archive" -C "$WORK"
  # The command of docs/results/README.md, without its plots.
  run "$EQT_PROGRAM" report "$WORK/$name" --table accuracy --table decentralised
  expect_code 0 "a report from $name.tar.xz"
  for table in "$results/$name"/*.txt; do
    cmp "$table" "$WORK/$name/report/$(basename "$table")" || wrong "$table is not what the archive gives"
  done
  [[ -s $results/$name/comparison.txt ]] || wrong "$name has no committed table"
  # What a sweep finished must be what its file and configs say today, or it is refused.
  mapfile -t extra < <(python3 - "$WORK/$name" <<'PY'
import glob, json, sys
for word in json.load(open(sorted(glob.glob(sys.argv[1] + "/*.recipe.json"))[0]))["extra"]:
    print(word)
PY
  )
  run "$EQT_ROOT/scripts/sweep.sh" "$EQT_ROOT/configs/sweeps/$name.json" --out "$WORK/$name" --dry-run -- "${extra[@]}"
  expect_code 0 "the sweep of $name.tar.xz goes on"
  expect_equal "$(find "$WORK/$name" -name '*.recipe.json' | wc -l)" "$(grep -c '^finished: ' "$OUT")" \
    "finished runs of $name.tar.xz"
done
[[ $found -gt 0 ]] || wrong "docs/results has no archive"
finish
