# SPDX-License-Identifier: Apache-2.0
eqt_test(optim_unit LABEL unit LINK eqt_optim
  SOURCES unit/adamw_test.cpp unit/rules_test.cpp
  ALONE unit/muon_test.cpp unit/schedule_test.cpp unit/sgd_test.cpp)

# Separate, because only this one includes LibTorch's headers.
if(TARGET eqt_torch)
  eqt_test(optim_torch LABEL unit LINK eqt_optim eqt_torch SOURCES unit/torch_test.cpp)
endif()
