// SPDX-License-Identifier: Apache-2.0
// Data that stay where they are: every rank trains on what lies under data.path on its own host.

#include <array>

#include "data/partition_plan.hpp"

namespace eqt::data {
namespace {

constexpr std::array<Named<LocalEpoch>, 3> kEpochs = {{
    {LocalEpoch::smallest, "smallest",
     "as many steps as the smallest set has; other ranks visit the rest of theirs in later epochs"},
    {LocalEpoch::largest, "largest", "as many as the largest set has; other ranks repeat theirs"},
    {LocalEpoch::weighted, "weighted",
     "as many as sets have on average; a rank's loss counts by the size of its set, so that each "
     "sample of all ranks counts equally"},
}};

constexpr std::array<Named<LocalTest>, 2> kTests = {{
    {LocalTest::own, "local",
     "each rank's own test set; figures are those of all samples together"},
    {LocalTest::first, "rank0", "rank 0's, which it sends to all others once"},
}};

constexpr std::array<std::string_view, 2> kKeys = {"epoch", "test"};

}  // namespace

std::span<const Named<LocalEpoch>> names_of(LocalEpoch) { return kEpochs; }
std::span<const Named<LocalTest>> names_of(LocalTest) { return kTests; }

const PartitionRow kLocalPartition = {
    .name = "local",
    .about =
        "nothing is divided: every rank reads its own set from data.path on its own host; "
        "ranks agree on the classes by name",
    .plan = nullptr,
    .keys = kKeys};

}  // namespace eqt::data
