/*
 * megatron_dir.h - finding a checkpoint of Megatron-LM
 *
 *   SAVE/latest_checkpointed_iteration.txt    a decimal iteration, or the word release
 *   SAVE/iter_0000500/  or  SAVE/release/     the checkpoint
 */
#ifndef CKPT_MEGATRON_DIR_H
#define CKPT_MEGATRON_DIR_H

#include "lib/base/io.h"

#include <stdbool.h>

/* The checkpoint that path is, or that its tracker names: a directory with an entry whose name
 * begins with this. */
bool megatron_find_dir(const char *path, const char *entry, char out[IO_PATH]);

#endif
