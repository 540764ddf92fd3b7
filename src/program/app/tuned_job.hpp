// SPDX-License-Identifier: Apache-2.0
// With train.tune a job makes a probe of itself, chooses its recipe and goes on with it.

#pragma once

#include <functional>

#include "app/job.hpp"

namespace eqt::app {

/// The choice that an earlier start of this run has left in its folder becomes that of the job.
/// Nothing happens where there is none. Collective.
/// @throws Error{data}, Error{usage} on all ranks for a file that is none
void take_earlier_choice(Job& job);

/// Makes a run of the config with the compressor auto, in the folder "probe" of the job's own,
/// measures the links between the hosts, and chooses on rank 0. All ranks go on with that choice.
/// Collective.
/// @param train trains a job, which has no choice of its own
/// @throws Error{usage}, Error{data} on all ranks
void choose_by_probe(Job& job, const std::function<void(Job&)>& train);

/// Writes tuned.json, which take_earlier_choice() reads. @pre the job has a choice and a folder
void write_choice(const Job& job);

}  // namespace eqt::app
