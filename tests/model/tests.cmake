# SPDX-License-Identifier: Apache-2.0
# What needs no LibTorch.
eqt_test(model_parts_unit LABEL unit LINK eqt_model eqt_hwy
  SOURCES unit/depthwise_kernels_test.cpp unit/encoder_shape_test.cpp unit/gelu_kernels_test.cpp unit/mixup_test.cpp unit/network_graph_test.cpp unit/norm_kernels_test.cpp
    unit/pool_kernels_test.cpp unit/position_table_test.cpp unit/token_passes_test.cpp unit/whitening_test.cpp unit/dense_test.cpp)
if(TARGET eqt_found_onnx)
  eqt_test(onnx_unit LABEL unit LINK eqt_model eqt_weights eqt_found_onnx SOURCES unit/onnx_file_test.cpp)
endif()
eqt_test(int8_network_unit LABEL unit TIMEOUT 300 LINK eqt_model eqt_int8
  SOURCES unit/int8_layers_test.cpp unit/int8_network_test.cpp)
eqt_test(float32_network_unit LABEL unit TIMEOUT 300 LINK eqt_model eqt_int8 eqt_hwy
  SOURCES unit/float_convolution_test.cpp unit/float32_network_test.cpp)
eqt_test(int8_norm_unit LABEL unit LINK eqt_model eqt_int8 eqt_hwy
  SOURCES unit/float_gradient_test.cpp unit/int8_norm_test.cpp ../support/norm_oracle.cpp)
if(NOT TARGET eqt_torch)
  return()
endif()

set(exports_to_onnx)
if(TARGET eqt_found_onnx)
  set(exports_to_onnx unit/onnx_export_test.cpp)
endif()
eqt_test(model_unit LABEL unit TIMEOUT 300 LINK eqt_networks eqt_hwy
  SOURCES unit/airbench_test.cpp unit/bert_test.cpp unit/board_speed_test.cpp unit/emulated_replica_test.cpp unit/export_test.cpp
    unit/float32_beside_torch_test.cpp unit/frozen_test.cpp unit/int8_beside_torch_test.cpp unit/mlp_test.cpp unit/mobile_network_test.cpp ${exports_to_onnx}
  ALONE unit/bf16_test.cpp unit/mirror_test.cpp unit/plain_network_test.cpp unit/replica_test.cpp
    unit/weights_test.cpp)
# Separate, because it does not use the torch-free interface.
eqt_test(model_torch LABEL unit LINK eqt_networks eqt_torch eqt_hwy
  SOURCES unit/batch_norm_test.cpp unit/cpu_allocator_test.cpp unit/layers_test.cpp ../support/norm_oracle.cpp
  ALONE unit/normalization_test.cpp unit/script_network_test.cpp unit/task_test.cpp)

# Compared with Python's LibTorch: Debian's python3-torch, which another python3 in PATH may hide.
find_program(EQT_TORCH_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(EQT_TORCH_PYTHON)
  eqt_tool(weights_tool LINK eqt_networks SOURCES ../e2e/weights_tool.cpp)
  add_test(NAME model_weights_interop
    COMMAND ${EQT_TORCH_PYTHON} ${PROJECT_SOURCE_DIR}/tests/e2e/weights_interop.py $<TARGET_FILE:weights_tool>)
  eqt_tool(encoder_tool LINK eqt_networks eqt_torch eqt_hwy SOURCES unit/encoder_tool.cpp)
  eqt_precompile_test(encoder_tool eqt_torch)
  set(encoder_reference ${CMAKE_CURRENT_LIST_DIR}/unit/encoder_reference.py $<TARGET_FILE:encoder_tool>)
  add_test(NAME model_encoder COMMAND ${EQT_TORCH_PYTHON} ${encoder_reference})
  add_test(NAME model_encoder_transformers COMMAND ${EQT_TORCH_PYTHON} ${encoder_reference} transformers)
  eqt_tool(network_tool LINK eqt_networks eqt_torch eqt_hwy SOURCES unit/network_tool.cpp)
  eqt_precompile_test(network_tool eqt_torch)
  set(network_reference ${CMAKE_CURRENT_LIST_DIR}/unit/network_reference.py $<TARGET_FILE:network_tool>)
  add_test(NAME model_networks COMMAND ${EQT_TORCH_PYTHON} ${network_reference})
  add_test(NAME model_networks_libraries COMMAND ${EQT_TORCH_PYTHON} ${network_reference} libraries)
  set_tests_properties(model_weights_interop model_encoder model_encoder_transformers model_networks model_networks_libraries PROPERTIES LABELS e2e TIMEOUT 120
    ENVIRONMENT "OMP_NUM_THREADS=1" SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")
endif()
