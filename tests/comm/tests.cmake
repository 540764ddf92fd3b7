# SPDX-License-Identifier: Apache-2.0
eqt_test(comm_unit LABEL unit LINK eqt_comm
  SOURCES unit/failure_test.cpp unit/host_facts_test.cpp unit/launch_test.cpp unit/link_delay_test.cpp
    unit/link_schedule_test.cpp unit/local_peers_test.cpp unit/fault_test.cpp)
# Each case is a process that ends by its deadline, which takes time.
eqt_test(watchdog_unit LABEL unit LINK eqt_comm SOURCES unit/watchdog_test.cpp)
eqt_mpi_test(comm RANKS 1 2 3 4 SOURCES mpi/comm_test.cpp)
eqt_mpi_test(host_memory RANKS 1 2 3 4 5 LINK eqt_collective SOURCES mpi/host_memory_test.cpp)
eqt_mpi_test(link_delay RANKS 1 2 3 4 SOURCES mpi/link_delay_test.cpp)
eqt_mpi_test(link_probe RANKS 1 2 3 4 SOURCES mpi/link_probe_test.cpp)
