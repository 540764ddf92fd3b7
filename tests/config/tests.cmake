# SPDX-License-Identifier: Apache-2.0
eqt_test(config_unit LABEL unit LINK eqt_config
  SOURCES unit/auto_test.cpp unit/combinations_test.cpp unit/config_docs_test.cpp unit/board_speed_config_test.cpp
    unit/config_errors_test.cpp unit/config_files_test.cpp unit/facts_test.cpp unit/fine_tuning_config_test.cpp
    unit/gossip_config_test.cpp unit/graph_file_test.cpp unit/nearest_test.cpp unit/run_config_test.cpp
    unit/topology_config_test.cpp)
