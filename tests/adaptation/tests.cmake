# SPDX-License-Identifier: Apache-2.0
eqt_test(grades_unit LABEL unit LINK eqt_adaptation
  SOURCES unit/grade_adaptation_test.cpp unit/grade_choice_test.cpp unit/gradient_noise_test.cpp
    unit/link_slowdown_test.cpp)
# The table of level adaptation, by averaged gradients and by gossip.
eqt_mpi_test(adaptation RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/adaptation_test.cpp)
eqt_mpi_test(gossip_adaptation RANKS 2 3 4 LINK eqt_train SOURCES mpi/gossip_adaptation_test.cpp)
eqt_mpi_test(grade_adaptation RANKS 1 2 3 LINK eqt_train SOURCES mpi/grade_adaptation_test.cpp)
