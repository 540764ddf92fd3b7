// SPDX-License-Identifier: Apache-2.0
// Sets of labelled pictures that never change and are held in memory as bytes: what their rows
// share, and the readers of their files.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "data/catalogue.hpp"
#include "data/image_set.hpp"

namespace eqt::data {

/// The samples of a whole set as they are in its files.
struct LabelledSets {
  LabelledBytes train;
  LabelledBytes test;
};

/// These facts of a set are always true.
struct KnownImages {
  ImageShape shape;
  int classes = 0;
  std::size_t train = 0, test = 0;  // [samples]
  // Mean and deviation of the training pixels by channel, as fractions of 255; the first
  // shape.channels are used.
  std::array<double, 3> mean;
  std::array<double, 3> deviation;
  std::span<const std::string_view> class_names;  // (classes), by label
  /// Reads the whole set: `train` samples, if options need them, and `test` samples.
  /// @throws Error{data} for files that are missing or malformed
  LabelledSets (*read)(const DatasetOptions& options);
};

/// @throws Error{usage} unless the set can be resized as options ask
DatasetFacts look_at_known(const KnownImages& set, const DatasetOptions& options);
DatasetPair open_known(const KnownImages& set, const DatasetOptions& options);

/// Config keys that only such sets read.
inline constexpr std::string_view kKnownImageKeys[] = {"resize", "shift", "border", "flips"};

/// The functions of the row of `kSet`.
template <const KnownImages& kSet>
DatasetFacts look_at_known(const DatasetOptions& options) {
  return look_at_known(kSet, options);
}
template <const KnownImages& kSet>
DatasetPair open_known(const DatasetOptions& options) {
  return open_known(kSet, options);
}

/// Pictures of `side` x `side` pixels: each is the mean of the area that it covers in the original,
/// rounded to the nearest byte, halves upwards. All arithmetic is in whole numbers, so the bytes
/// are the same on every machine.
/// @pre 0 < side <= height and width of the pictures
LabelledBytes area_average(const LabelledBytes& pictures, int side);

// Readers of the files. Counts are parameters so that tests can use small files; open_dataset()
// passes the official counts and accepts nothing else.

/// A pair of IDX files (plain or gzip) of unsigned bytes: images (count, height, width) and labels
/// (count). Format: http://yann.lecun.com/exdb/mnist, "the IDX file format".
/// @throws Error{data} when a file is missing or is not exactly this, or a label is >= classes.
LabelledBytes read_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                       std::size_t count, const ImageShape& shape, int classes,
                       std::string_view remedy);

/// The layout of a CIFAR record: label bytes, then 3 x 32 x 32 pixels, one colour plane after the
/// other. Format: https://www.cs.toronto.edu/~kriz/cifar.html, "binary version".
struct CifarFormat {
  std::size_t label_bytes = 1;  // 1: class; 2: superclass (CIFAR-100's 20), then class
  int classes = 10;
};

/// Concatenates files of exactly `records_per_file` records each.
/// @throws Error{data} as read_idx
LabelledBytes read_cifar(std::span<const std::filesystem::path> files, std::size_t records_per_file,
                         const CifarFormat& format, std::string_view remedy);

/// The part of a synthetic set; the parts have no sample in common.
enum class SyntheticPart : std::uint32_t { train = 0, test = 1 };

/// `count` images (32, 32, 3) of ten kinds of stripes, a pure function of (part, seed).
///
/// A class is one of five angles and one of two wavelengths; phase, colours, mirroring and noise
/// are drawn per sample. So pixel means do not depend on the class (a linear classifier stays near
/// chance), a small convolutional network learns it, and crops and flips preserve it.
LabelledBytes make_synthetic(std::size_t count, SyntheticPart part, std::uint64_t seed);

}  // namespace eqt::data
