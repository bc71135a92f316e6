/*
 * list.h - the kinds of block, in the order of a layer
 *
 * A line here makes a kind's declaration, its number, its place in block_kinds[] and its layer in
 * train/. To add one, write lib/model/block/NAME.c with block_NAME and train/layers/NAME.c with
 * layer_NAME.
 */
#ifndef MODEL_BLOCK_LIST_H
#define MODEL_BLOCK_LIST_H

#define BLOCKS(DO) \
	DO(embedding) \
	DO(mtp) \
	DO(attention) \
	DO(delta) \
	DO(mlp) \
	DO(moe) \
	DO(head)

/* BLOCK_rank stands for what belongs to no block. */
#define BLOCK_NUMBER(name) BLOCK_##name,
enum block_number { BLOCK_rank, BLOCKS(BLOCK_NUMBER) BLOCK_COUNT };
#undef BLOCK_NUMBER

#define BLOCK_DECLARED(name) extern const struct block_kind block_##name;
BLOCKS(BLOCK_DECLARED)
#undef BLOCK_DECLARED

#endif
