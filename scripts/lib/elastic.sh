# SPDX-License-Identifier: Apache-2.0
# Keeps a run going on the hosts that answer, for run_hosts.sh --elastic: starts it again after a failure, without hosts
# that are lost, and takes in hosts that come back or are new. Source it after mpi.sh, hosts.sh and host_watch.sh; it
# runs nothing. The script sets `hosts`, `config`, `arguments` and what its options name.
# shellcheck shell=bash
# shellcheck disable=SC2154  # those come from the script

# end_shells JOB [SIGNAL]: ends what mpirun has started, which reaches other hosts for it.
end_shells() {
  local process words
  for process in /proc/[0-9]*/stat; do
    # Number, (name), state, parent.
    { read -r words <"$process"; } 2>/dev/null || continue
    [[ ! ${words##*) } =~ ^[A-Z]\ $1\  ]] || kill "-${2:-TERM}" "${words%% *}" 2>/dev/null || true
  done
}

# watch JOB: ends mpirun if it does not start a rank, because it waits for a host whose daemon does not start; at once
# if a host is silent; and if it does not end after a failure, because it may wait for a lost host. Asks the run to
# stop after a step when another host can be taken in.
watch() {
  local tick=0 host failed_at="" asked=0 joiners
  [[ -z $out ]] || is_here "$records_host" || keep_records "$1" &
  while half_a_second; do
    tick=$((tick + 1))
    if [[ ! -e $state/started && ! -e $state/failed && $tick -ge $((2 * start_timeout)) ]]; then
      touch "$state/stuck"
      end_shells "$1"
      end_job "$1"
      return
    fi
    for host in "${present[@]%%:*}"; do
      is_up "$host" && continue
      touch "$state/silent"
      say "$host does not answer any more: it was cut off or is down"
      end_shells "$1" KILL
      kill -KILL "$1" 2>/dev/null || true
      return
    done
    if [[ -e $state/failed ]]; then
      failed_at=${failed_at:-$SECONDS}
      [[ $((SECONDS - failed_at)) -lt $patience ]] || { end_job "$1"; return; }
    elif [[ -e $state/started && $no_join -eq 0 && $asked -eq 0 && $((tick % 4)) -eq 0 ]]; then
      joiners=$(newcomers)
      [[ -n $joiners ]] || continue
      say "The run stops after a step, to go on with $joiners"
      asked=1
      kill -ALRM $$ 2>/dev/null || return
    fi
  done
}

# newcomers: prints the hosts that can be taken in, with commas between them.
newcomers() {
  local host names=""
  read_hosts_again
  for host in "${hosts[@]}"; do
    [[ " ${present[*]%%:*} " != *" ${host%%:*} "* ]] || continue
    start_watching "${host%%:*}"
    is_welcome "${host%%:*}" || continue
    names+="${names:+, }${host%%:*}"
  done
  printf '%s\n' "$names"
}

# read_hosts_again: a file that is being changed may be wrong for a moment; then the hosts stay.
read_hosts_again() {
  [[ -z $hostfile ]] || ! (read_hosts) >/dev/null 2>&1 || read_hosts
}

# choose_present: sets `present` to the hosts that answer, in the order of --hosts, but for this machine: mpirun
# begins with it. Says which do not answer, unless it is called with "quietly".
choose_present() {
  local host here=() others=() absent=""
  for host in "${hosts[@]}"; do
    if ! is_up "${host%%:*}"; then
      absent+="${absent:+, }${host%%:*}"
    elif ! is_welcome "${host%%:*}"; then
      continue
    elif is_here "${host%%:*}"; then
      here+=("$host")
    else
      others+=("$host")
    fi
  done
  present=(${here[@]+"${here[@]}"} ${others[@]+"${others[@]}"})
  [[ -z $absent || ${1:-} == quietly ]] || say "Left out, for they do not answer within $answer s: $absent"
}

# await_least: when the run has lost so many hosts that it cannot go on, waits for them.
await_least() {
  local end=$((SECONDS + wait)) host
  [[ ${#present[@]} -lt $least || ${#present[@]} -eq 0 ]] || return 0
  say "${#present[@]} of ${#hosts[@]} hosts answer, at least $least are needed; they are awaited for $wait s"
  while [[ (${#present[@]} -lt $least || ${#present[@]} -eq 0) && $SECONDS -lt $end ]]; do
    sleep 1
    read_hosts_again
    for host in "${hosts[@]%%:*}"; do start_watching "$host"; done
    choose_present quietly
  done
}

# checked_config SETTING...: prints the resolved config, or nothing where it cannot be had: then the start says why.
checked_config() {
  local words
  mapfile -t words < <(values_of --set | sed 's/^/--set=/')
  on_host 60 "$shell" "${present[0]%%:*}" "$program" check --full --config "$config" ${words[@]+"${words[@]}"} "$@" 2>/dev/null || true
}

# look_at_batches: writes to $state/batch how all ranks share a batch, "list" or "auto" as train.batch_sizes, then the
# batch of all ranks together and train.batch_least; or nothing where ranks cannot have batches of their own.
look_at_batches() {
  local number='([1-9][0-9]{0,8})' text size sizes least how=""
  text=$(checked_config | tr -d ' \n')
  if [[ $text =~ \"batch_size\":$number,\"batch_sizes\":(null|\"auto\"|\[$number(,$number)*\]),\"batch_least\":$number, ]]; then
    size=${BASH_REMATCH[1]} sizes=${BASH_REMATCH[2]} least=${BASH_REMATCH[-1]}
    case $sizes in
      null) [[ -z $(checked_config --set "train.batch_sizes=[$size,$size]") ]] || how="list $((size * all_ranks))" ;;
      '"auto"') how="auto $((size * all_ranks))" ;;
      *) sizes=${sizes:1:-1} how="list $((${sizes//,/+}))" ;;
    esac
  fi
  printf '%s\n' "${how:+$how $least}" >"$state/looked" && mv "$state/looked" "$state/batch"
}

# share_batches RANKS: sets `batches` to the settings with which RANKS have the same batch together as all ranks of
# the first hosts: nothing if these are there, or where the run allows no other. Where the run chooses the batch of each
# rank, the mean batch changes, which is a whole number.
all_ranks=0
share_batches() {
  local ranks=$1 how total least size rank sizes="" host
  batches=()
  [[ $batch == all ]] || return 0
  if [[ $all_ranks -eq 0 ]]; then
    for host in "${hosts[@]}"; do all_ranks=$((all_ranks + $(slots_of "$host"))); done
    look_at_batches >/dev/null 2>&1 &  # while the first start begins
  fi
  [[ $ranks -ne $all_ranks ]] || return 0
  until [[ -e $state/batch ]]; do sleep 0.05; done
  read -r how total least <"$state/batch"
  case $how in
    list)
      for ((rank = 0; rank < ranks; rank++)); do sizes+="${sizes:+,}$((total / ranks + (rank < total % ranks ? 1 : 0)))"; done
      batches=(--set "train.batch_sizes=[$sizes]")
      ;;
    auto)
      size=$(((2 * total + ranks) / (2 * ranks)))
      batches=(--set "train.batch_size=$((size > least ? size : least))")
      ;;
    *) say "Each rank keeps its batch: this run allows no train.batch_sizes" ;;
  esac
}

# refuse_newcomers: after a start that ended by a mistake in what it was given: hosts that joined for it, and may have
# other data or files, stay out. False if there are none.
proven=""
refuse_newcomers() {
  local host found=1
  [[ -n $proven ]] || return 1
  for host in "${present[@]%%:*}"; do
    [[ $proven != *" $host "* ]] || continue
    refuse "$host" "the first start with it ended with exit code $code, for the reason above"
    found=0
  done
  return "$found"
}

# find_out: sets `out`, the run's folder, by --out, or by the config's name as the program does; "" where that cannot be
# read. `place` is the whole path, quoted for a host's shell.
find_out() {
  local name
  out=$(values_of --out | tail -n 1)
  [[ -n $out ]] || name=$(checked_config | sed -nE 's/^  "name": "([^"/]*)",?$/\1/p' | head -n 1)
  [[ -z ${name:-} ]] || out=runs/$name
  place=$(quoted "$(realpath -m -- "$out")")
}

# take_lock: exits with an error if another launcher on this machine keeps the run of this folder going. Two of them would
# end each other's starts.
take_lock() {
  local lock holder
  [[ -n $out ]] || return 0
  lock=${XDG_RUNTIME_DIR:-${TMPDIR:-/tmp}}/equant-train-$(id -u)-$(realpath -m -- "$out" | cksum | tr -d ' ').lock
  holder=$(head -c 20 "$lock" 2>/dev/null || true)
  ! { is_number "${holder:-x}" 9 && grep -qsa run_hosts "/proc/$holder/cmdline"; } ||
    fail 2 "expected no other launcher of the run in $out, found process $holder; end it, or choose another --out."
  rm -f "$lock"
  (set -C; echo $$ >"$lock") 2>/dev/null || fail 2 "the lock $lock cannot be made, which keeps other launchers from the run in $out; try another TMPDIR."
  # shellcheck disable=SC2064  # the name of now
  trap "rm -rf $(printf '%q' "$state") $(printf '%q' "$lock")" EXIT
}

# continue_if_stopped: adds --resume if a host has a part of a run that is not finished: the launcher was ended, too.
continue_if_stopped() {
  local host question
  [[ -n $out && $asked_to_resume -eq 0 ]] && ! has_word --overwrite || return 0
  question="[ ! -e $place/summary.json ] && { [ -e $place/metrics.jsonl ] || [ -e $place/checkpoints ]; } && echo begun"
  for host in "${present[@]%%:*}"; do
    [[ $(ask "$answer" "$host" "$question" </dev/null) == begun ]] || continue
    say "$host has a run in $out that was not finished: it continues"
    arguments+=(--resume)
    asked_to_resume=1
    return 0
  done
}

# note_results: notes, before a start with --overwrite, which results each host has. They may be those of the run that is
# to be replaced, and are removed when training begins.
declare -A results_before=()
note_results() {
  local host
  [[ -n $out ]] && has_word --overwrite || return 0
  for host in "${present[@]%%:*}"; do results_before[$host]=$(results_on "$host"); done
}

# results_on HOST: prints the records and checkpoints in the run's folder there with their inodes and times.
results_on() {
  ask "$answer" "$1" "cd $place && stat -c '%n %i %y' metrics.jsonl checkpoints checkpoints/*" </dev/null 2>/dev/null || true
}

# has_trained: tells whether the start has left other results on a host than were there before it.
has_trained() {
  local host results
  [[ -n $out ]] || return 1
  for host in "${present[@]%%:*}"; do
    is_up "$host" || continue
    results=$(results_on "$host")
    [[ -z $results || $results == "${results_before[$host]}" ]] || return 0
  done
  return 1
}

# resume_from_now_on: later starts continue the run, once there is one: after a start with --overwrite that has not
# trained, the checkpoints may be those of the run that is to be replaced.
resume_from_now_on() {
  [[ $asked_to_resume -eq 0 ]] || return 0
  if ! has_word --overwrite; then
    arguments+=(--resume)
  elif has_trained; then
    arguments=("${arguments[@]/#--overwrite/--resume}")
  else
    return 0
  fi
  asked_to_resume=1
}

# Records are on the host of rank 0. When that is another machine, this one has a copy, which follows rank 0 to its next
# host. It is never written over longer ones.
readonly EQT_RECORDS="metrics.jsonl starts.jsonl decisions.jsonl timeline.jsonl config.json"
records_host=""

# fetch_records NAME: copies them to $state/records, an archive.
fetch_records() {
  at_host 60 "$1" "cd $place && tar czf - \$(ls $EQT_RECORDS 2>/dev/null)" </dev/null >"$state/records.new" 2>/dev/null || return 0
  [[ $(size_of_copy "$state/records.new") -eq 0 ]] || mv "$state/records.new" "$state/records"
}

# size_of_copy FILE: prints the bytes of metrics.jsonl in it, 0 for another file.
size_of_copy() {
  local size
  size=$(tar tvzf "$1" metrics.jsonl 2>/dev/null | awk 'NR == 1 { print $3 }')
  is_number "${size:-x}" && printf '%s\n' "$size" || echo 0
}

# keep_records JOB: copies them now and then while it runs.
keep_records() {
  local tick=0
  while half_a_second && kill -0 "$1" 2>/dev/null; do
    tick=$((tick + 1))
    [[ $((tick % 60)) -ne 20 || ! -e $state/started ]] || fetch_records "$records_host"
  done
}

# hand_over_records: before a start: gives the copy to the host of rank 0, if it is another one than before. Files keep
# their times, by which the run knows what was lost.
hand_over_records() {
  local before=$records_host size
  records_host=${present[0]%%:*}
  [[ -n $out && -n $before && $before != "$records_host" ]] || return 0
  ! is_up "$before" || fetch_records "$before"
  [[ -e $state/records ]] || return 0
  size=$(size_of_copy "$state/records")
  at_host 60 "$records_host" "mkdir -p $place && cd $place && [ \"\$(stat -c %s metrics.jsonl 2>/dev/null || echo 0)\" -lt $size ] && tar xzf - --no-same-owner" \
    <"$state/records" >/dev/null 2>&1 || true
}

# run_elastically: starts the run until it ends, or cannot go on. Exits with its code.
start=0
run_elastically() {
  local host ranks with code began stuck_on="" in_a_row=0 asked_to_resume=0
  ! has_word --resume || asked_to_resume=1
  # Hosts keep states in memory, unless it is said how often.
  local memory=(--set checkpoint.memory_seconds=1)
  if [[ $(sed 's://.*::' "$config" 2>/dev/null) == *'"memory_seconds"'* ]] || values_of --set | grep -q '^checkpoint\.memory_seconds='; then memory=(); fi
  default_mpi kill_at_once 0
  local from=()
  if [[ $no_standby -eq 0 ]]; then
    standby=/tmp/equant-standby.${state##*.}
    from=(sh -c "$EQT_FROM_STANDBY" "$(dirname "$program")/equant-standby" "$standby")
  fi
  for host in "${hosts[@]%%:*}"; do start_watching "$host"; done
  await_answers
  while :; do
    choose_present
    [[ $start -eq 0 ]] || await_least
    [[ ${#present[@]} -ge $least && ${#present[@]} -gt 0 ]] ||
      fail 6 "${#present[@]} of ${#hosts[@]} hosts answer, at least $least are needed."
    ranks=0
    for host in "${present[@]}"; do ranks=$((ranks + $(slots_of "$host"))); done
    with=$(IFS=,; printf '%s' "${present[*]}")
    [[ $with != "$stuck_on" ]] ||
      fail 6 "mpirun started no rank on $with within $start_timeout seconds: Open MPI's daemon must start on each and write to its folder for temporary files, /tmp; see --start-timeout."
    start=$((start + 1))
    in_a_row=$((in_a_row + 1))
    if [[ $start -eq 1 ]]; then
      find_out
      take_lock
      continue_if_stopped
    fi
    share_batches "$ranks"
    hand_over_records
    note_results
    say "Start $start: $ranks ranks on $with"
    choose_mpirun "$ranks" "$with"
    rm -f "$state"/{stuck,silent}
    # shellcheck disable=SC2034  # run_gracefully reads it
    code=0 after_start=watch began=$SECONDS
    start_ranks ${from[@]+"${from[@]}"} "$program" --config "$config" ${memory[@]+"${memory[@]}"} \
      ${arguments[@]+"${arguments[@]}"} ${batches[@]+"${batches[@]}"} || code=$?
    [[ ! -e $state/silent ]] || code=205
    ! is_own_code "$code" || code=6
    if [[ $asked_by == beside && $signals_seen -eq 1 ]]; then
      end_on_signals
      [[ $code -ne 75 ]] || in_a_row=0
    elif [[ $signals_seen -gt 0 ]]; then
      exit "$code"
    fi
    case $code in
      0) exit 0 ;;
      2 | 3) refuse_newcomers || exit "$code" ;;
      4 | 70 | 74) exit "$code" ;;
      75) [[ $asked_by == beside ]] || exit "$code" ;;
      *)
        [[ $((SECONDS - began)) -lt 60 ]] || in_a_row=0
        if [[ -e $state/stuck ]]; then
          say "mpirun started no rank within $start_timeout seconds"
          stuck_on=$with code=6
        else
          say "The run ended with exit code $code"
        fi
        note_lost_hosts
        if [[ $in_a_row -ge $tries ]]; then
          [[ $code -ne 6 || -z $stuck_on ]] || fail 6 "mpirun started no rank within $start_timeout seconds; see --start-timeout."
          fail "$code" "the run failed $tries times in a row; see --tries."
        fi
        ;;
    esac
    [[ $code -eq 2 || $code -eq 3 || -e $state/stuck ]] || proven=" ${present[*]%%:*} "
    read_hosts_again
    [[ -e $state/stuck ]] || resume_from_now_on
  done
}

# Ranks start from the process in standby, where a host has one.
# shellcheck disable=SC2016  # for the shell of each rank
readonly EQT_FROM_STANDBY='socket=$1.$(uname -n); shift; [ ! -x "$0" ] || exec "$0" "$socket" "$@"; exec "$@"'

# has_word WORD: whether it is one of the arguments.
has_word() {
  local word
  for word in ${arguments[@]+"${arguments[@]}"}; do [[ $word != "$1" ]] || return 0; done
  return 1
}

# values_of OPTION: prints a line for each time that it is among the arguments.
values_of() {
  local at
  for ((at = 0; at < ${#arguments[@]}; at++)); do
    if [[ ${arguments[at]} == "$1" && $((at + 1)) -lt ${#arguments[@]} ]]; then
      at=$((at + 1))
      printf '%s\n' "${arguments[at]}"
    elif [[ ${arguments[at]} == "$1="* ]]; then
      printf '%s\n' "${arguments[at]#"$1="}"
    fi
  done
}
