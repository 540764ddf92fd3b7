// SPDX-License-Identifier: Apache-2.0
// Tables of papers in their layout, with our runs next to the published values: the figures of data
// files of this repository (published/*.csv), and papers' names for those in configs.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "figures/statistics.hpp"
#include "figures/table.hpp"
#include "report/group.hpp"
#include "report/run.hpp"

namespace eqt::report {

using figures::Figure;
using figures::Table;

/// The tables of these names, each followed by a table of its conditions, published and ours;
/// without groups that are unfinished beside finished ones.
std::vector<Table> published_tables(const std::vector<std::string>& names,
                                    const std::vector<Group>& all);

/// Seconds of a step (Cp, En, De, Tx, T; Sp: the change of T with more boards) next to published
/// minutes of an epoch.
Table scalability_table(const std::vector<Group>& groups);
/// Test accuracy by network, data, scheme, its setting and boards.
Table accuracy_table(const std::vector<Group>& groups);
/// Test accuracy by network, graph, nodes, share left out and skew; a column per algorithm and
/// precision.
Table decentralised_table(const std::vector<Group>& groups);

/// "ResNet-34" for resnet34, "VGG-11" for vgg11; other names as they are.
std::string paper_network(std::string_view model);
/// "CIFAR-10" for cifar10; other names as they are.
std::string paper_data(std::string_view dataset);
/// Names a run's data set in the same way. Pictures and texts of one's own are known by their
/// folder's name, as scripts/get_data.sh chooses it: "Imagenette", "AG News"; "Sentlen" for
/// sentlen; others keep that name.
std::string paper_data_of(const Run& run);
/// Names a run's network in the same way; "DistilBERT" where the folder of a bert is called so.
std::string paper_network_of(const Run& run);
/// "4-bit-ElastiQuant", "E-ElastiQuant", "QSGD-V", ...; float32 is `baseline`.
std::string paper_scheme(const Run& run, std::string_view baseline);
/// "0.01 CR" for DGC, a density or bits where the scheme has them, "default" otherwise.
std::string paper_tuning(const Run& run);
/// "directed ring", "undirected torus 4x4", "all to all".
std::string paper_graph(const Run& run);
/// Share of the values, or bits, that is not sent [%].
double paper_left_out(const Run& run);

/// A line: column -> field.
using PublishedRow = std::map<std::string, std::string, std::less<>>;

struct PublishedTable {
  std::string source;                                           // its authors and number
  std::vector<std::pair<std::string, std::string>> conditions;  // as stated in the paper
  std::vector<PublishedRow> rows;
};

/// "scalability", "accuracy" or "decentralised". @throws Error{bug} for another one
const PublishedTable& published_table(std::string_view name);

/// Parses such a file: "# source: ..." and "# WHAT: ..." lines, a header line, rows without quotes.
/// @throws Error{bug} if a row has another number of fields than the header
PublishedTable parse_published(std::string_view text);

/// A field as a number; empty if the field is. @throws Error{bug} if it is not a number
Figure published_number(const PublishedRow& row, std::string_view column);

}  // namespace eqt::report
