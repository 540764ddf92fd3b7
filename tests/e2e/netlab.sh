#!/usr/bin/env bash
# The laboratory: hosts are apart, links carry and count what was sent and no more than their rate,
# exit codes are passed on, and nothing is left, however it ends.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
netlab=$EQT_ROOT/scripts/netlab.sh
"$netlab" --check >"$WORK/check" 2>&1 || skip "$(cat "$WORK/check")"

counter() { value <(sed -n "$(($1 + 1))p" "$WORK/counters") "$2"; }

# gone WHAT MARK: no process of a laboratory whose command line has MARK is left, within 5 s.
gone() {
  local tick
  for ((tick = 0; tick < 50; tick++)); do
    pgrep -f -- "$2" >/dev/null || return 0
    sleep 0.1
  done
  wrong "$1: processes are left: $(pgrep -af -- "$2" | tr '\n' ';')"
}

# Rank 1 sends 2 MB to rank 0 through links of 80 and 16 Mb/s: 1 s at the slower one.
cat >"$WORK/transfer.py" <<'PY'
import os, socket, sys, time
rank = int(os.environ["RANK"])
if rank == 0:
    listener = socket.create_server(("", 5000))
    peer, _ = listener.accept()
    start, got = time.monotonic(), 0
    while chunk := peer.recv(1 << 16):
        got += len(chunk)
    print(got, time.monotonic() - start)
elif rank == 1:
    for attempt in range(100):
        try:
            peer = socket.create_connection((os.environ["MASTER_ADDR"], 5000))
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    peer.sendall(bytes(2_000_000))
sizes = os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"]
print(rank, *sizes, socket.gethostname(), file=sys.stderr)
PY
run "$netlab" --ranks 3 --rate 80mbit --rate-of 1=16mbit --burst 32k --no-mpi \
  --counters "$WORK/counters" -- python3 "$WORK/transfer.py"
expect_code 0 "a transfer between two hosts"
read -r got seconds <"$OUT"
expect_equal 2000000 "$got" "bytes that arrived"
# 32 KiB pass at once at each of the four shapers; everything else waits for the slowest.
expect_number "$seconds" '>=' 0.9 "seconds that 2 MB take at 16 Mb/s"
expect_equal "0 3 0 board0,1 3 0 board1,2 3 0 board2" "$(sort "$ERR" | paste -sd,)" \
  "ranks and hosts"
expect_equal 3 "$(wc -l <"$WORK/counters")" "lines of counters"
expect_equal 16mbit "$(counter 1 rate)" "rate of board1"
expect_equal 80mbit "$(counter 2 rate)" "rate of board2"
# At most 1448 payload bytes in a packet of 1514, and a lost packet is sent again.
least=$((2000000 * 1514 / 1448))
expect_number "$(counter 1 sent_wire_bytes)" '>=' "$least" "bytes sent by board1"
expect_number "$(counter 0 received_wire_bytes)" '>=' "$least" "received by board0"
expect_number "$(counter 0 received_wire_bytes)" '<=' 2200000 "received by board0"
expect_equal "$(counter 1 sent_bytes)" "$(counter 0 received_bytes)" "board1 to board0"
expect_equal 0 "$(counter 2 sent_bytes)" "bytes sent by a host with nothing to say"

# Under mpirun: 3 ranks on two hosts. The exit code has a run of its own: a rank that fails ends the
# others, and what these had yet to print is lost.
# shellcheck disable=SC2016  # the ranks expand it
run "$netlab" --ranks 3 --ranks-per-host 2 --rate unlimited --mca orte_tag_output 0 -- \
  sh -c 'echo "$OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_LOCAL_SIZE $(hostname)"'
expect_code 0 "ranks under mpirun"
expect_equal "0 2 board0,1 2 board0,2 1 board1" "$(sort "$OUT" | paste -sd,)" "ranks on two hosts"
expect_text '^board1 +2-2 +unlimited' "the table of counters"
run "$netlab" --ranks 2 --rate unlimited -- sh -c 'exit 7'
expect_code 7 "an exit code under mpirun"

# shellcheck disable=SC2016
run "$netlab" --ranks 3 --no-mpi -- sh -c '[ "$RANK" = 1 ] && exit 9; exec sleep 61'
expect_code 9 "a rank that fails"
expect_within 20 "a rank that fails while others run"
run "$netlab" --timeout 1 --no-mpi -- sleep 62
expect_code 124 "--timeout"
expect_text 'timeout' "--timeout"

# However it ends: by Ctrl-C, by a deadline's TERM, or killed without a word.
for case in INT:130 TERM:143 KILL:137; do
  mark=63.$$.${case#*:}
  env --default-signal=INT "$netlab" --ranks 2 -- sh -c ": $mark; sleep 63; :" \
    >"$WORK/stdout" 2>"$WORK/stderr" &
  script=$!
  for ((tick = 0; tick < 100; tick++)); do
    [[ $(pgrep -cf -- "^sh -c : $mark") -lt 2 ]] || break
    sleep 0.1
  done
  [[ $tick -lt 100 ]] || wrong "two ranks did not start within 10 s"
  kill -s "${case%:*}" "$script"
  CODE=0
  wait "$script" 2>/dev/null || CODE=$?
  expect_code "${case#*:}" "netlab.sh after SIG${case%:*}"
  gone "netlab.sh after SIG${case%:*}" "$mark"
done

for bad in "--rate fast" "--rate 0mbit" "--ranks 0" "--burst 100" "--latency soon" \
  "--rate-of 2=1mbit" "--rate-of one" "--ranks 251" "--frobnicate"; do
  # shellcheck disable=SC2086  # an option and its value
  run "$netlab" $bad -- true
  expect_failure 2 "${bad%% *}" "netlab.sh $bad"
done
run "$netlab" --mca btl
expect_failure 2 'mca' "--mca without a value"
run "$netlab" --ranks 2
expect_failure 2 'command' "no command"
run "$netlab" --counters "$WORK/absent/counters" -- true
expect_failure 74 'counters' "a file that cannot be written"
finish
