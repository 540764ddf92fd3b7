# SPDX-License-Identifier: Apache-2.0
eqt_test(step_model LABEL unit LINK eqt_setup eqt_networks
  SOURCES unit/choose_by_cost_test.cpp unit/choose_device_test.cpp unit/mixed_ranks_test.cpp unit/named_files_test.cpp
    unit/step_model_test.cpp)
eqt_mpi_test(same_topology RANKS 1 2 3 4 LINK eqt_setup eqt_networks eqt_topology
  SOURCES mpi/same_topology_test.cpp mpi/gossip_graphs_test.cpp)
eqt_mpi_test(message_rate RANKS 1 2 LINK eqt_setup eqt_networks SOURCES mpi/message_rate_test.cpp)
