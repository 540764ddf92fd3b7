#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures per second from JPEG files to normalised network inputs, on one core, beside Pillow.

usage: picture_speed.py [--pictures N] [--rounds N] [--sizes 160,224] [--tool FILE] [--folder FOLDER]

Both sides read the same 500 x 375 pictures (made, or those of FOLDER/train/CLASS/) and the same random
crops. Pillow's side is what torchvision's transforms do: open, convert to RGB, crop, resize bilinearly
(with antialiasing), flip, to a float tensor, normalise. Before anything is timed the results are
compared. Rounds alternate; the table has medians over rounds.
"""

import argparse
import math
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"
try:
    import torch
    from PIL import Image, features
except ImportError as error:
    print(f"[eqt-skip] {error}: install Debian's python3-pil and python3-torch")
    sys.exit(0)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BILINEAR = getattr(Image, "Resampling", Image).BILINEAR
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def processor():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def make_pictures(folder, count):
    """Waves, edges and noise, about 60 kB each at quality 85."""
    draw = random.Random(1)
    for i in range(count):
        small = Image.new("RGB", (50, 38))
        phase = [draw.uniform(0, 6.3) for _ in range(6)]
        small.putdata([tuple(int(128 + 60 * math.sin(0.3 * x + phase[c]) * math.cos(0.2 * y + phase[c + 3])
                                 + draw.uniform(-45, 45)) for c in range(3))
                       for y in range(38) for x in range(50)])
        picture = small.resize((500, 375), Image.BICUBIC)
        noise = Image.frombytes("RGB", (500, 375), draw.randbytes(500 * 375 * 3))
        path = folder / "train" / f"class{i % 2}" / f"{i:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.blend(picture, noise, 0.09).save(path, quality=85)
    (folder / "test" / "class0").mkdir(parents=True)
    shutil.copy(folder / "train" / "class0" / "00000.jpg", folder / "test" / "class0")


def to_input(picture):
    """torchvision's ToTensor and Normalize."""
    tensor = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    tensor = tensor.view(picture.height, picture.width, 3).permute(2, 0, 1).contiguous()
    return tensor.float().div_(255).sub_(MEAN).div_(DEVIATION)


def pillow_train(path, box, mirrored, size):
    picture = Image.open(path).convert("RGB")
    left, top, width, height = box
    picture = picture.crop((left, top, left + width, top + height)).resize((size, size), BILINEAR)
    return picture.transpose(Image.FLIP_LEFT_RIGHT) if mirrored else picture


def pillow_test(path, size):
    resize = (8 * size + 3) // 7
    picture = Image.open(path).convert("RGB")
    short = min(picture.size)
    picture = picture.resize(tuple(resize * side // short for side in picture.size), BILINEAR)
    left, top = (round((side - size) / 2.0) for side in picture.size)
    return picture.crop((left, top, left + size, top + size))


def difference(a, b):
    """Mean and largest absolute difference of bytes."""
    a, b = (torch.frombuffer(bytearray(x), dtype=torch.uint8).int() for x in (a, b))
    both = (a - b).abs()
    return both.float().mean().item(), both.max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="160,224")
    parser.add_argument("--tool", default=str(ROOT / "build/release/tests/picture_tool"))
    parser.add_argument("--folder")
    options = parser.parse_args()
    torch.set_num_threads(1)

    def tool(*words):
        return subprocess.run([options.tool, *map(str, words)], check=True, stdout=subprocess.PIPE).stdout

    work = pathlib.Path(options.folder or tempfile.mkdtemp(prefix="eqt-pictures-"))
    if not options.folder:
        make_pictures(work, options.pictures)
    paths = sorted((work / "train").rglob("*.jpg"))
    kilobytes = sum(path.stat().st_size for path in paths) / len(paths) / 1000
    print(f"{processor()}, one thread; {len(paths)} pictures of {kilobytes:.0f} kB, "
          f"{Image.open(paths[0]).size[0]} x {Image.open(paths[0]).size[1]}; Pillow {Image.__version__}, "
          f"libjpeg-turbo {features.version('libjpeg_turbo')}")
    for size in map(int, options.sizes.split(",")):
        crops = []
        for line in tool("crops", work, size).decode().splitlines():
            path, *numbers = line.rsplit(" ", 5)
            *box, mirrored = map(int, numbers)
            crops.append((path, box, mirrored == 1))
        worst = [0.0, 0.0]
        for i in range(0, len(crops), max(1, len(crops) // 20)):
            path, box, mirrored = crops[i]
            train = difference(tool("train", work, size, i), pillow_train(path, box, mirrored, size).tobytes())
            test = difference(tool("test", path, 3, size), pillow_test(path, size).tobytes())
            worst = [max(worst[0], train[0]), max(worst[1], test[0])]
        print(f"size {size}: mean difference of bytes at most {worst[0]:.2f} (train), {worst[1]:.2f} (test)")
        if max(worst) > 6:  # reduced decoding of fine noise; another crop gives 30 or more
            sys.exit("picture_speed.py: the two sides do not compute the same")
        rates = {}
        for _ in range(options.rounds):
            for line in tool("time", work, size, 1).decode().splitlines():
                kind, seconds, count = line.split()
                if kind == "memory":
                    continue
                rates.setdefault(("ours", kind), []).append(int(count) / float(seconds))
            start = time.perf_counter()
            for path, box, mirrored in crops:
                to_input(pillow_train(path, box, mirrored, size))
            middle = time.perf_counter()
            for path, _, _ in crops:
                to_input(pillow_test(path, size))
            end = time.perf_counter()
            rates.setdefault(("Pillow", "train"), []).append(len(crops) / (middle - start))
            rates.setdefault(("Pillow", "test"), []).append(len(crops) / (end - middle))
        for kind in ("train", "test"):
            ours, pillow = (statistics.median(rates[side, kind]) for side in ("ours", "Pillow"))
            print(f"size {size}, {kind:5}: ours {ours:7.1f} pictures/s, Pillow {pillow:7.1f}, ratio {ours / pillow:.2f}")
    if not options.folder:
        shutil.rmtree(work)


main()
