/*
 * adapter.h - an adapter of PEFT: its config, and what it does to the tensors of a model
 *
 * adapter_config.json and adapter_model.safetensors, or adapter_model.bin. A pair of matrices adds
 * to a tensor of the model; a tensor of its own replaces one. What would make another model than
 * PEFT's merge_and_unload is refused by name. Source: huggingface/peft 0.21,
 * src/peft/tuners/lora/layer.py, src/peft/utils/save_and_load.py.
 */
#ifndef CKPT_ADAPTER_H
#define CKPT_ADAPTER_H

#include "lib/base/str.h"
#include "lib/ckpt/torchzip.h"

#include <stdbool.h>

/*
 * What becomes of a tensor of the model's file. W is [out, in], A [r, in], B [out, r]; of an
 * embedding, whose rows are inputs, W is [in, out]: W + scale (B A)^T.
 */
struct adapter_change {
	char *name; /* of the tensor */
	bool embedding;
	double scale; /* of the pair */
	/* of no type: not there */
	struct torch_tensor a, b, replacement;
	bool used;
};

struct adapter;

struct adapter_rule {
	/* the base has been changed as the initialisation of the adapter changes it */
	bool base_is_residual;
};

struct adapter *adapter_open(const char *dir, const struct adapter_rule *rule, struct err *e);
void adapter_close(struct adapter *a);      /* NULL is ignored */
int adapter_count(const struct adapter *a); /* of changes */
struct adapter_change *adapter_at(struct adapter *a, int i);
/* The change of a tensor of this name, with the prefix of another program or without; NULL: none.
 */
struct adapter_change *adapter_find(struct adapter *a, const char *name);
int adapter_num_tensors(const struct adapter *a);
/* A sum of the file's bytes. */
uint64_t adapter_hash(const struct adapter *a);

#endif
