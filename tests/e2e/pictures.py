#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a part of Fashion-MNIST as a folder of PNG files, as archives and as IDX files whose first
samples are the same in the same order.

usage: pictures.py SOURCE OUT TRAIN TEST     TRAIN and TEST: pictures of each class
"""

import gzip
import io
import pathlib
import struct
import sys
import tarfile
import zlib

SIDE, CLASSES = 28, 10


def png(pixels):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + pixels[y * SIDE:(y + 1) * SIDE] for y in range(SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1))
            + chunk(b"IEND", b""))


def main():
    source, out = map(pathlib.Path, sys.argv[1:3])
    for part, idx, count in (("train", "train", int(sys.argv[3])), ("test", "t10k", int(sys.argv[4]))):
        images = gzip.open(source / f"{idx}-images-idx3-ubyte.gz").read()
        labels = gzip.open(source / f"{idx}-labels-idx1-ubyte.gz").read()
        head, images, label_head, labels = images[:16], images[16:], labels[:8], labels[8:]
        members = [[i for i, label in enumerate(labels) if label == c][:count] for c in range(CLASSES)]
        # Classes take turns, as in the order of a folder.
        chosen = [members[c][i] for i in range(count) for c in range(CLASSES)]
        rest = [i for i in range(len(labels)) if i not in set(chosen)]
        order = chosen + rest
        pixels = [images[i * SIDE * SIDE:(i + 1) * SIDE * SIDE] for i in order]
        (out / "idx").mkdir(parents=True, exist_ok=True)
        (out / "idx" / f"{idx}-images-idx3-ubyte").write_bytes(head + b"".join(pixels))
        (out / "idx" / f"{idx}-labels-idx1-ubyte").write_bytes(label_head + bytes(labels[i] for i in order))
        (out / "tar").mkdir(exist_ok=True)
        archives = [tarfile.open(out / "tar" / f"{part}-{n}.tar", "w") for n in range(2)]
        for place, sample in enumerate(chosen):
            name = f"class {labels[sample]}"
            file = out / "png" / part / name / f"{place // CLASSES:05}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            content = png(pixels[place])
            file.write_bytes(content)
            archive = archives[place >= len(chosen) // 2]
            for ending, data in (("png", content), ("cls", str(labels[sample]).encode())):
                member = tarfile.TarInfo(f"{place:06}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        for archive in archives:
            archive.close()


if __name__ == "__main__":
    main()
