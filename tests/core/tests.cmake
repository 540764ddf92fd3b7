# SPDX-License-Identifier: Apache-2.0
eqt_test(core_unit LABEL unit LINK eqt_core
  SOURCES unit/catalogue_test.cpp unit/checked_test.cpp unit/exact_sum_test.cpp unit/flat_buffer_test.cpp
    unit/gamma_test.cpp unit/instructions_test.cpp unit/pattern_test.cpp unit/random_test.cpp unit/strata_test.cpp
    unit/thread_clock_test.cpp unit/visible_test.cpp unit/whole_file_test.cpp unit/worker_threads_test.cpp)
