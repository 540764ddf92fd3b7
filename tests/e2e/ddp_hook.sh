#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DistributedDataParallel on two ranks with our codecs: the example of docs/examples.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${EQT_BUILD_DIR:?must name the build tree}"

python=/usr/bin/python3  # Debian's, which python3-torch belongs to
"$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null ||
  skip "python3-torch with Gloo is not installed"
export EQUANT_CODEC_LIBRARY=$EQT_BUILD_DIR/libequant_codec.so.0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1

# both ARGUMENT...: the example on two ranks; rank 0's line goes to $OUT.
both() {
  MASTER_PORT=$("$python" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
  export MASTER_PORT
  RANK=1 timeout 100 "$python" "$EQT_ROOT/docs/examples/ddp_hook.py" --hidden 128 --steps 40 "$@" \
    >"$WORK/rank1" 2>&1 &
  local other=$!
  run env RANK=0 timeout 100 "$python" "$EQT_ROOT/docs/examples/ddp_hook.py" --hidden 128 --steps 40 "$@"
  wait "$other" || wrong "rank 1 of ddp_hook.py $*: $(tail -3 "$WORK/rank1")"
  expect_code 0 "ddp_hook.py $*"
}

member() { "$python" -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))[sys.argv[2]]))' "$OUT" "$1"; }

for codec in none qsgd topk e-elastiquant; do
  both --codec "$codec"
  expect_equal true "$(member replicas_identical)" "$codec: replicas"
  "$python" -c 'import sys; sys.exit(not float(sys.argv[2]) < float(sys.argv[1]))' \
    "$(member first_loss)" "$(member last_loss)" || wrong "$codec: the loss does not fall: $(cat "$OUT")"
done
dense=$((4 * $(member parameters)))
both --codec qsgd --options "bits=4 bucket_size=512"
[[ $(member sent_bytes_per_step) -lt $((dense / 7)) ]] ||
  wrong "4 bits are not a seventh of $dense bytes: $(member sent_bytes_per_step)"
run env RANK=0 WORLD_SIZE=1 MASTER_PORT="$MASTER_PORT" "$python" "$EQT_ROOT/docs/examples/ddp_hook.py" --codec qsgdd
[[ $CODE -ne 0 ]] || wrong "an unknown codec is taken"
grep -q 'qsgd' "$ERR" || wrong "an unknown codec is not named: $(tail -1 "$ERR")"
finish
