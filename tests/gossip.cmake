# What decentralised training promises.

eqt_mpi_test(gossip_oracle RANKS 2 3 4 5 8 LINK eqt_train SOURCES mpi/gossip_oracle_test.cpp)
eqt_mpi_test(gossip_mean RANKS 2 4 5 LINK eqt_train SOURCES mpi/gossip_mean_test.cpp)
