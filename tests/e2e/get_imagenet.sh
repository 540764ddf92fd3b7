#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# get_data.sh imagenet says where ImageNet comes from, checks the archives that it is given, and makes
# a folder of pictures by class.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
shipped=$EQT_ROOT/scripts/get_data.sh

run "$shipped" imagenet "$WORK/none"
expect_failure 3 'registered.*https://image-net\.org.*ILSVRC2012_img_train\.tar \(147897477120 bytes\), ILSVRC2012_img_val\.tar \(6744924160 bytes\)' \
  "without archives"

# Archives of the same layout with two classes: three pictures to train on, two to test on.
mkdir -p "$WORK/classes" "$WORK/val/boxes" "$WORK/given"
picture() { echo "picture $1" >"$WORK/$1"; }
(
  cd "$WORK"
  for name in n01_1 n01_2 n02_1; do picture "$name.JPEG"; done
  tar -cf classes/n01.tar n01_1.JPEG n01_2.JPEG
  tar -cf classes/n02.tar n02_1.JPEG
  tar -cf given/ILSVRC2012_img_train.tar -C classes n01.tar n02.tar
  for number in 1 2; do
    picture "ILSVRC2012_val_0000000$number.JPEG"
    printf '<annotation>\n  <object>\n    <name>n0%s</name>\n  </object>\n</annotation>\n' $((3 - number)) \
      >"val/boxes/ILSVRC2012_val_0000000$number.xml"
  done
  tar -cf given/ILSVRC2012_img_val.tar ILSVRC2012_val_0000000?.JPEG
  tar -czf given/ILSVRC2012_bbox_val_v3.tgz -C val boxes
)
run "$shipped" imagenet "$WORK/given"
expect_failure 3 'expected 147897477120 bytes in .*ILSVRC2012_img_train\.tar' "archives of another size"

# The script with the facts of these archives in the place of the published ones.
facts() { # NAME
  printf '%s:%s:%s' "$1" "$(stat -c %s "$WORK/given/$1")" "$(md5sum <"$WORK/given/$1" | cut -d' ' -f1)"
}
script=$WORK/get_data.sh
sed -E "s/ILSVRC2012_img_train\.tar:[0-9]+:[0-9a-f]+/$(facts ILSVRC2012_img_train.tar)/
  s/ILSVRC2012_img_val\.tar:[0-9]+:[0-9a-f]+/$(facts ILSVRC2012_img_val.tar)/
  s/ILSVRC2012_bbox_val_v3\.tgz::[0-9a-f]+/$(facts ILSVRC2012_bbox_val_v3.tgz)/
  s/imagenet_pictures=\(1281167 50000\)/imagenet_pictures=(3 2)/" "$shipped" >"$script"
run bash "$script" imagenet "$WORK/given"
expect_code 0 "tiny archives"
folder=$(tail -n 1 "$OUT")
expect_equal "train/n01/n01_1.JPEG train/n01/n01_2.JPEG train/n02/n02_1.JPEG\
 val/n01/ILSVRC2012_val_00000002.JPEG val/n02/ILSVRC2012_val_00000001.JPEG" \
  "$(cd "$folder" && find . -type f | sort | sed 's|^\./||' | tr '\n' ' ' | sed 's/ $//')" "the folder of pictures"
[[ -z $(find "$WORK/given" -name '.unpack*') ]] || wrong "tiny archives: a folder of the unpacking is left"
rm "$WORK"/given/*.t*
run bash "$script" imagenet "$WORK/given"
expect_code 0 "a folder that is complete"
expect_equal "$folder" "$(tail -n 1 "$OUT")" "a folder that is complete"

# One byte differs.
rm -r "$folder"
(cd "$WORK" && tar -cf given/ILSVRC2012_img_train.tar -C classes n01.tar n02.tar)
printf x | dd of="$WORK/given/ILSVRC2012_img_train.tar" bs=1 seek=1 conv=notrunc 2>/dev/null
run bash "$script" imagenet "$WORK/given"
expect_failure 3 'expected the MD5|expected [0-9]+ bytes' "a damaged archive"
finish
