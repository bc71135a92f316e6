/*
 * hosts.h - which ranks of a communicator share a host
 *
 * Pure arithmetic over the numbers of the hosts of ranks. Ranks of one host map each other's
 * memory; between hosts they go along a rail, the ranks with the same place in their hosts.
 */
#ifndef MODEL_HOSTS_H
#define MODEL_HOSTS_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/model/layout.h"

/*
 * The two levels of a communicator. Rank r is at `place` of the hosts' `own`, r = own * inside +
 * place. even: every host has `inside` of its ranks, neighbours from a multiple of `inside` on, and
 * there is one host, or `inside` is a power of two that divides a block of sums (lib/base/tree.h),
 * so that what a host adds is a subtree. Otherwise every rank is taken for a host of one.
 */
struct hosts {
	int count, own, inside, place;
	bool even;
};

/* Of a communicator whose rank r is on host[r], of which `rank` is asked for. Hosts are numbered
 * from 0 on. */
void hosts_of(struct hosts *h, const int *host, int size, int rank);

/* The host among `hosts` of a machine's rank number `local` of `size`, of which the first size /
 * hosts are on the first; -1, with the nearest number that does, where it does not divide them. */
int hosts_pretended(int local, int size, int64_t hosts, struct err *e);

/* Appends what is inside a host and what is between hosts, by axis, of rank 0 of a world whose rank
 * r is on host[r]: "16 hosts of 8 ranks; inside a host: tensor 2; between hosts: data 16". */
void hosts_words(const struct layout *l, const int *host, int size, struct str *out);

#endif
