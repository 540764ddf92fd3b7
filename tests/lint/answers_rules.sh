#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The check of answers must find violations: each of these scripts has one, except the last.
# shellcheck source=tests/lint/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# expect CODE LINE...: a script with these lines gives exit code CODE.
expect() {
  local code=$1
  shift
  printf '%s\n' "$@" >"$work/probe.sh"
  expect_code "$code" "\"$*\"" "$root/scripts/check_answers.sh" "$work"
}

# shellcheck disable=SC2016  # nothing is to be expanded
{
  expect 1 'has=$(on "$host" nproc)' '[[ $has -ge 2 ]]'
  expect 1 'has=$(on "$host" nproc)' '[[ 2 -lt has ]] || exit 1'
  expect 1 'has="$(found "$host" free)"' 'left=$((has - 1))'
  expect 1 '[[ $(found "$host" free) -ge 2 ]]'
  expect 1 'left=$(($(ask 5 "$host" "df") - 1))'
  expect 1 'f() {' '  local has' '  has=$(on_host 5 ssh "$1" nproc || echo 0)' '  ((has > 2))' '}'
  expect 1 'f() {' '  [[ $2 -ge 3 ]]' '}' 'f "$host" "$(ask 5 "$host" df)" 3'
  expect 1 'f() { [[ $2 -ge 3 ]]; }' 'has=$(found "$host" free)' 'f 1 "$has"'
  expect 1 'mapfile -t has < <(found "$host" free)' 'echo "${list[has]}"'
  expect 1 'has=$(found "$host" free)' 'printf -v "$has" 1'
  expect 1 'has=$(found "$host" free)' '[[ -v $has ]]'
  expect 1 'has=$(found "$host" free)' 'eval "x=$has"'
  expect 1 'has=$(found "$host" free)' 'declare -i x=$has'
  expect 1 'has=$(found "$host" free)' 'echo "${text:$has}"'
  expect 1 'has=$(on "$host" nproc)' '[[ $has -ge 2 ]]' 'require_number "$host" cores "$has"'
  expect 1 'f() {' '  has=$(on "$host" nproc)' '}' 'g() {' '  [[ $has -ge 2 ]]' '}'
  expect 0 'has=$(on "$host" nproc)' 'require_number "$host" cores "$has"' '[[ $has -ge 2 ]]'
  expect 0 'has=$(on "$host" nproc)' '! is_number "$has" || echo $((has + 1))'
  expect 0 'f() {' '  require_number "$1" bytes "$2"' '  [[ $2 -ge 3 ]]' '}' 'f "$host" "$(ask 5 "$host" df)" 3'
  expect 0 'has=$(on "$host" hostname)' '[[ $has == "$host" && 1 == 1 ]]' 'echo "${has:-none}" $((1 + 1))'
  expect 0 '# [[ $(ask 5 "$host" nproc) -ge 1 ]]'
}

report "the check of answers sees every breach"
