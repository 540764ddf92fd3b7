# SPDX-License-Identifier: Apache-2.0
eqt_test(checkpoint_unit LABEL unit LINK eqt_checkpoint eqt_xxhash
  SOURCES unit/state_file_test.cpp unit/memory_folder_test.cpp unit/places_test.cpp unit/state_folder_test.cpp)
eqt_mpi_test(saved_set RANKS 1 2 3 4 LINK eqt_checkpoint SOURCES mpi/saved_set_test.cpp)
