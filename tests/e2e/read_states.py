# SPDX-License-Identifier: Apache-2.0
"""Reads the state files of docs/checkpoints.md, version 2, without the program."""

import array
import struct

NUMBERS = {0: "f", 1: "d", 2: "Q"}  # by kind


def read_state(path):
    """The sections of a file by name: arrays of numbers, bytes of others."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"EQTSTATE" and struct.unpack_from("<II", data, 8) == (0x01020304, 2), path
    table, size = struct.unpack_from("<QQ", data, 40)
    assert size == len(data), path
    found, begin, at = {}, 72, table
    while at < size:
        kind, _, length, count = struct.unpack_from("<BBHQ", data, at)
        name = data[at + 20:at + 20 + length].decode()
        section = data[begin:begin + count]
        found[name] = array.array(NUMBERS[kind], section) if kind in NUMBERS else section
        begin += count
        at += 20 + length
    assert begin == table, path
    return found


def read_set(folder, ranks):
    """The states of all ranks of a set; None for one whose file is not there."""
    found = []
    for rank in range(ranks):
        try:
            found.append(read_state(f"{folder}/rank-{rank}-of-{ranks}.eqt"))
        except FileNotFoundError:
            found.append(None)
    return found
