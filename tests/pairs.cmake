# SPDX-License-Identifier: Apache-2.0
# Averaging in pairs: rooms topology, sync and train.

eqt_test(pairs_unit LABEL unit LINK eqt_sync
  SOURCES unit/sync/pair_note_test.cpp unit/sync/pair_roles_test.cpp
          unit/sync/shared_model_test.cpp)
eqt_mpi_test(asynchronous_gossip RANKS 1 2 3 4 6 LINK eqt_train
  SOURCES mpi/asynchronous_gossip_test.cpp)
