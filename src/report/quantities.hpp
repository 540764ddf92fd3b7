// SPDX-License-Identifier: Apache-2.0
// The figures that a report compares, each with its unit and its number of meaningful digits.

#pragma once

#include <span>

#include "report/run.hpp"
#include "report/table.hpp"

namespace eqt::report {

struct Quantity {
  const char* key;   // in CSV and JSON, in SI units and fractions
  const char* head;  // in tables for people
  Digits digits;
  double scale;  // from the key's unit to the head's
  bool main;     // of the first table; the others are details
  Figure (*of)(const Run&);
};

/// All of them, the most important first.
std::span<const Quantity> quantities();

/// Bytes that a rank sent on average.
Figure bytes_per_rank(const Run& run);

/// What the last evaluation of a run gave, from 0 to 1.
Figure test_accuracy(const Run& run);

}  // namespace eqt::report
