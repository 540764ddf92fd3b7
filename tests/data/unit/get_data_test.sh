#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/get_data.sh without a network: curl and wget are replaced.
# usage: get_data_test.sh PATH_OF_GET_DATA_SH
set -euo pipefail

script="$1"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
export PATH="$folder/bin:$PATH"

# downloader BODY: replaces curl; $out is the file that it should write.
downloader() {
  cat >"$folder/bin/curl" <<END
#!/usr/bin/env bash
out=/dev/null
while [ \$# -gt 0 ]; do
  if [ "\$1" = --output ]; then out="\$2"; fi
  shift
done
$1
END
  chmod +x "$folder/bin/curl"
}

# expect CODE ARGUMENTS...: runs the script; its output is then in $said.
expect() {
  local want="$1" got=0
  shift
  said="$(bash "$script" "$@" 2>&1)" || got=$?
  if [ "$got" != "$want" ]; then
    printf 'get_data.sh %s: expected exit code %s, got %s:\n%s\n' "$*" "$want" "$got" "$said"
    exit 1
  fi
}

# said_part TEXT: the last output contains this.
said_part() {
  if [[ "$said" != *"$1"* ]]; then
    printf 'expected "%s" in:\n%s\n' "$1" "$said"
    exit 1
  fi
}

# absent PATH
absent() {
  if [ -e "$1" ]; then
    printf 'expected no %s\n' "$1"
    exit 1
  fi
}

downloader 'echo "curl must not be called" >&2; exit 9'
expect 0 --help
said_part 'cifar100'
expect 2
expect 2 cifar11
said_part 'cifar11'
expect 2 cifar10 a b

# Complete files: no download, and the folder on the last line, every time.
full="$folder/full/cifar-10-batches-bin"
mkdir -p "$full"
for i in 1 2 3 4 5; do truncate -s 30730000 "$full/data_batch_$i.bin"; done
truncate -s 30730000 "$full/test_batch.bin"
for _ in 1 2; do
  expect 0 cifar10 "$folder/full"
  if [ "$(tail -n 1 <<<"$said")" != "$full" ]; then
    printf 'expected the last line %s, got:\n%s\n' "$full" "$said"
    exit 1
  fi
done

# Installed scripts keep their files in the user's own folder; in a checkout they lie in data/.
installed="$folder/prefix/share/equant-train"
mkdir -p "$installed/scripts" "$folder/home/.local/share"
cp "$script" "$installed/scripts"
ln -s "$folder/full" "$folder/home/.local/share/equant-train"
mkdir "$folder/full/data"
ln -s ../cifar-10-batches-bin "$folder/full/data/cifar-10-batches-bin"
said="$(env -u XDG_DATA_HOME HOME="$folder/home" bash "$installed/scripts/get_data.sh" cifar10 2>&1)"
said_part "$folder/full/data/cifar-10-batches-bin"
said="$(XDG_DATA_HOME="$folder/home/.local/share" bash "$installed/scripts/get_data.sh" cifar10 2>&1)"
said_part "$folder/full/data/cifar-10-batches-bin"
touch "$installed/CMakeLists.txt"
mv "$folder/full/data" "$installed/data"
rm "$installed/data/cifar-10-batches-bin"
cp -r --sparse=always "$full" "$installed/data"
said="$(HOME="$folder/home" bash "$installed/scripts/get_data.sh" cifar10 2>&1)"
said_part "$installed/data/cifar-10-batches-bin"

# One byte short is not complete.
truncate -s 30729999 "$full/data_batch_3.bin"
expect 3 cifar10 "$folder/full"

# No network: one sentence with address, checksum and path; no incomplete file is left.
# shellcheck disable=SC2016  # the stand-in expands it
downloader 'echo partial >"$out"; exit 6'
for set in cifar10:c32a1d4ab5d03f1284b67883e8d87530:cifar-10-binary.tar.gz \
  cifar100:03b5dce01913d631647c71ecec9e9cb8:cifar-100-binary.tar.gz; do
  IFS=: read -r name sum archive <<<"$set"
  expect 3 "$name" "$folder/none"
  said_part "https://www.cs.toronto.edu/~kriz/$archive"
  said_part "$sum"
  said_part "$folder/none/$archive"
  absent "$folder/none/$archive"
  absent "$folder/none/$archive.part"
done
expect 3 fashion-mnist "$folder/none"
said_part 'train-images-idx3-ubyte.gz'
expect 3 ag-news "$folder/none"
said_part 'ag_news_csv/train.csv'
said_part 'b1a00f826fdfbd249f79597b59e1dc12'
absent "$folder/none/ag-news/train.csv"

# A wrong archive is not unpacked.
# shellcheck disable=SC2016  # the stand-in expands it
downloader 'echo "something else" >"$out"'
expect 3 cifar10 "$folder/wrong"
said_part 'c32a1d4ab5d03f1284b67883e8d87530'
absent "$folder/wrong/cifar-10-batches-bin"
expect 3 ag-news "$folder/wrong"
said_part 'b1a00f826fdfbd249f79597b59e1dc12'

# A folder that cannot be made.
touch "$folder/file"
expect 3 cifar100 "$folder/file/inside"
