# SPDX-License-Identifier: Apache-2.0
eqt_test(device_unit LABEL unit LINK eqt_device eqt_hwy nlohmann_json::nlohmann_json SOURCES
  unit/device/gradient_encoder_test.cpp unit/device/kernels_test.cpp)
if(EQT_CUDA)
  find_package(CUDAToolkit REQUIRED)
  add_executable(device_check device/device_check.cpp)
  target_include_directories(device_check PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(device_check PRIVATE eqt_device_cuda CUDA::cudart_static eqt_options)
  add_test(NAME device_check COMMAND device_check --quick)
  set_tests_properties(device_check PROPERTIES LABELS unit TIMEOUT 300 SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")
endif()
