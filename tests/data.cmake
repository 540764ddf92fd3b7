# SPDX-License-Identifier: Apache-2.0
eqt_test(data_unit LABEL unit LINK eqt_data ZLIB::ZLIB
  SOURCES unit/data/formats_test.cpp unit/data/image_set_test.cpp unit/data/synthetic_test.cpp
          unit/data/partition_test.cpp unit/data/skew_partition_test.cpp
          unit/data/batch_test.cpp unit/data/dirichlet_partition_test.cpp unit/data/loader_test.cpp unit/data/dataset_test.cpp)

eqt_test(data_property LABEL property LINK eqt_data SOURCES property/data/partition_test.cpp)

add_test(NAME data_script COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/unit/data/get_data_test.sh
         ${PROJECT_SOURCE_DIR}/scripts/get_data.sh)
set_tests_properties(data_script PROPERTIES LABELS unit TIMEOUT 60)
