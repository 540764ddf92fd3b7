// SPDX-License-Identifier: Apache-2.0
// The names in papers for the names in configs.

#pragma once

#include <string>
#include <string_view>

#include "report/run.hpp"

namespace eqt::report {

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

}  // namespace eqt::report
