// SPDX-License-Identifier: Apache-2.0
// Makes tables, plots and an HTML page from run folders.

#pragma once

#include <string>
#include <vector>

#include "report/significance.hpp"

namespace eqt::report {

struct Request {
  std::vector<std::string> folders;  // run folders, or folders that contain some
  std::string out;                   // "" = "report" in the first folder
  std::vector<std::string> tables;   // published tables to compare with, of table_names()
  bool overwrite = false;            // also files that no report has written
  bool json = false;                 // the answer is JSON
  std::string format = "text";       // of the answer otherwise, of answer_formats()
  std::string steps;                 // "A:B" of the timeline; "" = the last ones
  Baseline baseline{};               // of tests of differences
  std::string defaults = {};         // a config with all keys at their defaults, as JSON; "": none
};

/// Notations of tables by name: "text", "markdown", "latex".
std::vector<std::string> answer_formats();

/// Published tables by name: "scalability", "accuracy", "decentralised".
std::vector<std::string> table_names();

/// Reads the runs, writes report.html, tables (.txt, .csv, .md, .tex) and plots (.svg, .png) to the
/// request's folder, and returns the text to print: the tables and the path of the rest, or JSON.
/// Without gnuplot there are no plots, and the text says so.
/// @throws Error{usage} for steps that are none, a baseline that no row has as its name, paths that
/// are no folders, runs of different data sets and for files in the way that no report has written,
/// Error{data} for runs that cannot be read, Error{output} if a file cannot be written
std::string make_report(const Request& request);

}  // namespace eqt::report
