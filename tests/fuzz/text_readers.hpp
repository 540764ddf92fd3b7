// SPDX-License-Identifier: Apache-2.0
// Readers of texts for reader_fuzz.cpp. They throw what a reader throws, and end the program where
// accepted input breaks a postcondition.

#pragma once

#include <cstdint>
#include <span>

namespace eqt::fuzz {

/// A byte for the format, then a file of labelled texts.
void read_texts(std::span<const std::uint8_t> bytes);
/// A vocabulary, a byte 0, a text.
void read_vocabulary(std::span<const std::uint8_t> bytes);
/// The config.json of an encoder.
void read_encoder(std::span<const std::uint8_t> bytes);

}  // namespace eqt::fuzz
