# SPDX-License-Identifier: Apache-2.0
# What needs no LibTorch.
eqt_test(model_parts_unit LABEL unit LINK eqt_model eqt_hwy
  SOURCES unit/model/encoder_shape_test.cpp unit/model/mixup_test.cpp unit/model/norm_kernels_test.cpp)
eqt_test(int8_network_unit LABEL unit TIMEOUT 300 LINK eqt_model eqt_int8
  SOURCES unit/model/int8_layers_test.cpp unit/model/int8_network_test.cpp)
eqt_test(float32_network_unit LABEL unit TIMEOUT 300 LINK eqt_model eqt_int8 eqt_hwy
  SOURCES unit/model/float_convolution_test.cpp unit/model/float32_network_test.cpp)
eqt_test(int8_norm_unit LABEL unit LINK eqt_model eqt_int8 eqt_hwy
  SOURCES unit/model/float_gradient_test.cpp unit/model/int8_norm_test.cpp support/norm_oracle.cpp)
if(NOT TARGET eqt_torch)
  return()
endif()

eqt_test(model_unit LABEL unit TIMEOUT 300 LINK eqt_networks eqt_hwy
  SOURCES unit/model/bert_test.cpp unit/model/board_speed_test.cpp unit/model/emulated_replica_test.cpp
          unit/model/export_test.cpp unit/model/float32_beside_torch_test.cpp
          unit/model/frozen_test.cpp unit/model/int8_beside_torch_test.cpp
  ALONE unit/model/bf16_test.cpp unit/model/mirror_test.cpp unit/model/plain_network_test.cpp
        unit/model/replica_test.cpp unit/model/weights_test.cpp)
# Separate, because it does not use the torch-free interface.
eqt_test(model_torch LABEL unit LINK eqt_networks eqt_torch eqt_hwy
  SOURCES unit/model/batch_norm_test.cpp unit/model/cpu_allocator_test.cpp unit/model/layers_test.cpp
          support/norm_oracle.cpp
  ALONE unit/model/normalization_test.cpp unit/model/script_network_test.cpp unit/model/task_test.cpp)

# Compared with Python's LibTorch: Debian's python3-torch, which another python3 in PATH may hide.
find_program(EQT_TORCH_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(EQT_TORCH_PYTHON)
  add_executable(weights_tool e2e/weights_tool.cpp)
  target_include_directories(weights_tool PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(weights_tool PRIVATE eqt_networks eqt_options)
  add_test(NAME model_weights_interop
    COMMAND ${EQT_TORCH_PYTHON} ${PROJECT_SOURCE_DIR}/tests/e2e/weights_interop.py
            $<TARGET_FILE:weights_tool>)
  add_executable(encoder_tool unit/model/encoder_tool.cpp)
  target_link_libraries(encoder_tool PRIVATE eqt_networks eqt_torch eqt_hwy eqt_options)
  add_test(NAME model_encoder
    COMMAND ${EQT_TORCH_PYTHON} ${PROJECT_SOURCE_DIR}/tests/unit/model/encoder_reference.py
            $<TARGET_FILE:encoder_tool>)
  add_test(NAME model_encoder_transformers
    COMMAND ${EQT_TORCH_PYTHON} ${PROJECT_SOURCE_DIR}/tests/unit/model/encoder_reference.py
            $<TARGET_FILE:encoder_tool> transformers)
  set_tests_properties(model_weights_interop model_encoder model_encoder_transformers PROPERTIES LABELS e2e TIMEOUT 120
    ENVIRONMENT "OMP_NUM_THREADS=1" SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")
endif()

# Not a test: run by hand.
add_executable(train_throughput bench/train_throughput.cpp)
target_include_directories(train_throughput PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(train_throughput PRIVATE eqt_networks eqt_options)

add_executable(norm_throughput bench/norm_throughput.cpp)
target_include_directories(norm_throughput PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(norm_throughput PRIVATE eqt_networks eqt_torch eqt_options)

add_executable(gradient_fidelity bench/gradient_fidelity.cpp)
target_include_directories(gradient_fidelity PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(gradient_fidelity PRIVATE eqt_networks eqt_data eqt_options)
