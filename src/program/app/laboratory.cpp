// SPDX-License-Identifier: Apache-2.0
#include "app/laboratory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "comm/link_delay.hpp"
#include "core/error.hpp"

namespace eqt::app {
namespace {

constexpr std::size_t kMostBytes = 4096;

std::string read_shaped() {
  const char* const text = std::getenv("EQT_LABORATORY");
  if (text == nullptr) return {};
  std::string shaped(text);
  const bool printable =
      std::all_of(shaped.begin(), shaped.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!printable || shaped.size() > kMostBytes)
    fail(Kind::usage,
         "EQT_LABORATORY: expected at most {} printable ASCII characters, as scripts/netlab.sh "
         "sets it, found {} bytes; unset it",
         kMostBytes, shaped.size());
  return shaped;
}

}  // namespace

config::Facts laboratory_facts() {
  const char* const text = std::getenv(comm::kLinkVariable);
  if (text == nullptr) return {};
  return {{comm::kLinkVariable, text}};
}

Laboratory read_laboratory(bool simulates, comm::Communicator& comm) {
  Laboratory laboratory{.link = comm::link_delay_from_environment(comm.size()),
                        .shaped = read_shaped()};
  if (laboratory.link && simulates)
    fail(Kind::usage,
         "EQT_LINK: expected ranks of MPI, since a simulation sends nothing, found --simulate; "
         "leave one of the two out");
  comm.transfers().set_link_delay(laboratory.link);
  return laboratory;
}

std::string note_on_link(const Laboratory& laboratory) {
  if (!laboratory.link) return {};
  const comm::LinkDelay& link = *laboratory.link;
  return fmt::format(
      "EQT_LINK: {} holds every message for {:.12g} ms{}, except what MPI's own collectives send, "
      "so seconds of this run are no measurement of the real network",
      link.rank ? fmt::format("rank {}", *link.rank) : "each rank", 1000 * link.latency_seconds,
      link.jitter_seconds > 0
          ? fmt::format(" and up to {:.12g} ms more", 1000 * link.jitter_seconds)
          : std::string());
}

}  // namespace eqt::app
