# SPDX-License-Identifier: Apache-2.0
eqt_test(weights_unit LABEL unit LINK eqt_weights ZLIB::ZLIB
  SOURCES unit/safetensors_test.cpp unit/safetensors_writer_test.cpp unit/torch_writer_test.cpp
  ALONE unit/script_archive_test.cpp unit/state_dict_test.cpp unit/zip_archive_test.cpp)
