# SPDX-License-Identifier: Apache-2.0
eqt_test(weights_unit LABEL unit LINK eqt_weights ZLIB::ZLIB
  SOURCES unit/weights/safetensors_test.cpp unit/weights/safetensors_writer_test.cpp unit/weights/torch_writer_test.cpp
  ALONE unit/weights/script_archive_test.cpp unit/weights/state_dict_test.cpp unit/weights/zip_archive_test.cpp)
