// SPDX-License-Identifier: Apache-2.0
// Data sets: samples of any kind, read as batches of arrays. No torch.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/catalogue.hpp"
#include "data/batch.hpp"
#include "data/images.hpp"

namespace eqt::data {

/// The texts of a run are read with these options.
struct TextOptions {
  std::string vocabulary = {};   // file vocab.txt
  std::size_t max_length = 128;  // [tokens] with [CLS] and [SEP]; longer texts are cut
  bool lower_case = true;        // capitals and accents make no difference
};

/// Mean and deviation of numbers that come one by one, or in parts.
/// Source: B. P. Welford, Technometrics 4 (1962), and for parts T. F. Chan, G. H. Golub, R. J.
/// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979, eq.
/// (2.1).
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;  // sum of squared differences from the mean

  void add(double value) {
    count += 1;
    const double difference = value - mean;
    mean += difference / count;
    squares += difference * (value - mean);
  }
  void add(const Moments& part) {
    if (part.count == 0) return;
    const double sum = count + part.count, difference = part.mean - mean;
    squares += part.squares + difference * difference * (count / sum) * part.count;
    mean += difference * (part.count / sum);
    count = sum;
  }
  /// Returns the deviation of the whole population, for which the squares are divided by the count.
  double deviation() const { return count == 0 ? 0 : std::sqrt(squares / count); }
  /// Returns what numbers are divided by: the deviation, or 1 if they are all the same.
  double divisor() const {
    const double found = deviation();
    return found == 0 ? 1 : found;
  }
};

struct DatasetRow;  // of data/catalogue.hpp
class TextInput;    // of data/text/text_input.hpp

/// The key of augmentation: what is drawn for a sample depends only on (seed, epoch, sample index),
/// not on the rank or the batch.
struct AugmentKey {
  std::uint64_t run_seed = 0;
  std::uint64_t epoch = 0;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;  // [samples]
  /// The arrays that networks compute from, as read() writes them; at least one.
  virtual std::vector<ArraySpec> inputs() const = 0;
  /// Returns what networks should find; nothing: the inputs alone say what is learnt.
  virtual std::optional<ArraySpec> target() const = 0;
  /// Classes of which each sample has one; 0: samples have no class.
  virtual int classes() const { return 0; }
  /// The class of a sample, in [0, classes()). @pre classes() > 0
  virtual int label(std::size_t sample) const;
  /// Returns how long a sample is where that differs, such as the tokens of a text, otherwise 0.
  /// Samples of a batch are filled up to the longest one.
  virtual std::size_t length(std::size_t /*sample*/) const { return 0; }
  /// Fills `out` with the samples at `indices`, prepared for the network; augmented, as the set
  /// does it, if `augment` is set. Reuses the memory of `out`. Thread-safe.
  virtual void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
                    Batch& out) const = 0;
  /// From now on inputs are prepared with these means and deviations: of this set's training
  /// samples, or of those of all ranks together. @pre DatasetPair::moments has as many
  virtual void standardize_by(std::span<const Moments> moments);
  /// Tokens are said to be in [0, tokens) from now on, of which this set may lack some.
  /// @pre DatasetPair::tokens is above 0, and at most `tokens`
  virtual void settle_tokens(std::int64_t tokens);
};

/// The class of each sample (n); all 0 if samples have none.
std::vector<int> labels_of(const Dataset& dataset);

/// Mean and standard deviation of each channel of the training pictures, as fractions of 255.
struct Normalization {
  std::vector<double> mean;       // (c)
  std::vector<double> deviation;  // (c)
};

/// That of pictures whose channels have these moments, as fractions of 255. Pictures of one colour
/// have no deviation and get one step of 255, which leaves them finite.
Normalization normalization_of(std::span<const Moments> moments);

/// Returns true where (x - mean) / deviation may be computed in float32: no x of a data set becomes
/// infinite.
bool fits_float32(double mean, double deviation);

/// Tells whether numbers are brought to mean 0 and deviation 1, and which numbers of a sample share
/// both.
enum class Standardize : std::uint8_t { off, first_axis, last_axis };
std::span<const Named<Standardize>> names_of(Standardize);

/// Training and test set, prepared in the same way.
struct DatasetPair {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
  Normalization normalization;                  // of pictures; else empty
  std::vector<std::string> class_names;         // (classes), by label
  std::optional<PictureFraming> framing = {};   // of pictures that are decoded when they are read
  std::shared_ptr<const TextInput> texts = {};  // how texts are read; none: there are none
  // These are the moments of the numbers of training samples that share a mean and a deviation.
  // They are empty if none are measured, or if those of pictures need not be added to those of
  // other ranks.
  std::vector<Moments> moments = {};
  Standardize standardize = Standardize::off;  // how they share
  // This is one more than the largest token of both sets where these are arrays, whose files tell
  // no more of a vocabulary. 0: there are no tokens, or a vocabulary has them.
  std::int64_t tokens = 0;
  // Samples that could not be read so far, in place of which others were; none: any is an error.
  std::function<std::uint64_t()> skipped = {};
  std::vector<std::string> columns = {};  // of tables with names: those of a sample's numbers
  std::vector<std::string> notes = {};    // sentences on what was taken or left out of the files
};

/// Both sets prepare their inputs with these moments, which are those of the pair from now on.
void standardize(DatasetPair& pair, std::span<const Moments> moments);
/// Checks the means and deviations that a network is to be trained with, of pictures or of other
/// numbers.
/// @throws Error{data} naming the channel or the column where fits_float32() is false
void require_usable_figures(const DatasetPair& pair);
/// Both sets say that there are so many tokens. @pre pair.tokens is above 0, and at most `tokens`
void settle_tokens(DatasetPair& pair, std::int64_t tokens);

/// Names the targets that a task learns from (model/task.hpp), for sets that can be read in several
/// ways.
enum class TargetKind : std::uint8_t {
  classes,  // one of some classes: int64, a single number, in [0, classes)
  flags,    // any of some classes: float32 (classes), each 0 or 1
  values,   // numbers: float32
  tokens,   // the token that follows each: int64 (length), in [0, bound), or kIgnored
  any       // anything or nothing: the network knows
};
/// "a class for each sample", ...: for messages.
std::string_view text_of(TargetKind kind);

/// True if these targets, of a set with so many classes, are of that kind.
bool fits(TargetKind kind, const std::optional<ArraySpec>& target, int classes);

struct DatasetOptions {
  Entry<DatasetRow> set;
  std::string path = {};        // folder with the set's own files; "" = its default place, if any
  std::size_t limit_train = 0;  // first this many samples; 0 = all
  std::size_t limit_test = 0;
  std::uint64_t seed = 1;  // of generated sets
  int resize = 0;  // [pixels] of a side of pictures that are always the same; 0 = as they are
  Augmentation augmentation = {};  // of pictures that are always the same
  TargetKind target = TargetKind::classes;
  PictureOptions pictures = {};  // of sets that decode pictures
  double test_fraction = 0.1;    // of each class, where own data have no test set
  TextOptions text = {};         // how texts are read
  std::string columns = {};      // tables: names or numbers of the targets' columns; "" = the last
  bool integers = false;         // arrays: inputs stay whole numbers
  Standardize standardize = Standardize::off;  // arrays
  // A rank may have a part of what is learnt (data.partition.kind "local"). Its test set may then
  // have classes that its training set lacks, or it needs no test set.
  bool is_part = false;
  bool needs_test = true;
  // false: a network that is trained is tested. The pair has no training set, whose files may be
  // missing, and its classes are those of the test set, if these tell them.
  bool needs_train = true;
};

/// Opens a data set.
/// @throws Error{data} when a file is missing, truncated, wrong-sized or malformed: the message
/// names the file, the expected and found size, and how to get it; as require_usable_figures() for
/// a whole set that a network is trained on. @throws Error{usage} when a limit exceeds the set.
DatasetPair open_dataset(const DatasetOptions& options);

}  // namespace eqt::data
