// SPDX-License-Identifier: Apache-2.0
// Tells which data set lies in a folder or a file, before anything is configured.

#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "data/catalogue.hpp"

namespace eqt::data {

struct FoundSet {
  Entry<DatasetRow> set;
  std::filesystem::path path;  // for data.path
  bool is_stream = false;      // texts for a language model
};

/// The set that the files at `path` are: Fashion-MNIST, CIFAR-10, CIFAR-100, a folder of pictures
/// by class, archives of pictures, arrays, tables of numbers or of texts, a text to continue. A
/// folder with one table, and no train.csv, is that table. Files with other endings are ignored.
/// Reads names, and the first rows of tables.
/// @throws Error{data} of one sentence: nothing that is known, several kinds beside each other,
/// pictures without classes or too deep, names that the sets do not have
FoundSet find_own(const std::filesystem::path& path);

/// Sides and colours of some pictures of a set.
struct PictureSizes {
  int middle_side = 0;  // [pixels] half of the pictures have a shorter side of at most so many
  bool has_colour = false;
  std::size_t looked_at = 0;
};

/// Looks at up to 64 training pictures, spread evenly.
/// @param options of a set of the user's own pictures
/// @throws Error{data} as DatasetRow::look, or with a picture's name if none can be read
PictureSizes sizes_of_pictures(const DatasetOptions& options);

/// Reads the training texts of a set, or all of a single table.
/// @return the number of words and punctuation marks of each
/// @throws Error{data} as DatasetRow::open
std::vector<std::size_t> lengths_of_texts(const FoundSet& found);

/// A vocab.txt for WordPiece of these texts, in lower case without accents: the special tokens, all
/// characters, at the beginning of a word and inside one, and the most frequent words that occur
/// more than once.
/// @throws Error{data} as DatasetRow::open
std::string vocabulary_of_texts(const FoundSet& found);

/// Says what the targets of arrays or of a table of numbers are, by their values.
struct FoundTargets {
  TargetKind kind = TargetKind::values;
  int classes = 0;  // TargetKind::classes
};

/// Whole numbers from 0 to 99 that are not all different are classes; several numbers a sample
/// that are all 0 or 1 are flags; others are values. Rows of whole numbers without a file of
/// targets are tokens, of which the next one is the target.
/// @param options of arrays
/// @throws Error{data} as DatasetRow::open, or if all targets are the same
FoundTargets look_at_targets(const DatasetOptions& options);

}  // namespace eqt::data
