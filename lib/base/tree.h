/*
 * tree.h - the one order in which terms are added
 *
 * Whatever is added over ranks, hosts or slots is added as S, so that neither their number on a
 * host nor a library chooses bits. S of the terms x[0] .. x[n - 1], in the order of their slots,
 * cuts them into blocks of TREE_TERMS; the sum of a block is T, and the sums of the blocks are
 * added from the left. T of one term is the term; of n terms it is T(x[0] .. x[p - 1]) + T(x[p] ..
 * x[n - 1]), p the largest power of two below n. So a host that holds an aligned run of 2^k terms
 * adds a subtree alone, and the next block is added to the sum so far.
 *
 * T is computed as a binary counter counts: term k is joined with the sums at levels 0, 1, ... as
 * long as the bits of k are set, from level 0 up, and their sum is kept at the first level whose
 * bit is not. At the end the sums at the levels whose bits are set in n are joined, from the lowest
 * up. Every addition is earlier + later, and a term that is missing is left out: a zero in its
 * place would turn -0 into +0.
 */
#ifndef LIB_BASE_TREE_H
#define LIB_BASE_TREE_H

/* Terms of a block, and the most subtrees that wait at a time, one of each power of two. */
enum { TREE_TERMS = 16, TREE_LEVELS = 5 };

#endif
