# SPDX-License-Identifier: Apache-2.0
eqt_test(core_unit LABEL unit LINK eqt_core SOURCES
  unit/core/catalogue_test.cpp
  unit/core/checked_test.cpp
  unit/core/exact_sum_test.cpp
  unit/core/flat_buffer_test.cpp
  unit/core/gamma_test.cpp
  unit/core/instructions_test.cpp
  unit/core/pattern_test.cpp
  unit/core/random_test.cpp
  unit/core/thread_clock_test.cpp unit/core/visible_test.cpp unit/core/whole_file_test.cpp
  unit/core/worker_threads_test.cpp)
