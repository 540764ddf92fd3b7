#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages of the codecs: their dependencies, and what dpkg, the loader and other packages read.
# packaging/test_in_clean_root.sh installs and uses them, and the program's, in a new Debian.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${EQT_BUILD_DIR:?must name the build tree}"
for tool in cpack dpkg-deb dpkg-shlibdeps dpkg-gensymbols file; do
  command -v "$tool" >/dev/null || skip "$tool was not found"
done
[[ -e $EQT_BUILD_DIR/libequant_codec.so ]] || skip "EQT_C_INTERFACE is off: there is no libequant_codec.so"

run cpack -G DEB --config "$EQT_BUILD_DIR/CPackConfig.cmake" -B "$WORK/packages" -D "CPACK_COMPONENTS_ALL=library;develop"
expect_code 0 "cpack"
[[ $CODE -eq 0 ]] || finish
library=$(echo "$WORK"/packages/libequant-codec1_*.deb)
develop=$(echo "$WORK"/packages/libequant-codec-dev_*.deb)

# field PACKAGE NAME: prints that field of the package's control file.
field() { dpkg-deb --field "$1" "$2"; }
version=$(field "$library" Version)
expect_equal "$(dpkg --print-architecture)" "$(field "$library" Architecture)" "the library's architecture"
expect_equal same "$(field "$library" Multi-Arch)" "the library's Multi-Arch"
case $(. /etc/os-release && echo "${VERSION_CODENAME:-}") in
  bookworm) named=(libfmt9 libhwy1) ;;
  *) named=(libfmt10 libhwy1t64) ;;  # Debian 13, Ubuntu 26.04
esac
for name in libc6 "${named[@]}" libstdc++6; do
  [[ ", $(field "$library" Depends)" == *", $name "* ]] || wrong "the library does not depend on $name: $(field "$library" Depends)"
done
[[ $(field "$library" Depends) != *-dev* ]] || wrong "the library depends on files for development"
[[ $(field "$develop" Depends) == *"libequant-codec1 (= $version)"* ]] ||
  wrong "expected that libequant-codec-dev depends on the same library, found: $(field "$develop" Depends)"

dpkg-deb --raw-extract "$library" "$WORK/library"
dpkg-deb --extract "$develop" "$WORK/develop"
control=$WORK/library/DEBIAN
expect_equal "libequant_codec 1 libequant-codec1 (>= ${version%-*})" "$(cat "$control/shlibs")" "shlibs"
grep -qx 'libequant_codec.so.1 libequant-codec1 (>= .*)\|libequant_codec.so.1 libequant-codec1 #MINVER#' "$control/symbols" ||
  wrong "symbols begin with: $(head -n 1 "$control/symbols")"
expect_equal "$(nm -D --defined-only "$EQT_BUILD_DIR/libequant_codec.so" | grep -c ' T equant_codec_')" \
  "$(grep -c '^ equant_codec_.*@EQUANT_CODEC_1 0' "$control/symbols")" "functions among the symbols"
expect_equal "activate-noawait ldconfig" "$(cat "$control/triggers")" "triggers"
[[ ! -e $control/postinst && ! -e $control/postrm ]] || wrong "ldconfig has a trigger and a script"
folder=$(dirname "$(find "$WORK/library" -name libequant_codec.so.1)")
[[ -f $(readlink -f "$folder/libequant_codec.so.1") ]] || wrong "the soname's link leads nowhere"
[[ ! -e $folder/libequant_codec.so ]] || wrong "the library's package has the link that only linking needs"
[[ -L $WORK/develop${folder#"$WORK/library"}/libequant_codec.so ]] || wrong "libequant-codec-dev has no link to the library"
[[ -s $WORK/develop/usr/include/equant/codec.h ]] || wrong "libequant-codec-dev has no equant/codec.h"

# As another package is built with them: the symbols give its dependency.
mkdir -p build/debian
: >build/debian/control
cp -r "$WORK/library" build/debian/libequant-codec1
cc -I"$WORK/develop/usr/include" "$EQT_ROOT/docs/examples/compress_in_c/compress_in_c.c" \
  "$folder/libequant_codec.so.1" -o build/uses_it
run env -C build dpkg-shlibdeps -O -l"$folder" uses_it
grep -q "libequant-codec1 (>= ${version%-*})" "$OUT" || wrong "a program that uses the library would depend on: $(cat "$OUT" "$ERR")"

if command -v lintian >/dev/null; then
  run lintian --fail-on error,warning --allow-root "$library" "$develop"
  expect_code 0 "lintian: $(cat "$OUT")"
fi
finish
