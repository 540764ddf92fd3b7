# SPDX-License-Identifier: Apache-2.0
eqt_test(device_unit LABEL unit LINK eqt_device eqt_hwy nlohmann_json::nlohmann_json
  SOURCES unit/gradient_encoder_test.cpp unit/kernels_test.cpp)
if(NOT EQT_ONLY_PORTABLE)
  eqt_mpi_test(device_gradient RANKS 1 2 3 LINK eqt_train SOURCES mpi/device_gradient_test.cpp)
endif()

# On a CUDA device; scripts/test_cuda.sh builds it without CMake.
if(EQT_CUDA)
  find_package(CUDAToolkit REQUIRED)
  eqt_tool(device_check LINK eqt_device_cuda CUDA::cudart_static SOURCES device_check.cpp)
  add_test(NAME device_check COMMAND device_check --quick)
  set_tests_properties(device_check PROPERTIES LABELS unit TIMEOUT 300 SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")
endif()
