/* nvml.h - the meters of a GPU, by the driver's management library, where the host has it */
#ifndef TRAIN_CUDA_NVML_H
#define TRAIN_CUDA_NVML_H

#include "train/backend.h"

struct nvml;

/* Of the GPU at a place on the PCI bus, "0000:3b:00.0". NULL where there is no library, or it does
 * not know the GPU. */
struct nvml *nvml_open(const char *bus_id);
void nvml_close(struct nvml *n);
/* Sets what this GPU has a meter for, and leaves the rest. */
void nvml_read(const struct nvml *n, struct meter *out);

#endif
