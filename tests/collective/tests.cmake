# SPDX-License-Identifier: Apache-2.0
eqt_test(collective_unit LABEL unit LINK eqt_collective
  SOURCES unit/memory_test.cpp ../pipeline/unit/plan_test.cpp unit/message_test.cpp
  ALONE unit/cost_test.cpp unit/ef21_test.cpp)
eqt_test(collective_simple_unit LABEL unit LINK eqt_collective SOURCES unit/sign_memory_test.cpp)
eqt_test(collective_laws LABEL property LINK eqt_collective SOURCES property/rounds_test.cpp)

eqt_mpi_test(collective RANKS 1 2 3 4 LINK eqt_collective SOURCES mpi/collective_test.cpp)
eqt_mpi_test(hierarchical RANKS 1 2 3 4 5 8 LINK eqt_collective SOURCES mpi/hierarchical_test.cpp)
eqt_mpi_test(partial_sums RANKS 1 2 3 4 5 7 8 LINK eqt_collective SOURCES mpi/partial_sums_test.cpp)
eqt_mpi_test(partial_sums_error RANKS 1 2 3 4 5 7 8 LINK eqt_collective SOURCES mpi/partial_sums_error_test.cpp)
eqt_mpi_test(integer RANKS 1 2 3 4 5 8 LINK eqt_collective SOURCES mpi/integer_test.cpp)
eqt_mpi_test(sparse RANKS 1 2 3 4 5 8 LINK eqt_train SOURCES mpi/sparse_test.cpp)
eqt_mpi_test(vote RANKS 1 2 3 4 5 LINK eqt_collective eqt_optim SOURCES mpi/vote_test.cpp)
eqt_mpi_test(ef21 RANKS 1 2 3 4 5 LINK eqt_train SOURCES mpi/ef21_test.cpp)
eqt_mpi_test(power_sgd RANKS 1 2 3 4 LINK eqt_train nlohmann_json::nlohmann_json SOURCES mpi/power_sgd_test.cpp)
target_compile_definitions(power_sgd PRIVATE EQT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
