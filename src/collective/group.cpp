#include <numeric>

#include "collective/collective.hpp"

namespace eqt::collective {

Group everyone(const comm::Communicator& comm) {
  Group group{.ranks = std::vector<Rank>(static_cast<std::size_t>(comm.size())),
              .me = static_cast<std::size_t>(comm.rank()),
              .share = 1.0f / static_cast<float>(comm.size())};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

}  // namespace eqt::collective
