# SPDX-License-Identifier: Apache-2.0
eqt_mpi_test(comm RANKS 1 2 3 4 SOURCES mpi/comm_test.cpp)
eqt_mpi_test(damage RANKS 2 3 4 LINK eqt_train SOURCES mpi/damage_test.cpp)
eqt_mpi_test(host_memory RANKS 1 2 3 4 5 LINK eqt_collective SOURCES mpi/host_memory_test.cpp)
eqt_mpi_test(link_delay RANKS 1 2 3 4 SOURCES mpi/link_delay_test.cpp)
eqt_mpi_test(link_probe RANKS 1 2 3 4 SOURCES mpi/link_probe_test.cpp)
eqt_mpi_test(same_topology RANKS 1 2 3 4
  LINK eqt_setup eqt_networks eqt_topology
  SOURCES mpi/same_topology_test.cpp mpi/gossip_graphs_test.cpp)
eqt_mpi_test(collective RANKS 1 2 3 4 LINK eqt_collective SOURCES mpi/collective_test.cpp)
eqt_mpi_test(engine RANKS 1 2 3 4 5 LINK eqt_train SOURCES mpi/engine_test.cpp)
eqt_mpi_test(device_gradient RANKS 1 2 3 LINK eqt_train SOURCES mpi/device_gradient_test.cpp)
eqt_mpi_test(ef21 RANKS 1 2 3 4 5 LINK eqt_train SOURCES mpi/ef21_test.cpp)
eqt_mpi_test(timeline RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/timeline_test.cpp)
eqt_mpi_test(trainer RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/trainer_test.cpp)
eqt_mpi_test(batch_balancer RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/batch_balancer_test.cpp)
eqt_mpi_test(local_sgd RANKS 1 2 3 4 LINK eqt_train eqt_xxhash
  SOURCES mpi/local_sgd_test.cpp mpi/local_sgd_fragments_test.cpp)
eqt_mpi_test(quorum RANKS 1 2 3 4 LINK eqt_train eqt_xxhash SOURCES mpi/quorum_test.cpp)
eqt_mpi_test(lazy_averaging RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/lazy_averaging_test.cpp)
eqt_mpi_test(gossip_adaptation RANKS 2 3 4 LINK eqt_train
  SOURCES mpi/gossip_adaptation_test.cpp)
eqt_mpi_test(evaluator RANKS 1 2 3 4 5 LINK eqt_train eqt_xxhash SOURCES mpi/evaluator_test.cpp)
eqt_mpi_test(final_rounds RANKS 2 3 4 5 8 LINK eqt_train SOURCES mpi/final_rounds_test.cpp)
eqt_mpi_test(health_check RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/health_check_test.cpp)
eqt_mpi_test(adaptation RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/adaptation_test.cpp)
eqt_mpi_test(grade_adaptation RANKS 1 2 3 LINK eqt_train SOURCES mpi/grade_adaptation_test.cpp)
eqt_mpi_test(simulated_averaging RANKS 1 2 3 4 LINK eqt_train eqt_decoders
  SOURCES mpi/simulated_averaging_test.cpp)
eqt_mpi_test(power_sgd RANKS 1 2 3 4 LINK eqt_train nlohmann_json::nlohmann_json
  SOURCES mpi/power_sgd_test.cpp)
target_compile_definitions(power_sgd PRIVATE EQT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
eqt_mpi_test(hierarchical RANKS 1 2 3 4 5 8 LINK eqt_collective SOURCES mpi/hierarchical_test.cpp)
eqt_mpi_test(vote RANKS 1 2 3 4 5 LINK eqt_collective eqt_optim SOURCES mpi/vote_test.cpp)
eqt_mpi_test(sparse RANKS 1 2 3 4 5 8 LINK eqt_train SOURCES mpi/sparse_test.cpp)

eqt_test(collective_unit LABEL unit LINK eqt_collective SOURCES
  unit/collective/memory_test.cpp unit/pipeline/plan_test.cpp unit/collective/message_test.cpp
  ALONE unit/collective/cost_test.cpp unit/collective/ef21_test.cpp)
eqt_test(collective_laws LABEL property LINK eqt_collective SOURCES property/collective/rounds_test.cpp)
eqt_test(train_unit LABEL unit LINK eqt_train SOURCES
  unit/train/batch_allocation_test.cpp unit/comm/fault_test.cpp unit/train/selection_test.cpp unit/sync/step_profile_test.cpp
  unit/train/weight_average_test.cpp
  unit/train/workers_test.cpp)
eqt_test(collective_simple_unit LABEL unit LINK eqt_collective SOURCES
  unit/collective/sign_memory_test.cpp)
eqt_test(step_model LABEL unit LINK eqt_setup eqt_networks SOURCES
  unit/setup/choose_by_cost_test.cpp unit/setup/choose_device_test.cpp unit/setup/mixed_ranks_test.cpp
  unit/setup/named_files_test.cpp unit/setup/step_model_test.cpp)
eqt_test(grades_unit LABEL unit LINK eqt_adaptation SOURCES
  unit/adaptation/grade_adaptation_test.cpp unit/adaptation/grade_choice_test.cpp
  unit/adaptation/gradient_noise_test.cpp unit/adaptation/link_slowdown_test.cpp)
eqt_test(comm_unit LABEL unit LINK eqt_comm SOURCES
  unit/comm/failure_test.cpp unit/comm/host_facts_test.cpp unit/comm/launch_test.cpp unit/comm/link_delay_test.cpp unit/comm/link_schedule_test.cpp unit/comm/local_peers_test.cpp)
# Each case is a process that ends by its deadline, which takes time.
eqt_test(watchdog_unit LABEL unit LINK eqt_comm SOURCES unit/comm/watchdog_test.cpp)

eqt_mpi_test(partial_sums RANKS 1 2 3 4 5 7 8 LINK eqt_collective
  SOURCES mpi/partial_sums_test.cpp)
eqt_mpi_test(partial_sums_error RANKS 1 2 3 4 5 7 8 LINK eqt_collective
  SOURCES mpi/partial_sums_error_test.cpp)
eqt_mpi_test(integer RANKS 1 2 3 4 5 8 LINK eqt_collective SOURCES mpi/integer_test.cpp)
