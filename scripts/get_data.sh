#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts the files of a data set in place and prints the folder to set data.path to.
set -euo pipefail

# Where scripts are installed, users cannot write beside them.
root="$(realpath -m -- "$(dirname "${BASH_SOURCE[0]}")/..")"
if [ -e "$root/CMakeLists.txt" ]; then
  default_dir="$root/data"
else
  default_dir="${XDG_DATA_HOME:-${HOME:-.}/.local/share}/equant-train/data"
fi

usage() {
  cat <<END
usage: $0 SET [DIR]

SET  fashion-mnist   Debian's package dataset-fashion-mnist, elsewhere a download (30 MB)
     cifar10         download from cs.toronto.edu (162 MB), checked, unpacked
     cifar100        the same (161 MB)
     imagenette      download from fast.ai's bucket at Amazon (99 MB), checked, unpacked: a folder of
                     pictures (13,394 JPEG files of 10 classes, shorter side 160) for data.name folder
     imagenet        ImageNet (ILSVRC 2012), which is for registered users only: checks and unpacks the
                     archives that you put into DIR, or says which and from where (155 GB, and as much
                     again unpacked)
     ag-news         AG News as X. Zhang et al. 2015 made it, from github.com (30 MB), checked
DIR  where to put the files (default: $default_dir)

Prints the folder to set data.path to on its last line. Does nothing when the files are complete.
Without a network, put the archive that the error names into DIR and run the same command again.
Exit codes: 0 complete, 2 usage, 3 the files could not be got.
END
}

fail() {
  printf 'get_data.sh: %s\n' "$1" >&2
  exit 3
}

say() { printf 'get_data.sh: %s\n' "$1" >&2; }

size_of() { stat -Lc %s -- "$1" 2>/dev/null || echo absent; }

# has_md5 FILE SUM
has_md5() { [ -f "$1" ] && [ "$(md5sum <"$1" | cut -d' ' -f1)" = "$2" ]; }

# fetch URL FILE: downloads; never leaves a part of a file under that name.
fetch() {
  local part="$2.part"
  if command -v curl >/dev/null; then
    curl --fail --location --silent --show-error --connect-timeout 20 --retry 2 \
      --output "$part" "$1" || { rm -f "$part"; return 1; }
  elif command -v wget >/dev/null; then
    wget --quiet --timeout=20 --tries=3 --output-document="$part" "$1" ||
      { rm -f "$part"; return 1; }
  else
    say "neither curl nor wget is installed"
    return 1
  fi
  mv "$part" "$2"
}

# get_checked URL FILE MD5: makes FILE with that checksum, or fails and says how to get it by hand.
get_checked() {
  local url="$1" file="$2" sum="$3"
  if has_md5 "$file" "$sum"; then return; fi
  if [ -f "$file" ]; then
    say "$file has the wrong checksum (a download cut short?), getting it again"
  else
    say "downloading $url"
  fi
  fetch "$url" "$file" ||
    fail "cannot download $url (MD5 $sum); get it on another machine, put it at $file and run this again"
  has_md5 "$file" "$sum" ||
    fail "what $url gave has not the MD5 $sum; get the right file elsewhere, put it at $file and run this again"
}

# cifar_complete FOLDER BYTES FILE...: every file has its full size.
cifar_complete() {
  local folder="$1" bytes="$2" file
  shift 2
  for file in "$@"; do
    # NAME or NAME:BYTES
    local want="$bytes"
    case "$file" in *:*) want="${file#*:}" ;; esac
    [ "$(size_of "$folder/${file%%:*}")" = "$want" ] || return 1
  done
}

# make_unpacked: sets $unpacked to a new folder in $dir, which is removed at the end. What is unpacked
# there is moved when it is complete, so that an interrupted run leaves nothing that looks complete.
make_unpacked() {
  unpacked="$(mktemp -d "$dir/.unpack.XXXXXX")"
  trap 'rm -rf -- "$unpacked"' EXIT
}

# get_cifar ARCHIVE MD5 SUBFOLDER BYTES FILE...
get_cifar() {
  local archive="$1" sum="$2" subfolder="$3" folder="$dir/$3"
  shift 3
  if cifar_complete "$folder" "$@"; then
    say "complete"
    printf '%s\n' "$folder"
    return
  fi
  mkdir -p "$dir" || fail "cannot make the folder $dir; name another as the second argument"
  get_checked "https://www.cs.toronto.edu/~kriz/$archive" "$dir/$archive" "$sum"
  make_unpacked
  tar -xzf "$dir/$archive" -C "$unpacked" || fail "cannot unpack $dir/$archive into $dir; is the disk full?"
  cifar_complete "$unpacked/$subfolder" "$@" || fail "$dir/$archive does not hold the expected files"
  rm -rf "$folder"
  mv "$unpacked/$subfolder" "$folder"
  rm -f "$dir/$archive"
  say "unpacked"
  printf '%s\n' "$folder"
}

readonly debian_folder=/usr/share/datasets/fashion-mnist
readonly fashion_files=(train-images-idx3-ubyte.gz:8d4fb7e6c68d591d4c3dfef9ec88bf0d
  train-labels-idx1-ubyte.gz:25c81989df183df01b3e8a0aad5dffbe
  t10k-images-idx3-ubyte.gz:bef4ecab320f06d8554ea6380940ec79
  t10k-labels-idx1-ubyte.gz:bb300cfdad3c16e7a12a480ee83cd310)

# Debian repacks the files, so their checksums differ from the authors'; gzip checks the content.
fashion_complete() {
  local entry
  for entry in "${fashion_files[@]}"; do
    gzip -tq "$1/${entry%%:*}" 2>/dev/null || return 1
  done
}

install_debian_fashion() {
  command -v apt-get >/dev/null || return 1
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || return 1
    as_root=(sudo)
  fi
  say "installing Debian's dataset-fashion-mnist"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    dataset-fashion-mnist >&2 && fashion_complete "$debian_folder"
}

get_fashion() {
  local folder="$dir/fashion-mnist" entry
  if [ "$dir_given" = no ]; then
    if fashion_complete "$debian_folder" || install_debian_fashion; then
      say "complete (this folder is the default of data.path)"
      printf '%s\n' "$debian_folder"
      return
    fi
  fi
  if fashion_complete "$folder"; then
    say "complete"
  else
    mkdir -p "$folder" || fail "cannot make the folder $folder; name another as the second argument"
    for entry in "${fashion_files[@]}"; do
      get_checked "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/${entry%%:*}" \
        "$folder/${entry%%:*}" "${entry#*:}"
    done
  fi
  printf '%s\n' "$folder"
}

# has_pictures FOLDER TRAIN VAL: as many in FOLDER/train and FOLDER/val.
has_pictures() {
  [ "$(find "$1/val" -name '*.JPEG' 2>/dev/null | wc -l)" = "$3" ] &&
    [ "$(find "$1/train" -name '*.JPEG' 2>/dev/null | wc -l)" = "$2" ]
}
readonly imagenette_pictures=(9469 3925)  # of training and validation, as published

# Source: github.com/fastai/imagenette, the version of 160 pixels, a part of ImageNet; checksum as in
# torchvision.
get_imagenette() {
  local folder="$dir/imagenette2-160" archive="$dir/imagenette2-160.tgz"
  if has_pictures "$folder" "${imagenette_pictures[@]}"; then
    say "complete"
    printf '%s\n' "$folder"
    return
  fi
  mkdir -p "$dir" || fail "cannot make the folder $dir; name another as the second argument"
  get_checked https://s3.amazonaws.com/fast-ai-imageclas/imagenette2-160.tgz "$archive" \
    e793b78cc4c9e9a4ccc0c1155377a412
  make_unpacked
  tar -xzf "$archive" -C "$unpacked" || fail "cannot unpack $archive into $dir; is the disk full?"
  has_pictures "$unpacked/imagenette2-160" "${imagenette_pictures[@]}" || fail "$archive does not hold the expected files"
  rm -rf "$folder"
  mv "$unpacked/imagenette2-160" "$folder"
  rm -f "$archive"
  say "unpacked"
  printf '%s\n' "$folder"
}

# NAME:BYTES:MD5 as on image-net.org, of the training pictures, the validation pictures and their
# classes.
readonly imagenet_files=(
  ILSVRC2012_img_train.tar:147897477120:1d675b47d978889d74fa0da5fadfb00e
  ILSVRC2012_img_val.tar:6744924160:29b22e2961454d5413ddabcf34fc5622
  ILSVRC2012_bbox_val_v3.tgz::f4cd18b5ea29fe6bbea62ec9c20d80f0)
readonly imagenet_pictures=(1281167 50000)  # of training and validation

# check_imagenet NAME BYTES MD5: DIR/NAME is the published file.
check_imagenet() {
  local file="$dir/$1" found
  [ -f "$file" ] || fail "ImageNet is given to registered users only: register at https://image-net.org, accept its \
terms, get $(imagenet_names) from https://image-net.org/challenges/LSVRC/2012/2012-downloads.php, put them into $dir \
and run this again; $1 is not there"
  found="$(size_of "$file")"
  [ -z "$2" ] || [ "$found" = "$2" ] || fail "expected $2 bytes in $file, found $found; get it again"
  say "computing the checksum of $file"
  has_md5 "$file" "$3" || fail "expected the MD5 $3 of $file, found another; get it again"
}

# "A (N bytes), B and C"
imagenet_names() {
  local train="${imagenet_files[0]}" val="${imagenet_files[1]}" boxes="${imagenet_files[2]}"
  local train_bytes="${train#*:}" val_bytes="${val#*:}"
  printf '%s (%s bytes), %s (%s bytes) and %s' "${train%%:*}" "${train_bytes%%:*}" "${val%%:*}" \
    "${val_bytes%%:*}" "${boxes%%:*}"
}

# unpack_imagenet_train FOLDER: an archive for each class in one.
unpack_imagenet_train() {
  local archive class
  mkdir -p "$1/classes"
  tar -xf "$dir/ILSVRC2012_img_train.tar" -C "$1/classes" || return 1
  for archive in "$1"/classes/n*.tar; do
    class="$(basename "$archive" .tar)"
    mkdir -p "$1/train/$class"
    tar -xf "$archive" -C "$1/train/$class" || return 1
    rm "$archive"
  done
  rmdir "$1/classes"
}

# unpack_imagenet_val FOLDER: the file of a picture's boxes names its class.
unpack_imagenet_val() {
  local boxes name class
  mkdir -p "$1/pictures" "$1/boxes"
  tar -xf "$dir/ILSVRC2012_img_val.tar" -C "$1/pictures" || return 1
  tar -xzf "$dir/ILSVRC2012_bbox_val_v3.tgz" -C "$1/boxes" || return 1
  while read -r boxes; do
    name="$(basename "$boxes" .xml)"
    class="$(sed -n 's:.*<name>\(n[0-9]*\)</name>.*:\1:p' "$boxes" | head -n 1)"
    if [ -z "$class" ] || [ ! -f "$1/pictures/$name.JPEG" ]; then continue; fi
    mkdir -p "$1/val/$class"
    mv "$1/pictures/$name.JPEG" "$1/val/$class/"
  done < <(find "$1/boxes" -name '*.xml')
  rm -r "$1/boxes"
  rmdir "$1/pictures"
}

get_imagenet() {
  local folder="$dir/imagenet" entry name rest
  if has_pictures "$folder" "${imagenet_pictures[@]}"; then
    say "complete"
    printf '%s\n' "$folder"
    return
  fi
  for entry in "${imagenet_files[@]}"; do
    name="${entry%%:*}" rest="${entry#*:}"
    check_imagenet "$name" "${rest%%:*}" "${rest#*:}"
  done
  make_unpacked
  unpack_imagenet_train "$unpacked" || fail "cannot unpack ILSVRC2012_img_train.tar into $dir; is the disk full?"
  unpack_imagenet_val "$unpacked" ||
    fail "cannot unpack ILSVRC2012_img_val.tar and ILSVRC2012_bbox_val_v3.tgz into $dir; is the disk full, or has a picture no class?"
  has_pictures "$unpacked" "${imagenet_pictures[@]}" ||
    fail "expected ${imagenet_pictures[0]} training and ${imagenet_pictures[1]} validation pictures in the archives in $dir, found others"
  rm -rf "$folder"
  mv "$unpacked" "$folder"
  chmod 755 "$folder"
  trap - EXIT
  say "unpacked; the archives are no longer needed"
  printf '%s\n' "$folder"
}

readonly ag_news=https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv
readonly ag_news_files=(train.csv:b1a00f826fdfbd249f79597b59e1dc12
  test.csv:d52ea96a97a2d943681189a97654912d)

# 120,000 + 7,600 rows of class, title and description.
get_ag_news() {
  local folder="$dir/ag-news" entry
  mkdir -p "$folder" || fail "cannot make the folder $folder; name another as the second argument"
  for entry in "${ag_news_files[@]}"; do
    get_checked "$ag_news/${entry%%:*}" "$folder/${entry%%:*}" "${entry#*:}"
  done
  # The names of classes 1 to 4, in the order of the authors.
  [ -f "$folder/classes.txt" ] || printf '%s\n' World Sports Business Sci/Tech >"$folder/classes.txt"
  say "complete"
  printf '%s\n' "$folder"
}

case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
esac
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  usage >&2
  exit 2
fi
dir_given=yes
[ $# -eq 2 ] || dir_given=no
dir="$(realpath -m -- "${2:-$default_dir}")"

case "$1" in
  fashion-mnist) get_fashion ;;
  cifar10)
    get_cifar cifar-10-binary.tar.gz c32a1d4ab5d03f1284b67883e8d87530 cifar-10-batches-bin \
      30730000 data_batch_{1,2,3,4,5}.bin test_batch.bin
    ;;
  cifar100)
    get_cifar cifar-100-binary.tar.gz 03b5dce01913d631647c71ecec9e9cb8 cifar-100-binary \
      30740000 train.bin:153700000 test.bin
    ;;
  imagenette) get_imagenette ;;
  imagenet) get_imagenet ;;
  ag-news) get_ag_news ;;
  *)
    printf 'get_data.sh: expected fashion-mnist, cifar10, cifar100, imagenette, imagenet or ag-news, found %s\n' "$1" >&2
    exit 2
    ;;
esac
