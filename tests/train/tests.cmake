# SPDX-License-Identifier: Apache-2.0
eqt_test(train_unit LABEL unit LINK eqt_train
  SOURCES unit/batch_allocation_test.cpp unit/selection_test.cpp
    ../sync/unit/step_profile_test.cpp unit/weight_average_test.cpp unit/workers_test.cpp)
eqt_mpi_test(trainer RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/trainer_test.cpp)
eqt_mpi_test(batch_balancer RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/batch_balancer_test.cpp)
eqt_mpi_test(evaluator RANKS 1 2 3 4 5 LINK eqt_train eqt_xxhash SOURCES mpi/evaluator_test.cpp)
eqt_mpi_test(folder_checkpointer RANKS 1 2 3 LINK eqt_train SOURCES mpi/folder_checkpointer_test.cpp)
eqt_mpi_test(health_check RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/health_check_test.cpp)
