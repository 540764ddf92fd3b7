// SPDX-License-Identifier: Apache-2.0
// Events for TensorBoard: records of a TFRecord file, each a protocol buffer.
//
// Source   TensorFlow, "TFRecord and tf.train.Example": the frame and its masked checksums;
//          tensorboard/compat/proto/{event,summary,histogram,tensor}.proto and
//          tensorboard/plugins/hparams/{api,plugin_data}.proto: the fields

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/records.hpp"

namespace eqt::metrics {

/// The time of a record.
struct EventTime {
  double wall = 0;  // [seconds since 1970]
  StepId step = 0;
};

struct Scalar {
  std::string tag;
  double value = 0;  // stored as float32
};

/// A setting, which is a column of the table of runs. `value` is JSON of a number, a bool or a
/// string.
struct Setting {
  std::string name;
  enum class Type { number, text, flag } type = Type::number;
  double number = 0;  // 0 or 1 for a flag
  std::string text = {};

  bool operator==(const Setting&) const = default;
};

/// length uint64, masked CRC-32C of it, the bytes, masked CRC-32C of them; little-endian.
std::string framed(std::string_view event);

// Each returns one event, not framed.

/// The first event of a file.
std::string version_event(double wall);
/// The run continues at time.step: readers forget earlier events of that step and later ones.
std::string restart_event(const EventTime& time);
std::string scalars_event(const EventTime& time, std::span<const Scalar> scalars);
std::string histogram_event(double wall, const HistogramRecord& record);
/// @param png the encoded image
std::string image_event(double wall, const ImageRecord& record, std::string_view png);
/// @param text Markdown
std::string text_event(const EventTime& time, std::string_view tag, std::string_view text);
/// The settings of the run, and the mark that it has ended, for the table of runs (plugin hparams).
std::string settings_event(double wall, std::span<const Setting> settings);
std::string success_event(double wall);

/// The image as a PNG with 8 bits per channel.
/// @pre 1 or 3 channels; as many pixels as the shape says, at least one
std::string png_of(const ImageRecord& image);

/// The CRC-32C of `bytes`; 0xE3069283 for "123456789".
std::uint32_t crc32c(std::string_view bytes);

}  // namespace eqt::metrics
