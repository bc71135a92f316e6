/*
 * hf_decode.h - quantised tensors of Hugging Face's files, which are decoded when they are read
 *
 *   X      F8_E4M3 [..., o, i]           blocks of fp8: each has one factor
 *   X_scale_inv, or X_scale              the factors, one a block of the last two dimensions:
 *                                        [..., ceil(o/rows), ceil(i/columns)]; or one for all
 *   X_blocks  U8 [..., o, i/32, 16]      MXFP4: byte b of a group of 32 along the input holds
 *                                        element 2b in its low and 2b + 1 in its high half
 *   X_scales  U8 [..., o, i/32]          the exponent of a group's factor, plus 127
 *
 * An element is its code's number times its factor, in FP32. Source: finegrained_fp8.py and
 * mxfp4.py of huggingface/transformers; OCP Microscaling Formats (MX) 1.0.
 */
#ifndef CKPT_HF_DECODE_H
#define CKPT_HF_DECODE_H

#include "lib/base/mem.h"
#include "lib/ckpt/hf_tensor.h"
#include "lib/model/family.h"

/* Finds the quantised tensors among those of a directory, sorted by name: a tensor and its factors
 * become one, and those with a new name get it. Returns how many tensors there are then, not
 * sorted; *decoded counts those that were joined. What is quantised, but not as `how` says it, is a
 * tensor with the reason. pool has the texts and tables. */
int hf_decode_find(struct hfdir_tensor *tensor, int count, const struct config_quantised *how,
    struct mem_pool *pool, int *decoded);
/* A box of the decoded tensor, in FP32 or rounded once to BF16, row-major and dense. -1 when it has
 * a factor that means no number. */
int hf_decode_read(
    const struct hf_decode *d, const struct slice *box, enum dtype as, void *dst, struct err *e);

#endif
