#include "app/same_everywhere.hpp"

#include <bit>
#include <string>

#include "app/facts.hpp"
#include "app/same_facts.hpp"
#include "app/verbs.hpp"
#include "comm/session.hpp"
#include "core/error.hpp"
#include "model/replica.hpp"

namespace eqt::app {
namespace {

/// Zero or not zero is all that survives a change of byte order, and no text would: lengths travel
/// as binary numbers.
void require_same_byte_order(comm::Communicator& comm) {
  const auto big = comm.allgather(std::endian::native == std::endian::big ? 1 : 0);
  for (std::size_t rank = 1; rank < big.size(); ++rank) {
    if ((big[rank] != 0) == (big[0] != 0)) continue;
    const auto name = [&](std::size_t r) { return big[r] != 0 ? "big" : "little"; };
    throw comm::AgreedError(
        Kind::usage,
        fmt::format("rank {}: expected the byte order of rank 0, {}-endian, found {}-endian; start "
                    "ranks on hosts of one byte order",
                    rank, name(0), name(rank)));
  }
}

/// Without kernels and BLAS, which may differ between boards.
std::string torch_version() {
  const std::string description = model::torch_description();
  return description.substr(0, description.find(" ("));
}

}  // namespace

void require_same_program(comm::Communicator& comm) {
  require_same_byte_order(comm);
  require_same_facts({{"equant-train", version()},
                      {"LibTorch", torch_version()},
                      {"MPI", comm::mpi_description()}},
                     "the program and libraries", "install the same build on every host", comm);
}

void require_same_config(const RunConfig& config, comm::Communicator& comm) {
  require_same_facts(config_facts(config), "the config",
                     "give every rank the same --config and --set", comm);
}

void require_same_shards(std::uint64_t fingerprint, comm::Communicator& comm) {
  const auto all = comm.allgather(fingerprint);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw comm::AgreedError(
        Kind::data,
        fmt::format("rank {}: expected the shards that rank 0 computed, found others; give every "
                    "host the same files of the data set (data.path) and the same C library",
                    rank));
  }
}

}  // namespace eqt::app
