// SPDX-License-Identifier: Apache-2.0
// The shards of all ranks. Every rank computes them from the labels and the run's seed, so nothing
// is sent.
//
// Notation of the functions below, as in their sources: N samples, n ranks, f = 1 / n. A product is
// evaluated from left to right in double precision and truncated, as Python's int() does it: with
// N = 50000, n = 8 and s = 0.8 a shard has int(f N s) + int(f N (1 - s)) = 5000 + 1249 samples,
// because 1 - 0.8 is a little less than 0.2.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/catalogue.hpp"

namespace eqt::data {

/// The number of samples of each class in each rank's shard (ranks, classes).
using ClassHistogram = std::vector<std::vector<std::uint64_t>>;

struct PartitionPlan {
  std::vector<std::vector<std::size_t>> shards;  // (ranks): sample indices, no sample twice
  std::size_t leftover_samples = 0;              // in no shard

  std::size_t smallest_shard() const;  // [samples]
  /// A hash of all shards in order, to compare the plans of ranks.
  std::uint64_t fingerprint() const;
  /// @param labels (N), each in [0, classes)
  ClassHistogram class_histogram(std::span<const int> labels, int classes) const;
};

/// The samples of each class (classes), in their original order: a stable sort by label.
std::vector<std::vector<std::size_t>> samples_by_class(std::span<const int> labels, int classes);

/// @throws Error{usage} if ranks > samples
void require_sample_each(std::size_t samples, int ranks);

/// IID: a seeded permutation of the whole set cut into consecutive shards that differ by at most
/// one in size. Every sample is in a shard. @throws Error{usage} if ranks > samples
PartitionPlan plan_iid(std::size_t samples, int ranks, std::uint64_t seed);

/// The shards of the first epoch of ReshuffledPartition, in the order in which ranks visit them.
/// @throws Error{usage} if ranks > samples
PartitionPlan plan_reshuffled(std::size_t samples, int ranks, std::uint64_t seed);

/// Degree of skew s in [0, 1] (S. A. Aketi, S. Kodge, K. Roy, "Low precision decentralized
/// distributed training over IID and non-IID data", 2022): the first int(s size) samples of each
/// class form a list sorted by class, the others a shuffled list. Each rank in turn takes int(f N
/// s) samples from the front of the first list and int(f N (1 - s)) from the front of the second.
///
/// 0 is a random partition, 1 gives each rank one or a few classes. Because of truncation some
/// samples are not used, and the sorted list is shorter by less than one sample per class, so the
/// last ranks may get fewer samples than the others.
/// @param labels (N), each in [0, classes)
PartitionPlan plan_skew(std::span<const int> labels, int classes, double skew, int ranks,
                        std::uint64_t seed);

/// Dirichlet (T. Lin, S. P. Karimireddy, S. U. Stich, M. Jaggi, "Quasi-global momentum", 2021):
/// ranks in groups of ten share the shuffled set in proportion; in a group of m ranks with T
/// samples, each class is cut by p ~ Dir(alpha 1_m), where ranks that hold T / m samples have p =
/// 0; drawn again until the smallest has int(0.5 T / m). The lists are then concatenated and cut
/// into equal shards of int(f N), which shifts the boundaries a little.
///
/// A small alpha is strong skew: 10 mild, 0.1 strong.
/// @param labels (N), each in [0, classes)
/// @throws Error{usage} if none of ten thousand draws gives every rank that much
PartitionPlan plan_dirichlet(std::span<const int> labels, int classes, double alpha, int ranks,
                             std::uint64_t seed);

/// The plan of a run is made from these options.
struct PartitionOptions {
  double skew = 0;         // degree, 0 ... 1
  double alpha = 1;        // of Dirichlet's distribution
  bool reshuffle = false;  // each epoch divides the whole set again
  std::uint64_t seed = 1;
};

/// The length of an epoch where ranks have sets of different sizes (data.partition.kind "local").
enum class LocalEpoch {
  smallest,  // the steps of the smallest set
  largest,   // those of the largest; others repeat theirs
  weighted   // those of the mean; a rank's loss is multiplied by its share of all samples
};
std::span<const Named<LocalEpoch>> names_of(LocalEpoch);

/// Where ranks have sets of their own, the network is tested on each rank's own test set or on that
/// of rank 0.
enum class LocalTest { own, first };
std::span<const Named<LocalTest>> names_of(LocalTest);

/// A way to divide the training set. To add one, write its function and its row, declare the row
/// below and list it in PartitionRow::all().
struct PartitionRow {
  std::string_view name, about;
  /// The plan of the first epoch; null: every rank has a set of its own, which nobody divides.
  /// @param labels (N), each in [0, classes); all 0 if there are no classes, and `by_class` is not
  /// set
  /// @throws Error{usage}
  PartitionPlan (*plan)(std::span<const int> labels, int classes, int ranks,
                        const PartitionOptions& options);
  std::span<const std::string_view> keys = {};  // of the config's section, read by no other kind
  bool reshuffles = false;                      // each epoch can divide the whole set again
  bool by_class = false;                        // it needs the samples' classes

  /// Returns all rows, in the order of the documentation.
  static const Catalogue<PartitionRow>& all();
};

extern const PartitionRow kIidPartition, kSkewPartition, kDirichletPartition, kLocalPartition;

}  // namespace eqt::data
