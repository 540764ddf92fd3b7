// SPDX-License-Identifier: Apache-2.0
// With train.tune a job makes a probe of itself, chooses its recipe and goes on with it.

#pragma once

#include <functional>
#include <string>

#include "app/job.hpp"

namespace eqt::app {

/// The choice that an earlier start of this run has left in its folder becomes that of the job.
/// Nothing happens where there is none. Collective.
/// @throws Error{data}, Error{usage} on all ranks for a file that is none
void take_earlier_choice(Job& job);

/// Tries learning rates in short runs, makes a run with the best one and the compressor auto, all
/// in the folder "probe" of the job's own, each in place of the one before, measures the links
/// between the hosts, and chooses on rank 0. All ranks go on with that choice. Collective.
/// @param train trains a job, which has no choice of its own
/// @throws Error{usage}, Error{data} and, if no rate trains, Error{diverged} on all ranks
void choose_by_probe(Job& job, const std::function<void(Job&)>& train);

/// Says what was chosen, by which rates, and how long it took.
std::string sentence_of(const Choice& choice);

/// Writes tuned.json, which take_earlier_choice() reads. @pre the job has a choice and a folder
void write_choice(const Job& job);

}  // namespace eqt::app
