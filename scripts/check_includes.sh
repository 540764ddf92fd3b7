#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that every room in src/ includes only what src/rooms.txt allows, and that src/README.md lists the rooms.
#
#   scripts/check_includes.sh [SOURCE_FOLDER]
#
# Prints file:line and the rule for each violation, and ends with 1 if there is one.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
[[ ${1:-} != --help && ${1:-} != -h ]] || { usage; exit 0; }
source_folder=${1:-$EQT_ROOT/src}
[[ -d $source_folder ]] || fail 2 "expected a folder with rooms at $source_folder, found none."

table=$source_folder/rooms.txt
[[ -f $table ]] || fail 2 "expected the table of the rooms at $table, found none."

# Room -> its folder, the rooms whose headers it may include besides its own, and libraries. All rooms may include
# fmt, system headers and the standard library.
declare -A folders=() rooms=() libraries=()
order=()
while IFS=: read -r room others allowed; do
  folder=${room%%/*}
  room=${room#*/}
  room=${room%% *}
  folders[$room]=$folder
  rooms[$room]=$(xargs <<<"$others")
  libraries[$room]=$(xargs <<<"$allowed")
  for other in $others; do
    [[ " ${order[*]:-} " == *" $other "* ]] || fail 2 "$table: $room may include only rooms above it, found $other."
  done
  order+=("$room")
done < <(grep '^[a-z]' "$table")

# library_of HEADER: the library that it belongs to; "system" for fmt, the standard library, POSIX and
# the compiler.
library_of() {
  case $1 in
    mpi.h | mpi-ext.h) echo mpi ;;
    torch/* | ATen/* | c10/* | caffe2/*) echo torch ;;
    onnx/*) echo onnx ;;
    nlohmann/*) echo json ;;
    CLI/*) echo cli11 ;;
    zlib.h) echo zlib ;;
    zip.h) echo libzip ;;
    png.h) echo libpng ;;
    jpeglib.h | jerror.h) echo libjpeg ;;
    webp/*) echo libwebp ;;
    archive.h | archive_entry.h) echo libarchive ;;
    isa-l/*) echo isal ;;
    utf8proc.h) echo utf8proc ;;
    equant/compressor_plugin.h) echo plugin ;;
    equant/codec.h) echo interface ;;
    hwy/*) echo highway ;;
    cuda*.h | cuda/*) echo cuda ;;
    xxhash.h | xxh_x86dispatch.h) echo xxhash ;;
    Eigen/*) echo eigen ;;
    fmt/* | sys/* | net/* | netinet/* | arpa/* | netdb.h | ifaddrs.h | unistd.h | fcntl.h | poll.h) echo system ;;
    pthread.h | sched.h | signal.h | spawn.h | time.h | stddef.h | stdint.h | stdlib.h | errno.h | malloc.h | dlfcn.h | cpuid.h | *mmintrin.h | arm_neon.h) echo system ;;
    *.h | *.hpp | */*) echo unknown ;;
    *) echo system ;;
  esac
}

# has WORDS WORD: WORD is one of WORDS.
has() { [[ " $1 " == *" $2 "* ]]; }

breaches=0
breach() {
  printf '%s\n' "$*" >&2
  breaches=$((breaches + 1))
}

# check PLACE ROOM HEADER: one include of one file.
check() {
  local place=$1 room=$2 header=$3 target library
  target=${header%%/*}
  if [[ -n ${rooms[$target]+set} && $header == */* ]]; then
    [[ $target == "$room" ]] || has "${rooms[$room]}" "$target" ||
      breach "$place: $room may not include $target (allowed: ${rooms[$room]:-no other room})"
    [[ -e $source_folder/${folders[$target]}/$header || -e $source_folder/${folders[$target]}/$header.in ]] ||
      breach "$place: there is no $header in src/${folders[$target]}"
    return
  fi
  library=$(library_of "$header")
  case $library in
    system) ;;
    unknown) breach "$place: $header is neither room/file nor a known library" ;;
    *) has "${libraries[$room]}" "$library" ||
      breach "$place: $room may not include $library (allowed: ${libraries[$room]:-no library})" ;;
  esac
}

files=0
for folder in "$source_folder"/*/*/; do
  room=$(basename "$folder")
  [[ ${folders[$room]:-} == "$(basename "$(dirname "$folder")")" ]] ||
    { breach "$folder: not a room of $(basename "$table")"; continue; }
  while IFS=: read -r file line text; do
    [[ $text =~ [\<\"]([^\>\"]+)[\>\"] ]] && check "$file:$line" "$room" "${BASH_REMATCH[1]}"
  done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' "$folder" \
    --include='*.cpp' --include='*.hpp' --include='*.h' --include='*.cu' --include='*.cuh')
  files=$((files + $(find "$folder" -name '*.[ch]pp' | wc -l)))
done

# The trainer is a loop over interfaces: only setup chooses concrete classes.
if [[ -d $source_folder/learning/train ]]; then
  while IFS= read -r found; do
    breach "$found: train may not call another room's make_ function"
  done < <(grep -rnoE '(codec|topology|collective|gossip|data|model|optim|metrics)::make_[a-z_]+' \
    "$source_folder/learning/train" --include='*.cpp' --include='*.hpp')
fi

# README's table of rooms.
if [[ -f $source_folder/README.md ]]; then
  listed=$(sed -n 's/^| `\([a-z0-9_]*\)` | .*/\1/p' "$source_folder/README.md" | xargs)
  [[ $listed == "${order[*]}" ]] ||
    breach "$source_folder/README.md: expected the rooms of rooms.txt in its order, ${order[*]}, found $listed"
fi

[[ $files -gt 0 ]] || fail 2 "found no sources in $source_folder."
[[ $breaches -eq 0 ]] || fail 1 "$breaches includes break the rules of $table; they stand above."
say "$files files keep the rules of rooms.txt"
