// SPDX-License-Identifier: Apache-2.0
// Plots of a report, as scripts for gnuplot, and the styles of its groups.

#pragma once

#include <string>
#include <vector>

#include "figures/colours.hpp"
#include "figures/drawing.hpp"
#include "report/group.hpp"

namespace eqt::report {

using figures::Drawing;
using figures::Style;

struct Drawings {
  std::vector<Drawing> all;
  std::vector<std::string> left_out;  // plots that were possible but not made, and why: sentences
};

/// All plots for which the runs have figures.
Drawings drawings_of(const std::vector<Group>& groups);

/// Returns each group's style: its compressor's colour, or the next of colours() if all have the
/// same compressor.
std::vector<Style> styles_of(const std::vector<Group>& groups);

// The kinds of plots; each function appends to `drawings`.

/// Accuracy and losses against epochs, seconds and bytes; both variances and consensus distance by
/// epoch.
void draw_curves(const std::vector<Group>& groups, Drawings& drawings);
/// Seconds of training with the main figure at its end; seconds of a step by phase, stacked; bits
/// per value.
void draw_bars(const std::vector<Group>& groups, Drawings& drawings);
/// Accuracy against bytes, with the Pareto front.
void draw_pareto(const std::vector<Group>& groups, Drawings& drawings);
/// The classes that each rank trained on, once for each kind of partition.
void draw_classes(const std::vector<Group>& groups, Drawings& drawings);
/// The confusion matrices of runs that were evaluated, one for each group.
void draw_confusions(const std::vector<Group>& groups, Drawings& drawings);

}  // namespace eqt::report
