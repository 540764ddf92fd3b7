# SPDX-License-Identifier: Apache-2.0
# unit/step_profile_test.cpp is a part of train_unit.
eqt_test(gossip_unit LABEL unit LINK eqt_sync SOURCES unit/consensus_step_test.cpp)
eqt_test(gossip_contraction LABEL property LINK eqt_sync
  SOURCES property/contraction_test.cpp property/late_modes_test.cpp)

# Properties of decentralised training.
eqt_mpi_test(gossip_oracle RANKS 2 3 4 5 8 LINK eqt_train SOURCES mpi/gossip_oracle_test.cpp)
eqt_mpi_test(gossip_mean TIMEOUT 180 RANKS 2 4 5 LINK eqt_train SOURCES mpi/gossip_mean_test.cpp)
eqt_mpi_test(gossip_equal RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/gossip_equal_test.cpp)
eqt_mpi_test(gossip_consensus RANKS 4 8 LINK eqt_train SOURCES mpi/gossip_consensus_test.cpp)
eqt_mpi_test(gossip_messages RANKS 2 3 LINK eqt_train SOURCES mpi/gossip_messages_test.cpp)
eqt_mpi_test(event_gossip RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/event_gossip_test.cpp)
eqt_mpi_test(delayed_gossip RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/delayed_gossip_test.cpp)
eqt_mpi_test(final_rounds RANKS 2 3 4 5 8 LINK eqt_train SOURCES mpi/final_rounds_test.cpp)

# Averaging in pairs.
eqt_test(pairs_unit LABEL unit LINK eqt_sync
  SOURCES unit/pair_note_test.cpp unit/pair_roles_test.cpp unit/shared_model_test.cpp)
eqt_mpi_test(asynchronous_gossip RANKS 1 2 3 4 6 LINK eqt_train SOURCES mpi/asynchronous_gossip_test.cpp)

eqt_mpi_test(local_sgd RANKS 1 2 3 4 LINK eqt_train eqt_xxhash
  SOURCES mpi/local_sgd_test.cpp mpi/local_sgd_fragments_test.cpp)
eqt_mpi_test(quorum RANKS 1 2 3 4 LINK eqt_train eqt_xxhash SOURCES mpi/quorum_test.cpp)
eqt_mpi_test(lazy_averaging RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/lazy_averaging_test.cpp)
eqt_mpi_test(simulated_averaging TIMEOUT 120 RANKS 1 2 3 4 LINK eqt_sync eqt_decoders SOURCES mpi/simulated_averaging_test.cpp)
eqt_mpi_test(timeline RANKS 1 2 3 4 LINK eqt_train SOURCES mpi/timeline_test.cpp)
# Every collective of the room collective, every kind of gossip and every message of the start.
eqt_mpi_test(damage RANKS 2 3 4 LINK eqt_train SOURCES mpi/damage_test.cpp)
