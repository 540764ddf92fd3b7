#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch's DistributedDataParallel on two ranks with our codecs: docs/examples/ddp_hook.py.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

python=/usr/bin/python3  # Debian's, which python3-torch belongs to
"$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null ||
  skip "python3-torch with Gloo is not installed"
[[ -n ${EQUANT_CODEC_LIBRARY:-} ]] || skip "EQT_C_INTERFACE is off: there is no libequant_codec.so"
hook=$EQT_ROOT/docs/examples/ddp_hook.py

# both ARGUMENT...: the example on two ranks; rank 0's line goes to $OUT.
both() {
  local other
  MASTER_PORT=$("$python" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
  export MASTER_PORT MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
  RANK=1 timeout 60 "$python" "$hook" "$@" >"$WORK/rank1" 2>&1 &
  other=$!
  RUN_LIMIT=60 run env RANK=0 "$python" "$hook" "$@"
  wait "$other" || wrong "rank 1 of ddp_hook.py $*: $(tail -3 "$WORK/rank1")"
  expect_code 0 "ddp_hook.py $*"
}

# Lossless, of as many bits as the gradient takes, and two that leave something out, which a residual keeps.
for compressor in none e-elastiquant topk ef-signsgd; do
  both "$compressor"
  expect_equal true "$(value "$OUT" identical)" "$compressor: replicas"
  expect_number "$(value "$OUT" last_loss)" "<" "$(value "$OUT" first_loss)" "$compressor: the loss"
done
both qsgd '{"bits": 4, "bucket_size": 512}' 3
dense=$((4 * $(value "$OUT" parameters)))
expect_number "$(value "$OUT" bytes_per_step)" "<" $((dense / 7)) "4 bits: bytes that a step sends, of $dense"

run env RANK=0 WORLD_SIZE=1 "$python" "$hook" qsgdd
[[ $CODE -ne 0 ]] || wrong "an unknown compressor is taken"
expect_text 'the nearest is "qsgd"' "an unknown compressor"
finish
