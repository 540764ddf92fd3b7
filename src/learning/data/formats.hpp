// SPDX-License-Identifier: Apache-2.0
// Readers for the file formats of image data sets. Counts are parameters so that tests can use
// small files; open_dataset() passes the official counts and accepts nothing else.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "data/image_set.hpp"

namespace eqt::data {

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
