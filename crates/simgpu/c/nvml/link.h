// Links of a GPU: constants that several parts tell.
#pragma once

#define PCIE_GENERATION 5
#define PCIE_WIDTH 16
#define NVLINKS 18
#define NVLINK_VERSION 4
#define NVLINK_MB_PER_S 26562
