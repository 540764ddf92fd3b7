#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# doctor: its output alone and under mpirun, as text and as JSON, and refusals.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

program doctor
expect_code 0 "doctor without mpirun"
for part in "1 rank on 1 host" "thread level" "LibTorch" "BLAS" "GFLOP/s"; do
  grep -q -- "$part" "$OUT" || wrong "doctor does not say \"$part\""
done

run "$EQT_ROOT/scripts/run_local.sh" --ranks 3 -- doctor --seconds 0.3
expect_code 0 "doctor on 3 ranks"
grep -q "3 ranks on 1 host" "$OUT" || wrong "doctor does not count ranks and hosts"
expect_equal 2 "$(grep -cE '^0-[12] +one host .*[GM]b/s' "$OUT")" "links from rank 0 to its neighbours"
expect_equal 1 "$(grep -c '^equant-train' "$OUT")" "only rank 0 prints"
[[ ! -r /proc/self/stat ]] || grep -q '^A failure costs about [0-9.]* s with run_hosts.sh --elastic' "$OUT" ||
  wrong "doctor does not say what a failure costs"
tail -n 1 "$OUT" | grep -q "compression gains nothing" || wrong "doctor on one host recommends something"

run "$EQT_ROOT/scripts/run_local.sh" --ranks 3 -- doctor --json --seconds 0.3 --threads 64
expect_code 0 "doctor --json: warnings are no failure"
python3 - "$OUT" "$SECONDS_TAKEN" <<'PY' || wrong "doctor --json: see the exception"
import json, math, os, sys
found = json.load(open(sys.argv[1]))
assert found["size"] == 3 and found["hosts"][0]["ranks"] == [0, 1, 2], found["hosts"]
assert [rank["rank"] for rank in found["ranks"]] == [0, 1, 2]
for rank in found["ranks"]:
    for key in "host machine cores host_cores threads memory_bytes available_bytes version simd mpi mpi_runtime thread_level torch blas_library blas_vendor bf16 cuda_devices cuda_obstacle matmul_flops".split():
        assert key in rank, key
    version, runtime = rank["mpi"], rank["mpi_runtime"]
    assert "Open MPI" not in version or runtime == ("ORTE" if " v4." in version else "PRRTE"), (version, runtime)
    assert rank["threads"] == 64 and rank["matmul_flops"] > 0
    assert set(rank["cores"]) <= set(range(4096)) and rank["cores"], rank["cores"]
    assert rank["memory_bytes"] >= rank["available_bytes"] > 0
    assert rank["blas_vendor"] != "OpenBLAS" or "blas" in rank["blas_library"]
assert found["ranks"][0]["host_cores"] == os.cpu_count()
assert sorted((link["from"], link["to"]) for link in found["links"]) == [(0, 1), (0, 2), (1, 0), (2, 0)]
for link in found["links"]:
    for key in ("latency_seconds", "bytes_per_second", "duplex_bytes_per_second"):
        assert math.isfinite(link[key]) and link[key] > 0, link
assert "one host" in found["recommendation"], found
failure = found["failure"]
if failure is None:
    print("[eqt-note] this system does not say when a process was started")
else:
    starts = [rank["start_seconds"] for rank in found["ranks"]]
    loads = [rank["load_seconds"] for rank in found["ranks"]]
    # Libraries are loaded before MPI starts, and all that is over before this script has seen the end.
    assert all(0 <= load <= start <= float(sys.argv[2]) for load, start in zip(loads, starts)), found["ranks"]
    assert failure["start_seconds"] == max(starts) > 0, failure
    assert loads[failure["slowest_rank"]] == max(loads), (failure, loads)
    parts = ("detection_seconds", "start_seconds", "lost_work_seconds")
    assert math.isclose(failure["seconds"], sum(failure[part] for part in parts)), failure
ids = {warning["id"] for warning in found["warnings"]}
assert ids & {"too-many-threads", "oversubscribed"}, ids
PY

# Debian has Netlib's BLAS and an optimised one under the same name.
reference=$(find /usr/lib/*/blas -name libblas.so.3 2>/dev/null | head -n 1 || true)
if [[ -n $reference ]]; then
  LD_LIBRARY_PATH=$(dirname "$reference") program doctor
  grep -q "^warning: reference-blas" "$OUT" || wrong "doctor does not see the reference BLAS that serves it"
fi

# Another MPI's launcher: each process would take itself for the whole job.
run env PMI_RANK=0 PMI_SIZE=4 "$EQT_PROGRAM" doctor
expect_failure 6 'expected 4 ranks, as the launcher of MPICH.*PMI_SIZE=4.*found 1 in the world of Open MPI' "MPICH's launcher"
run env SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 "$EQT_PROGRAM" --config "$WORK/tiny.json" --out "$WORK/srun"
expect_failure 6 'srun says \(SLURM_STEP_NUM_TASKS=4, SLURM_PROCID=3\)' "srun without Open MPI"
[[ ! -e $WORK/srun ]] || wrong "srun without Open MPI: a run folder was made"
run env SLURM_NTASKS=4 SLURM_PROCID=0 "$EQT_PROGRAM" --config "$WORK/tiny.json" --out "$WORK/batch" --simulate 2
expect_code 0 "a simulation in a batch script of Slurm"
run env PMI_RANK=0 PMI_SIZE=4 "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- doctor --seconds 0.1
expect_code 0 "Open MPI's mpirun in a process of another launcher"

# What MPI needs to start.
run env OMPI_MCA_orte_tmpdir_base="$WORK/tiny.json" PRTE_MCA_prte_tmpdir_base="$WORK/tiny.json" "$EQT_PROGRAM" doctor
expect_failure 6 "12 MiB for MPI's temporary files at .*tiny.json, found: Not a directory" "a folder for temporary files that is none"
# shellcheck disable=SC2016  # for the shell with the limit
run bash -c 'ulimit -n 24; exec "$EQT_PROGRAM" doctor'
expect_failure 6 'room for 32 more open files' "few descriptors"

program doctor --seconds 0
expect_failure 2 'seconds' "no time to measure"
program doctor --threads none
expect_failure 2 'threads' "a number that is none"
finish
