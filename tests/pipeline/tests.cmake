# SPDX-License-Identifier: Apache-2.0
# unit/plan_test.cpp is a part of collective_unit.
eqt_mpi_test(engine RANKS 1 2 3 4 5 LINK eqt_train SOURCES mpi/engine_test.cpp)
