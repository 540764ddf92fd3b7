# SPDX-License-Identifier: Apache-2.0
# Properties of decentralised training.

eqt_mpi_test(gossip_oracle RANKS 2 3 4 5 8 LINK eqt_train SOURCES mpi/gossip_oracle_test.cpp)
eqt_mpi_test(gossip_mean RANKS 2 4 5 TIMEOUT 180 LINK eqt_train SOURCES mpi/gossip_mean_test.cpp)
eqt_mpi_test(gossip_equal RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/gossip_equal_test.cpp)
eqt_mpi_test(gossip_consensus RANKS 4 8 LINK eqt_train SOURCES mpi/gossip_consensus_test.cpp)
eqt_mpi_test(gossip_messages RANKS 2 3 LINK eqt_train SOURCES mpi/gossip_messages_test.cpp)
eqt_mpi_test(event_gossip RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/event_gossip_test.cpp)
eqt_mpi_test(delayed_gossip RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/delayed_gossip_test.cpp)
eqt_test(gossip_unit LABEL unit LINK eqt_sync SOURCES unit/sync/consensus_step_test.cpp)
eqt_test(gossip_contraction LABEL property LINK eqt_sync
  SOURCES property/sync/contraction_test.cpp property/sync/late_modes_test.cpp)
