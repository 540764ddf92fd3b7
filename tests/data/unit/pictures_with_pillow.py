#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decoding and test transform with Pillow's, on pictures of every kind that Pillow writes.

usage: pictures_with_pillow.py PICTURE_TOOL
"""

import math
import pathlib
import subprocess
import sys
import tempfile

try:
    from PIL import Image, ImageOps
except ImportError:
    print("[eqt-skip] python3-pil is not installed")
    sys.exit(0)

tool = sys.argv[1]
BILINEAR = getattr(Image, "Resampling", Image).BILINEAR


def run(*words):
    return subprocess.run([tool, *map(str, words)], check=True, stdout=subprocess.PIPE).stdout


def scene(width, height):
    """Waves, an edge and a fine pattern."""
    pixels = []
    for y in range(height):
        for x in range(width):
            wave = 60 * math.sin(0.03 * x + 0.05 * y) + 40 * math.cos(0.07 * y - 0.02 * x)
            edge = 50 if (x - width / 3) ** 2 + (y - height / 2) ** 2 < height * height / 12 else 0
            pixels.append(tuple(int(max(0, min(255, 110 + wave * (1 - 0.3 * c) + edge + (x * 7 + y * 3) % 11)))
                                for c in range(3)))
    picture = Image.new("RGB", (width, height))
    picture.putdata(pixels)
    return picture


def on_white(picture):
    """As our reader: transparent pixels lie on white."""
    picture = ImageOps.exif_transpose(picture)
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        rgba = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return picture.convert("RGB")


def pillow_test(picture, size):
    """torchvision's Resize and CenterCrop."""
    resize = size if size < 64 else (8 * size + 3) // 7
    width, height = picture.size
    short = min(width, height)
    resized = picture.resize((resize * width // short, resize * height // short), BILINEAR)
    left, top = (round((side - size) / 2.0) for side in resized.size)
    return resized.crop((left, top, left + size, top + size))


def differences(a, b):
    assert len(a) == len(b), (len(a), len(b))
    both = [abs(x - y) for x, y in zip(a, b)]
    return max(both), sum(both) / len(both)


def check(what, found, mean_limit, most_limit):
    most, mean = found
    print(f"{what:42} largest {most:3}, mean {mean:.3f}")
    if mean > mean_limit or most > most_limit:
        sys.exit(f"{what}: expected a largest difference of {most_limit} and a mean of {mean_limit}")


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="eqt-pillow-"))
    base = scene(250, 190)
    exif = Image.Exif()
    exif[0x0112] = 6
    soft = base.copy()
    soft.putalpha(Image.linear_gradient("L").resize(base.size))
    files = {  # name: how Pillow saves it
        "plain.jpg": lambda p: base.save(p, quality=90),
        "full-colour.jpg": lambda p: base.save(p, quality=95, subsampling=0),
        "progressive.jpg": lambda p: base.save(p, quality=85, progressive=True),
        "grey.jpg": lambda p: base.convert("L").save(p, quality=90),
        "turned.jpg": lambda p: base.save(p, quality=90, exif=exif),
        "plain.png": lambda p: base.save(p),
        "grey.png": lambda p: base.convert("L").save(p),
        "two-level.png": lambda p: base.convert("1").save(p),
        "palette.png": lambda p: base.quantize(64).save(p),
        "soft.png": lambda p: soft.save(p),
        "grey-soft.png": lambda p: soft.convert("LA").save(p),
        "turned.png": lambda p: base.save(p, exif=exif),
        "lossless.webp": lambda p: base.save(p, lossless=True),
        "lossy.webp": lambda p: base.save(p, quality=80),
        "soft.webp": lambda p: soft.save(p, lossless=True),
    }
    for name, save in files.items():
        path = folder / name
        save(path)
        expected = on_white(Image.open(path))
        head, pixels = run("decode", path, 3).split(b"\n", 1)
        assert tuple(map(int, head.split())) == expected.size, (name, head, expected.size)
        check(name, differences(pixels, expected.tobytes()), 0.5, 2)
        for size in (28, 64, 160):
            # Reduced decoding keeps other frequencies than a filter does: a few steps of 255.
            reduced = name.endswith("jpg") and size < 96
            check(f"{name}, test sample of {size}",
                  differences(run("test", path, 3, size), pillow_test(expected, size).tobytes()),
                  1.5 if reduced else 0.6, 16 if reduced else 2)
    ink = base.convert("CMYK")
    ink.save(folder / "ink.jpg", quality=95)
    # Pillow and we differ in how ink becomes light; both are (255 - ink)(255 - black) / 255 here.
    stored = list(Image.open(folder / "ink.jpg").getdata())
    light = bytes(round((255 - p[c]) * (255 - p[3]) / 255) for p in stored for c in range(3))
    check("ink.jpg", differences(run("decode", folder / "ink.jpg", 3).split(b"\n", 1)[1], light), 0.5, 2)
    deep = Image.frombytes("I;16", (50, 40), bytes(b for i in range(2000) for b in (i * 13 % 256, i * 29 % 256)))
    deep.save(folder / "deep.png")
    grey = bytes(round((low + 256 * high) / 257) for low, high in zip(deep.tobytes()[::2], deep.tobytes()[1::2]))
    check("deep.png", differences(run("decode", folder / "deep.png", 1).split(b"\n", 1)[1], grey), 0.01, 1)
    print("all pictures are as Pillow reads them")


main()
