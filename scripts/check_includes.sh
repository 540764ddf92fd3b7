#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that every room in src/ includes only what src/README.md allows.
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

# Room -> rooms whose headers it may include, besides its own.
declare -A rooms=(
  [core]=""
  [forecast]="core"
  [codec]="core"
  [int8]="core"
  [device]="core codec"
  [theory]="core codec"
  [comm]="core"
  [pipeline]="core codec comm"
  [topology]="core"
  [collective]="core forecast codec comm pipeline"
  [gossip]="core codec comm pipeline topology"
  [text]="core"
  [data]="core text"
  [optim]="core"
  [metrics]="core"
  [report]="core codec data metrics model"
  [weights]="core"
  [model]="core forecast int8 text data weights metrics"
  [checkpoint]="core comm metrics"
  [train]="core codec device comm pipeline topology collective gossip data model optim metrics checkpoint"
  [config]="core codec topology collective gossip data model optim metrics"
  [setup]="core forecast codec int8 device theory comm pipeline topology collective gossip text data model optim metrics checkpoint train config"
  [bench]="core codec int8 comm pipeline collective model config setup"
  [analyze]="core codec theory pipeline topology data model report config setup bench"
  [doctor]="core codec comm model setup planner"
  [app]="core forecast codec int8 theory comm pipeline topology collective gossip text data weights model optim metrics report checkpoint train config setup bench doctor analyze planner"
  [planner]="core forecast codec comm pipeline topology collective data model metrics train report config setup bench analyze"
  [c_interface]="core codec config"
)

# Library -> rooms that may include it. All rooms may include system headers and the standard
# library.
declare -A libraries=(
  [mpi]="comm"
  [torch]="model"
  [json]="text metrics weights model report config bench doctor analyze planner app"
  [cli11]="app"
  [zlib]="data"
  [libzip]="weights"
  [libpng]="data metrics"
  [libjpeg]="data"
  [libwebp]="data"
  [libarchive]="data"
  [isal]="metrics"
  [utf8proc]="text"
  [onednn]="bench"
  [plugin]="codec"
  [interface]="c_interface"
  [highway]="codec collective core data int8 model optim"
  [xxhash]="checkpoint core train setup bench"
  [eigen]="topology"
  [cuda]="device"
  [fmt]="core forecast codec int8 device theory comm pipeline topology collective gossip text data weights model optim metrics report checkpoint train config setup bench doctor analyze planner app c_interface"
)

# library_of HEADER: the library that it belongs to; "system" for the standard library, POSIX and
# the compiler.
library_of() {
  case $1 in
    mpi.h | mpi-ext.h) echo mpi ;;
    torch/* | ATen/* | c10/* | caffe2/*) echo torch ;;
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
    oneapi/dnnl/* | omp.h) echo onednn ;;
    equant/compressor_plugin.h) echo plugin ;;
    equant/codec.h) echo interface ;;
    hwy/*) echo highway ;;
    cuda*.h | cuda/*) echo cuda ;;
    xxhash.h | xxh_x86dispatch.h) echo xxhash ;;
    Eigen/*) echo eigen ;;
    fmt/*) echo fmt ;;
    sys/* | net/* | netinet/* | arpa/* | netdb.h | ifaddrs.h | unistd.h | fcntl.h | poll.h) echo system ;;
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
    [[ -e $source_folder/$header || -e $source_folder/$header.in ]] ||
      breach "$place: there is no $header in src"
    return
  fi
  library=$(library_of "$header")
  case $library in
    system) ;;
    unknown) breach "$place: $header is neither room/file nor a known library" ;;
    *) has "${libraries[$library]}" "$room" ||
      breach "$place: $library may be included by ${libraries[$library]} only" ;;
  esac
}

files=0
for folder in "$source_folder"/*/; do
  room=$(basename "$folder")
  [[ $room != cmake ]] || continue
  [[ -n ${rooms[$room]+set} ]] || { breach "$folder: not a room known to $(basename "$0")"; continue; }
  while IFS=: read -r file line text; do
    [[ $text =~ [\<\"]([^\>\"]+)[\>\"] ]] && check "$file:$line" "$room" "${BASH_REMATCH[1]}"
  done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' "$folder" \
    --include='*.cpp' --include='*.hpp' --include='*.h' --include='*.cu' --include='*.cuh')
  files=$((files + $(find "$folder" -name '*.[ch]pp' | wc -l)))
done

# The trainer is a loop over interfaces: only setup chooses concrete classes.
if [[ -d $source_folder/train ]]; then
  while IFS= read -r found; do
    breach "$found: train may not call another room's make_ function"
  done < <(grep -rnoE '(codec|topology|collective|gossip|data|model|optim|metrics)::make_[a-z_]+' \
    "$source_folder/train" --include='*.cpp' --include='*.hpp')
fi

[[ $files -gt 0 ]] || fail 2 "found no sources in $source_folder."
[[ $breaches -eq 0 ]] || fail 1 "$breaches includes break the matrix of src/README.md; they stand above."
say "$files files keep the include matrix"
