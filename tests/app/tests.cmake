# SPDX-License-Identifier: Apache-2.0
eqt_test(app_unit LABEL unit LINK eqt_app eqt_networks eqt_data
  SOURCES unit/run_folder_test.cpp unit/sample_grid_test.cpp unit/starting_config_test.cpp)
if(NOT EQT_ONLY_PORTABLE)
  set(float_networks)  # tests that check or measure them
  if(EQT_TORCH)
    set(float_networks unit/check_test.cpp unit/evaluate_test.cpp)
  endif()
  eqt_test(verbs_unit LABEL unit
    LINK eqt_app eqt_networks eqt_analyze eqt_bench eqt_config eqt_doctor nlohmann_json::nlohmann_json
    SOURCES ${float_networks} unit/command_line_test.cpp unit/resume_test.cpp)
endif()
