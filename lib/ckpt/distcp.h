/*
 * distcp.h - the file .metadata of torch.distributed.checkpoint: what a directory of .distcp files
 * holds
 *
 * A pickle that lists global tensors, the chunks of each, and where in which file each chunk is
 * stored: as a complete zip of torch.save with one tensor. Objects are stored as such zips too.
 * Source: torch/distributed/checkpoint/{metadata,filesystem}.py; docs/checkpoints.md 3.
 */
#ifndef CKPT_DISTCP_H
#define CKPT_DISTCP_H

#include "lib/base/mem.h"
#include "lib/ckpt/piece.h"

#include <stddef.h>

struct distcp_object {
	const char *name;
	int file;
	uint64_t offset, bytes; /* of its zip */
};

struct distcp {
	struct mem_pool pool; /* owns all below */
	/* Sorted by name. Their pieces are the chunks, which tile them; offset and bytes are those
	 * of its zip. A scalar is a tensor of one element. The dtype may be one that is not known
	 * (DTYPE_NONE). */
	int num_tensors;
	struct ckpt_tensor *tensor;
	int num_objects;
	struct distcp_object *object; /* sorted by name */
	int num_files;
	const char **file; /* plain names, sorted */
};

/* Parses and checks the bytes of .metadata; name is for messages. Offsets are not compared with
 * the sizes of files. Released by distcp_release in every case. */
int distcp_parse(struct distcp *d, const void *bytes, size_t len, const char *name, struct err *e);
void distcp_release(struct distcp *d);
const struct ckpt_tensor *distcp_tensor(const struct distcp *d, const char *name);   /* or NULL */
const struct distcp_object *distcp_object(const struct distcp *d, const char *name); /* or NULL */

#endif
