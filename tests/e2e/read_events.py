#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a run folder's event files back and compares them with its records.

    read_events.py FOLDER            with its own reader
    read_events.py --real FOLDER     with TensorBoard's (exit code 77: there is none)

Both show what a user sees: in a resumed run, steps after its checkpoint count once. Prints how many
scalars, histograms, images and texts there are; an exception names what differs.
"""
import collections
import glob
import json
import math
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frames(path):
    data = open(path, "rb").read()
    at = 0
    while at < len(data):
        size, check = struct.unpack_from("<QI", data, at)
        event = data[at + 12:at + 12 + size]
        assert masked(data[at:at + 8]) == check, f"{path}: checksum of the length at byte {at}"
        assert masked(event) == struct.unpack_from("<I", data, at + 12 + size)[0], f"{path}: checksum at byte {at}"
        at += size + 16
        yield event


def fields(message):
    """(number, value) of a protocol buffer: bytes, or an integer of the bits."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        if key & 7 == 2:
            size = varint()
        yield key >> 3, message[at:at + size]
        at += size


class Found:
    """The expected contents: {tag: [(step, value)]} by kind."""

    def __init__(self):
        self.scalars, self.histograms, self.images, self.texts = (collections.defaultdict(list) for _ in range(4))

    def forget(self, first):
        for kind in (self.scalars, self.histograms, self.images, self.texts):
            for tag in kind:
                kind[tag] = [one for one in kind[tag] if one[0] < first]


def own_reader(folder):
    found = Found()
    for path in sorted(glob.glob(folder + "/events.out.tfevents.*")):
        for index, event in enumerate(frames(path)):
            event = dict(fields(event))
            step = event.get(2, 0)
            if index == 0:
                assert event[3] == b"brain.Event:2", path
            if 7 in event:
                assert dict(fields(event[7]))[1] == 1, path
                found.forget(step)
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                tag = value[1].decode()
                if 2 in value:
                    found.scalars[tag].append((step, struct.unpack("<f", value[2])[0]))
                elif 4 in value:
                    found.images[tag].append((step, dict(fields(value[4]))[4]))
                elif 5 in value:
                    h = dict(fields(value[5]))
                    found.histograms[tag].append((step, struct.unpack("<d", h[3])[0]))
                elif not tag.startswith("_hparams_"):
                    found.texts[tag].append((step, dict(fields(value[8]))[8].decode()))
    return found


def real_reader(folder):
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        sys.exit(77)
    events = EventAccumulator(folder, size_guidance={k: 0 for k in (
        "scalars", "histograms", "images", "tensors", "compressedHistograms")})
    events.Reload()
    found, tags = Found(), events.Tags()
    for tag in tags["scalars"]:
        found.scalars[tag] = [(e.step, e.value) for e in events.Scalars(tag)]
    for tag in tags["histograms"]:
        found.histograms[tag] = [(e.step, e.histogram_value.num) for e in events.Histograms(tag)]
    for tag in tags["images"]:
        found.images[tag] = [(e.step, e.encoded_image_string) for e in events.Images(tag)]
    for tag in tags["tensors"]:
        if events.SummaryMetadata(tag).plugin_data.plugin_name == "text":
            found.texts[tag] = [(e.step, e.tensor_proto.string_val[0].decode()) for e in events.Tensors(tag)]
    settings = events.PluginTagToContent("hparams")
    assert set(settings) >= {"_hparams_/session_start_info"}, settings
    return found


def numbers(value, tag):
    if isinstance(value, (bool, int, float)):
        yield tag, float(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, tag + "/" + key)
    elif isinstance(value, list) and not (value and isinstance(value[0], dict)):
        for i, inner in enumerate(value):
            yield from numbers(inner, f"{tag}/{i}")


def expected(folder):
    found = Found()
    records = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
    summary = json.load(open(folder + "/summary.json"))
    records.append({"type": "summary", "step": summary["steps"], **summary})
    for record in records:
        kind, step = record.pop("type"), record.pop("step", 0)
        if kind == "note":
            found.texts["notes"].append((step, record["text"]))
        elif kind != "run":
            for key, value in record.items():
                for tag, number in numbers(value, f"{kind}/{key}"):
                    found.scalars[tag].append((step, number))
    return found


def compare(found, folder):
    want = expected(folder)
    assert set(found.scalars) == set(want.scalars), set(found.scalars) ^ set(want.scalars)
    for tag, points in want.scalars.items():
        got = found.scalars[tag]
        assert [s for s, _ in got] == [s for s, _ in points], (tag, got, points)
        for (_, a), (step, b) in zip(got, points):
            assert math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-30), (tag, step, a, b)
    assert found.texts["notes"] == want.texts["notes"] or not want.texts["notes"], found.texts["notes"]
    config = found.texts["config"][0][1]
    assert json.loads(config.strip("`")) == json.load(open(folder + "/config.json")), "the config's text"
    epochs = [s for s, _ in want.scalars["epoch/epoch"]]
    parameters = json.load(open(folder + "/summary.json"))["parameters"]
    assert found.histograms["gradient/all"] == [(s, parameters) for s in epochs], found.histograms["gradient/all"]
    assert "gradient/conv1.weight" not in found.histograms, "a tensor that is not compressed"
    inner = [t for t in found.histograms if t.startswith("gradient/") and t != "gradient/all"]
    for tag in inner:
        assert [s for s, _ in found.histograms[tag]] == epochs, tag
    if "level_usage" in found.histograms:
        for i, (step, count) in enumerate(found.histograms["level_usage"]):
            assert count == sum(found.histograms[t][i][1] for t in inner), "codes of all compressed values"
    assert [s for s, _ in found.images["samples"]] == [0], found.images.keys()
    assert found.images["samples"][0][1].startswith(b"\x89PNG\r\n\x1a\n")
    for kind in ("scalars", "histograms", "images", "texts"):
        tags = getattr(found, kind)
        print(f"{kind}: {len(tags)} tags, {sum(map(len, tags.values()))} values")
    print("level usage:", "level_usage" in found.histograms)


if __name__ == "__main__":
    real = sys.argv[1] == "--real"
    compare((real_reader if real else own_reader)(sys.argv[-1]), sys.argv[-1])
