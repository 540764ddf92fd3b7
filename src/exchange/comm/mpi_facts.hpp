// SPDX-License-Identifier: Apache-2.0
// How the MPI library of this job was built and configured.

#pragma once

#include <string>

namespace eqt::comm {

struct MpiFacts {
  std::string library;  // "Open MPI v4.1.4"
  std::string runtime;  // of mpirun, which started this process: "ORTE", "PRRTE"; "" if another did
  std::string thread_level;  // single, funneled, serialized or multiple
  /// Ranks of one host read each other's memory this way: Open MPI's "cma", "knem", "xpmem",
  /// "emulated" or "none" (through shared segments, copied twice); "" if the library does not say.
  std::string single_copy;
};

/// MPI must be running. Not collective.
MpiFacts mpi_facts();

}  // namespace eqt::comm
