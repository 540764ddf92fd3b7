# SPDX-License-Identifier: Apache-2.0
"""Random words of src/base/core/random.hpp in another language, for the scripts in this folder."""

MASK32, MASK64 = 2**32 - 1, 2**64 - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK64
    return x ^ x >> 31


def stream(run_seed, step=0, rank=0, slice_=0, block=0):
    """The two constants of a stream; `block` counts 2^32 indices."""
    state = mix64(run_seed)
    for word in (step, rank << 32 | slice_, block):
        state = mix64(state ^ word)
    return state & MASK32, state >> 32


def stream_of(key, block=0):
    return stream(key["run_seed"], key["step"], key["rank"], key["slice"], block)


def product(constants, index):
    """The word of an index before its last step, of which level codecs make four."""
    first, second = constants
    h = ((index & MASK32) * 0x9E3779B1 + first) & MASK32
    h = ((h ^ h >> 16) * 0x21F0AAAD) & MASK32
    h = ((h ^ h >> 15) + second) & MASK32
    return h * 0xD35A2D97 & MASK32


def word(constants, index):
    """32 random bits."""
    h = product(constants, index)
    return h ^ h >> 15
