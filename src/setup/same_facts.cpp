#include "setup/same_facts.hpp"

#include <xxhash.h>

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace eqt::setup {

void require_same_facts(const config::Facts& mine, std::string_view what, std::string_view remedy,
                        comm::Communicator& comm, Kind kind) {
  const std::string text = config::packed(mine);
  const auto hashes = comm.allgather(XXH3_64bits(text.data(), text.size()));
  if (std::ranges::count(hashes, hashes[0]) == std::ssize(hashes)) return;
  const std::string first = comm.broadcast(text, 0);
  comm.agree_after([&] {
    const std::string found = config::differences(config::unpacked(first), mine);
    if (!found.empty()) fail(kind, "expected {} of rank 0, found {}; {}", what, found, remedy);
  });
}

}  // namespace eqt::setup
