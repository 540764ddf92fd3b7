// SPDX-License-Identifier: Apache-2.0
// Two ranks measure the link between them. Private to this room: mpi.h in a header.

#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "comm/link_probe.hpp"

namespace eqt::comm {

class PairProbe {
 public:
  /// @param comm errors must return codes
  PairProbe(MPI_Comm comm, Rank self, Rank peer);

  /// Both ranks call it. Takes about `seconds`; more where three times 512 KiB take longer.
  PairSpeed measure(double seconds);

 private:
  struct Arrival {
    double bytes_per_second = 0;  // of what came after the first part
    double span_seconds = 0;      // duration of that part
    double elapsed_seconds = 0;   // until everything had arrived
  };
  struct Measurement {  // what a receiver reports to its sender
    double bytes_per_second = 0;
    double go_on = 0;
  };

  double latency(double seconds);
  double one_way(bool sends, double seconds);
  Arrival stream(std::size_t out_bytes, std::size_t in_bytes);
  template <typename Value>
  Value swap(const Value& mine);

  MPI_Comm comm_;
  Rank peer_;
  bool first_;  // of the pair
  std::vector<std::byte> out_, in_;
};

}  // namespace eqt::comm
