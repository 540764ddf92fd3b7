// SPDX-License-Identifier: Apache-2.0
// `doctor`: what the hosts of a job are, how fast the links between them are, what to change.

#pragma once

namespace eqt::doctor {

struct DoctorCommand {
  double seconds = 2;  // for measuring links
  int threads = 0;     // per rank; 0 = as a training run would choose
  bool json = false;
};

/// Run it on all ranks that are to train; on one rank it checks this host. Rank 0 prints.
/// @return the exit code: warnings are no failure
int run_doctor(const DoctorCommand& command, int argc, char** argv);

}  // namespace eqt::doctor
