// SPDX-License-Identifier: Apache-2.0
// Sets that some ranks saved and others resume from. What n ranks saved is written by rank 0 alone,
// so that n need not be the number of ranks of the test.

#include "checkpoint/saved_set.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/restoring_visitor.hpp"
#include "checkpoint/saving_visitor.hpp"
#include "checkpoint/state_folder.hpp"
#include "comm/communicator.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/mpi_world.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using namespace eqt::checkpoint;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kModel = 1000;
constexpr std::uint64_t kSave = 99;

/// State of every kind. Values are small integers and halves of them, so that sums are exact.
struct Part {
  std::vector<float> parameters, model, residual, copies, owned;
  std::vector<double> totals{0};
  std::vector<std::uint64_t> counts{0};
  std::uint64_t own = 0;
  double weight = 1;
  std::vector<SliceRange> places;

  Part(Rank rank, int ranks, std::uint64_t range_length = 7)
      : parameters(kModel), model(kModel), residual(kModel), copies(kModel) {
    // Every `ranks`-th range belongs to this rank, from the last range on, as in the collectives.
    for (std::uint64_t r = (kModel + range_length - 1) / range_length; r-- > 0;) {
      if (r % static_cast<std::uint64_t>(ranks) != static_cast<std::uint64_t>(rank)) continue;
      const std::uint64_t first = r * range_length;
      places.push_back({3, first, std::min<std::uint64_t>(range_length, kModel - first)});
      owned.resize(owned.size() + static_cast<std::size_t>(places.back().count));
    }
  }

  /// As if it had trained for `step` steps.
  void fill(Rank rank, StepId step) {
    for (std::size_t i = 0; i < kModel; ++i) {
      parameters[i] = static_cast<float>(i % 17) + static_cast<float>(step);
      model[i] = static_cast<float>(rank + 1) * static_cast<float>(i % 5);
      residual[i] = static_cast<float>(4 * rank + 4) * static_cast<float>(i % 11);
      copies[i] = static_cast<float>(rank + 5);
    }
    std::size_t at = 0;
    for (const SliceRange& range : places)
      for (std::uint64_t i = 0; i < range.count; ++i)
        owned[at++] = static_cast<float>(range.first + i);
    totals[0] = 100 * (rank + 1);
    counts[0] = static_cast<std::uint64_t>(7 * (rank + 1));
    own = static_cast<std::uint64_t>(rank + 50);
    weight = rank + 1;
  }

  void visit_state(StateVisitor& visitor) {
    visitor.enter("run");
    visitor.real("weight", weight, Across::fresh);
    visitor.leave();
    visitor.values("parameters", parameters, Across::same);
    visitor.values("model", model, Across::mean);
    visitor.values("residual", residual, Across::sum);
    visitor.values("copies", copies, Across::fresh);
    visitor.doubles("totals", totals, Across::sum);
    visitor.numbers("counts", counts, Across::sum);
    visitor.number("own", own, Across::own);
    visitor.placed("owned", owned, [this] { return places; });
  }
};

void write_file(const StateFolder& folder, const FileHead& head, Part& part) {
  StateImage image;
  KnownPlaces places;
  image.begin(head, 0);
  SavingVisitor visitor(image, places);
  part.visit_state(visitor);
  folder.write(head, image.finish());
}

/// By rank 0, as if `ranks` ranks had done it.
void write_set(const StateFolder& folder, StepId step, int ranks, std::uint64_t save = kSave) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    Part part(rank, ranks);
    part.fill(rank, step);
    write_file(folder, {.rank = rank, .ranks = ranks, .step = step, .set = save}, part);
  }
}

/// A folder that is common to all ranks.
struct Shared {
  std::optional<test::TemporaryFolder> temporary;
  std::optional<StateFolder> folder;

  explicit Shared(comm::Communicator& comm) {
    if (comm.rank() == 0) temporary.emplace();
    folder.emplace(comm.broadcast(temporary ? temporary->path() : std::string(), 0));
  }
};

/// Waits until rank 0 has changed a folder.
void barrier(comm::Communicator& comm) { comm.allgather(0); }

void damage(const StateFolder& folder, StepId step, Rank rank, int ranks, std::streamoff byte) {
  std::fstream file(folder.file_path(step, rank, ranks),
                    std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(byte);
  const int old = file.get();
  file.seekp(byte);
  file.put(static_cast<char>(old ^ 4));
}

double total(comm::Communicator& comm, std::span<const float> values) {
  std::vector<double> sum(1);
  for (const float v : values) sum[0] += static_cast<double>(v);
  comm.allreduce_sum(sum);
  return sum[0];
}

}  // namespace

TEST_CASE("the same number of ranks gets its state back, bit for bit", "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const Shared shared(comm);
  if (comm.rank() == 0) write_set(*shared.folder, 120, comm.size());
  barrier(comm);
  Findings findings;
  const auto set = open_newest(comm, *shared.folder, nullptr, findings);
  REQUIRE(set.has_value());
  CHECK(set->step() == 120);
  CHECK(findings.sentences.empty());
  Part expected(comm.rank(), comm.size()), found(comm.rank(), comm.size());
  expected.fill(comm.rank(), 120);
  RestoringVisitor visitor(comm, *set);
  found.visit_state(visitor);
  CHECK(found.parameters == expected.parameters);
  CHECK(found.model == expected.model);
  CHECK(found.residual == expected.residual);
  CHECK(found.copies == expected.copies);
  CHECK(found.owned == expected.owned);
  CHECK(found.totals == expected.totals);
  CHECK(found.own == expected.own);
}

TEST_CASE("another number of ranks continues by the rules, and nothing is lost", "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const int m = comm.size();
  for (int n = 1; n <= 5; ++n) {
    if (n == m) continue;
    INFO(n << " ranks, then " << m);
    const Shared shared(comm);
    if (comm.rank() == 0) write_set(*shared.folder, 8, n);
    barrier(comm);
    Findings findings;
    const auto set = open_newest(comm, *shared.folder, nullptr, findings);
    REQUIRE(set.has_value());
    Part part(comm.rank(), m);
    part.copies.assign(kModel, -1);
    RestoringVisitor visitor(comm, *set);
    part.visit_state(visitor);

    double weights = 0, weighted = 0, residuals = 0, totals = 0;
    for (int r = 0; r < n; ++r) {
      weights += r + 1;
      weighted += (r + 1) * (r + 1);
      residuals += 4 * r + 4;
      totals += 100 * (r + 1);
    }
    double elevens = 0, places = 0;
    bool good = true;
    for (std::size_t i = 0; i < kModel; ++i) {
      elevens += static_cast<double>(i % 11);
      places += static_cast<double>(i);
      good &= part.parameters[i] == static_cast<float>(i % 17) + 8;
      good &= std::abs(static_cast<double>(part.model[i]) -
                       weighted / weights * static_cast<double>(i % 5)) < 1e-5;
      good &= part.copies[i] == -1;
    }
    CHECK(good);
    CHECK(part.own == static_cast<std::uint64_t>(comm.rank() % n + 50));
    CHECK(total(comm, part.residual) == Approx(residuals * elevens).epsilon(1e-9));
    CHECK(total(comm, part.owned) == places);
    std::size_t at = 0;
    for (const SliceRange& range : part.places)
      for (std::uint64_t i = 0; i < range.count; ++i)
        good &= part.owned[at++] == static_cast<float>(range.first + i);
    CHECK(good);
    std::vector<double> sum = part.totals;
    comm.allreduce_sum(sum);
    CHECK(sum[0] == Approx(totals).epsilon(1e-12));
    std::vector<double> counted = {static_cast<double>(part.counts[0])};
    comm.allreduce_sum(counted);
    CHECK(counted[0] == 7 * n * (n + 1) / 2);
  }
}

TEST_CASE("a run that goes back to another number of ranks begins parts again", "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const int saved = comm.size() + 1;
  const Shared shared(comm);
  if (comm.rank() == 0) write_set(*shared.folder, 8, saved);
  barrier(comm);
  InitialParts initial;
  Part part(comm.rank(), comm.size());
  part.copies.assign(kModel, -1);
  for (int time = 0; time < 3; ++time) {
    Findings findings;
    const auto set = open_newest(comm, *shared.folder, nullptr, findings);
    REQUIRE(set.has_value());
    RestoringVisitor visitor(comm, *set, &initial);
    part.visit_state(visitor);
    CHECK(part.copies == std::vector<float>(kModel, -1));
    part.copies.assign(kModel, std::numeric_limits<float>::quiet_NaN());  // as training leaves it
  }
}

TEST_CASE("the sum of residuals does not change, up to float32 rounding", "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const int m = comm.size();
  for (int n = 1; n <= 8; ++n) {
    if (n == m) continue;
    const Shared shared(comm);
    std::vector<double> before(kModel), after(kModel);
    for (Rank rank = 0; rank < n; ++rank) {
      Part part(rank, n);
      part.residual =
          test::gaussian(kModel, {.run_seed = 5, .rank = static_cast<std::uint32_t>(rank)});
      for (std::size_t i = 0; i < kModel; ++i) before[i] += static_cast<double>(part.residual[i]);
      if (comm.rank() == 0)
        write_file(*shared.folder, {.rank = rank, .ranks = n, .step = 8, .set = kSave}, part);
    }
    barrier(comm);
    Findings findings;
    const auto set = open_newest(comm, *shared.folder, nullptr, findings);
    REQUIRE(set.has_value());
    Part part(comm.rank(), m);
    RestoringVisitor visitor(comm, *set);
    part.visit_state(visitor);
    for (std::size_t i = 0; i < kModel; ++i) after[i] = static_cast<double>(part.residual[i]);
    comm.allreduce_sum(after);
    double difference = 0, whole = 0;
    for (std::size_t i = 0; i < kModel; ++i) {
      difference += (after[i] - before[i]) * (after[i] - before[i]);
      whole += before[i] * before[i];
    }
    const double relative = std::sqrt(difference / whole);
    if (comm.rank() == 0) {
      std::printf("%d ranks, then %d: |sum of residuals after - before| / |before| = %.2e\n", n, m,
                  relative);
    }
    // A value is rounded once when it is summed or divided: by 2^-25 of it on average.
    CHECK(relative < 0x1p-24);
  }
}

TEST_CASE("placed values move with their places if the same ranks assign them differently",
          "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const Shared shared(comm);
  if (comm.rank() == 0) write_set(*shared.folder, 8, comm.size());
  barrier(comm);
  Findings findings;
  const auto set = open_newest(comm, *shared.folder, nullptr, findings);
  REQUIRE(set.has_value());
  Part part(comm.rank(), comm.size(), 13);
  RestoringVisitor visitor(comm, *set);
  part.visit_state(visitor);
  bool good = true;
  std::size_t at = 0;
  for (const SliceRange& range : part.places)
    for (std::uint64_t i = 0; i < range.count; ++i)
      good &= part.owned[at++] == static_cast<float>(range.first + i);
  CHECK(good);
  CHECK(at == part.owned.size());
}

TEST_CASE("a rank that lacks its file gets it from one that has it", "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  // No common folder: rank r has the file of rank r + 1, as if boards had changed places.
  const test::TemporaryFolder temporary;
  const StateFolder folder(temporary.path());
  const Rank other = (comm.rank() + 1) % comm.size();
  Part part(other, comm.size());
  part.fill(other, 64);
  write_file(folder, {.rank = other, .ranks = comm.size(), .step = 64, .set = kSave}, part);
  Findings findings;
  const auto set = open_newest(comm, folder, nullptr, findings);
  REQUIRE(set.has_value());
  CHECK(findings.sentences.size() == static_cast<std::size_t>(comm.size() == 1 ? 0 : comm.size()));
  Part expected(comm.rank(), comm.size()), found(comm.rank(), comm.size());
  expected.fill(comm.rank(), 64);
  RestoringVisitor visitor(comm, *set);
  found.visit_state(visitor);
  CHECK(found.residual == expected.residual);
  CHECK(found.owned == expected.owned);
}

TEST_CASE("a damaged file is named, and ranks use the set before", "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const Rank last = comm.size() - 1;
  for (const std::streamoff byte : {std::streamoff{20}, std::streamoff{500}}) {  // head, section
    const Shared shared(comm);
    if (comm.rank() == 0) {
      write_set(*shared.folder, 60, comm.size());
      write_set(*shared.folder, 120, comm.size());
      damage(*shared.folder, 120, last, comm.size(), byte);
    }
    barrier(comm);
    Findings findings;
    const auto set = open_newest(comm, *shared.folder, nullptr, findings);
    REQUIRE(set.has_value());
    CHECK(set->step() == 60);
    REQUIRE(findings.sentences.size() == 1);
    CHECK(findings.sentences[0].find(shared.folder->file_path(120, last, comm.size())) == 0);
    CHECK(findings.on_disk.newer.size() ==
          static_cast<std::size_t>(comm.size() > 1 || byte > 20 ? 1 : 0));
    barrier(comm);
    if (comm.rank() == 0) damage(*shared.folder, 60, 0, comm.size(), 500);
    barrier(comm);
    Findings none;
    try {
      (void)open_newest(comm, *shared.folder, nullptr, none);
      CHECK(false);
    } catch (const comm::AgreedError& error) {
      CHECK(error.kind() == Kind::data);
    }
    barrier(comm);
  }
}

TEST_CASE("incomplete sets are not used, and sets with lost files only if there is no other",
          "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const Shared shared(comm);
  constexpr int kSaved = 5;  // not the number of the test's ranks
  if (comm.rank() == 0) {
    write_set(*shared.folder, 120, kSaved);
    fs::remove(shared.folder->file_path(120, 3, kSaved));
  }
  barrier(comm);
  Findings findings;
  CHECK_FALSE(open_newest(comm, *shared.folder, nullptr, findings).has_value());
  barrier(comm);

  if (comm.rank() == 0) {
    std::vector<std::string> damaged;
    std::vector<ManifestEntry> entries = {{.rank = 3, .bytes = 1, .hash = 1}};
    for (const FoundFile& file : shared.folder->list(damaged))
      entries.push_back({file.head.rank, file.bytes, file.hash});
    shared.folder->write_manifest({.rank = 0, .ranks = kSaved, .step = 120, .set = kSave}, entries);
  }
  barrier(comm);
  const auto set = open_newest(comm, *shared.folder, nullptr, findings);
  REQUIRE(set.has_value());
  CHECK(set->lacks_any());
  CHECK(set->holder(3) == SavedSet::kLost);
  REQUIRE(findings.sentences.size() == 1);
  CHECK(findings.sentences[0].find("rank 3") == 0);
  Part part(comm.rank(), comm.size());
  RestoringVisitor visitor(comm, *set);
  part.visit_state(visitor);
  double elevens = 0;
  for (std::size_t i = 0; i < kModel; ++i) elevens += static_cast<double>(i % 11);
  CHECK(total(comm, part.residual) == Approx((4 + 8 + 12 + 20) * elevens).epsilon(1e-9));
  barrier(comm);

  if (comm.rank() == 0) write_set(*shared.folder, 60, kSaved);
  barrier(comm);
  Findings older;
  const auto complete = open_newest(comm, *shared.folder, nullptr, older);
  REQUIRE(complete.has_value());
  CHECK(complete->step() == 60);
}

TEST_CASE("a set in memory is taken without the files of lost hosts, one on disks is not",
          "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const Shared disk(comm), memory(comm);
  constexpr int kSaved = 3;
  constexpr std::uint64_t kOther = kSave + 1;
  const auto lose = [&](const StateFolder& folder, StepId step, Rank rank) {
    if (comm.rank() == 0) fs::remove(folder.file_path(step, rank, kSaved));
    barrier(comm);
  };
  if (comm.rank() == 0) {
    write_set(*disk.folder, 50, kSaved);
    write_set(*memory.folder, 80, kSaved, kOther);
    std::vector<std::string> damaged;
    std::vector<ManifestEntry> entries;
    for (const FoundFile& file : memory.folder->list(damaged))
      entries.push_back({file.head.rank, file.bytes, file.hash});
    memory.folder->write_manifest({.rank = 0, .ranks = kSaved, .step = 80, .set = kOther}, entries);
    write_set(*memory.folder, 90, kSaved, kOther);  // never known to be complete
  }
  barrier(comm);
  const auto newest = [&](Findings& findings) {
    return open_newest(comm, *disk.folder, &*memory.folder, findings);
  };
  Findings whole;
  auto set = newest(whole);
  REQUIRE(set.has_value());
  CHECK(set->step() == 90);
  CHECK(set->in_memory());
  CHECK_FALSE(set->lacks_any());
  CHECK(whole.in_memory.older == std::vector<StepId>{80});
  CHECK(whole.on_disk.older == std::vector<StepId>{50});

  lose(*memory.folder, 90, 1);
  lose(*memory.folder, 80, 2);
  Findings lost;
  set = newest(lost);
  REQUIRE(set.has_value());
  CHECK(set->step() == 80);
  CHECK(set->holder(2) == SavedSet::kLost);
  CHECK(lost.in_memory.newer == std::vector<StepId>{90});
  REQUIRE_FALSE(lost.sentences.empty());
  CHECK(lost.sentences.back().find("rank 2") == 0);

  if (comm.rank() == 0) write_set(*disk.folder, 80, kSaved);
  barrier(comm);
  Findings complete;
  set = newest(complete);  // of one step the complete one is taken
  REQUIRE(set.has_value());
  CHECK_FALSE(set->in_memory());

  lose(*disk.folder, 80, 0);
  lose(*memory.folder, 80, 0);
  lose(*memory.folder, 80, 1);
  Findings older;
  set = newest(older);
  REQUIRE(set.has_value());
  CHECK(set->step() == 50);
  CHECK(older.on_disk.newer == std::vector<StepId>{80});
}

TEST_CASE("files of two saves are no set, and are reported", "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const Shared shared(comm);
  const auto write_mixture = [&] {
    if (comm.rank() == 0) {
      for (Rank rank = 0; rank < 2; ++rank) {
        Part part(rank, 2);
        write_file(
            *shared.folder,
            {.rank = rank, .ranks = 2, .step = 5, .set = kSave + static_cast<unsigned>(rank)},
            part);
      }
    }
    barrier(comm);
  };
  write_mixture();
  Findings findings;
  try {
    (void)open_newest(comm, *shared.folder, nullptr, findings);
    CHECK(false);
  } catch (const comm::AgreedError& error) {
    CHECK(error.kind() == Kind::data);
    CHECK(std::string(error.what()).find("step 5: expected files of one save") !=
          std::string::npos);
  }
  // An older set is used, and the error is kept.
  if (comm.rank() == 0) write_set(*shared.folder, 4, 2);
  barrier(comm);
  Findings older;
  const auto set = open_newest(comm, *shared.folder, nullptr, older);
  REQUIRE(set.has_value());
  CHECK(set->step() == 4);
  CHECK(older.sentences.size() == 1);
  barrier(comm);
}

TEST_CASE("a file that the manifest does not name belongs to another save", "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const Shared shared(comm);
  constexpr int kSaved = 2;
  if (comm.rank() == 0) {
    write_set(*shared.folder, 5, kSaved);
    std::vector<std::string> damaged;
    std::vector<ManifestEntry> entries;
    for (const FoundFile& file : shared.folder->list(damaged))
      entries.push_back({file.head.rank, file.bytes, file.hash});
    // Rank 1's file of another run, whose manifest says that it was complete.
    const std::string theirs = shared.folder->file_path(5, 1, kSaved);
    Part part(1, kSaved);
    part.fill(1, 6);
    write_file(*shared.folder, {.rank = 1, .ranks = kSaved, .step = 5, .set = kSave + 1}, part);
    shared.folder->write_manifest({.rank = 0, .ranks = kSaved, .step = 5, .set = kSave}, entries);
    CHECK(shared.folder->list(damaged).size() == 1);
    REQUIRE(damaged.size() == 1);
    CHECK(damaged[0].find(theirs + ": expected the file that manifest.json names") == 0);
  }
  barrier(comm);
  Findings findings;
  const auto set = open_newest(comm, *shared.folder, nullptr, findings);
  REQUIRE(set.has_value());
  CHECK(set->holder(0) != SavedSet::kLost);
  CHECK(set->holder(1) == SavedSet::kLost);
  barrier(comm);
}

TEST_CASE("a part that the set does not have, or has with another length, is a data error",
          "[saved_set]") {
  comm::Communicator comm(test::session(), 30);
  const Shared shared(comm);
  constexpr int kSaved = 5;
  if (comm.rank() == 0) write_set(*shared.folder, 5, kSaved);
  barrier(comm);
  Findings findings;
  const auto set = open_newest(comm, *shared.folder, nullptr, findings);
  REQUIRE(set.has_value());
  RestoringVisitor visitor(comm, *set);
  std::vector<float> values(kModel + 1);
  for (const Across across : {Across::same, Across::mean, Across::sum, Across::own}) {
    try {
      visitor.values("residual", values, across);
      CHECK(false);
    } catch (const Error& error) {
      CHECK(error.kind() == Kind::data);
    }
    try {
      visitor.values("resident", std::span(values).first(kModel), across);
      CHECK(false);
    } catch (const Error& error) {
      CHECK(error.kind() == Kind::data);
    }
  }
  barrier(comm);
}
