# SPDX-License-Identifier: Apache-2.0
eqt_test(optim_unit LABEL unit LINK eqt_optim
  SOURCES unit/optim/adamw_test.cpp unit/optim/rules_test.cpp
  ALONE unit/optim/schedule_test.cpp unit/optim/sgd_test.cpp)

# Separate, because only this one includes LibTorch's headers.
if(TARGET eqt_torch)
  eqt_test(optim_torch LABEL unit LINK eqt_optim eqt_torch SOURCES unit/optim/torch_test.cpp)
endif()
