/*
 * distcp_dir.h - reads what torch.distributed.checkpoint wrote into a directory
 *
 * Files are mapped, and their pages given back. For one thread at a time.
 */
#ifndef CKPT_DISTCP_DIR_H
#define CKPT_DISTCP_DIR_H

#include "lib/base/io.h"
#include "lib/base/map.h"
#include "lib/ckpt/distcp.h"
#include "lib/ckpt/torchzip.h"

struct distcp_dir {
	char path[IO_PATH];
	struct distcp d;
	uint64_t sum;    /* XXH3-64 of .metadata */
	struct map *map; /* by file */
	/* the chunk that was read last: many small reads are of one */
	const struct ckpt_piece *chunk;
	struct torchzip *zip;
	struct torch_tensor tensor;
	/* by chunk, in the order of the tensors: it was compared with its checksum, or need not be
	 */
	bool *compared;
	int64_t *first; /* [num_tensors + 1]: the number of each tensor's first chunk */
};

/* Every chunk must lie inside its file. distcp_close in every case. */
int distcp_open(struct distcp_dir *dir, const char *path, struct err *e);
void distcp_close(struct distcp_dir *dir);
/* A box of a tensor of a known dtype, row-major and dense, in that dtype. A chunk is compared with
 * its checksum when it is first read; -1 then too. */
int distcp_read(struct distcp_dir *dir, const struct ckpt_tensor *t, const struct slice *slice,
    void *dst, struct err *e);
/* The zip that an object is; closed by the caller, before the directory. */
struct torchzip *distcp_load(
    const struct distcp_dir *dir, const struct distcp_object *o, struct err *e);
/* Reads every chunk and object, and compares the sums of their zips: adds a line to problems for
 * each that is damaged, and returns how many are. */
int distcp_verify(const struct distcp_dir *dir, struct str *problems);
/* For many ranks that read one checkpoint: compares this rank's share of the chunks, and relies on
 * the others for the rest. */
int distcp_check_share(struct distcp_dir *dir, int rank, int num_ranks, struct err *e);

#endif
