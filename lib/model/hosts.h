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

/* Where the ranks of the world are: rank r on host[r], or, where that is NULL, equally many
 * neighbours on each. */
struct host_places {
	const int *host;
	int64_t ranks_per_host;
};
int host_of(const struct host_places *where, int64_t rank);

/* The hosts on which the ranks lie that hold the experts of a layer once together
 * (layout.expert_hosts); 1 where these are on one, where some of them are not even, and where ranks
 * that share an expert are on several. */
int64_t hosts_of_experts(const struct layout *l, const struct host_places *where);

/* The hosts on which data ranks lie, as many neighbours on each, of the first group; 1 where they
 * are on one, and where they are not even. */
int64_t hosts_of_data(const struct layout *l, const struct host_places *where);

/* Whether groups of `size` ranks, each `stride` after the one before it, have two levels on hosts
 * of so many neighbours, a multiple of stride (docs/parallelism.md 9): on several hosts, and
 * several on each. host 0: all ranks are on one. */
bool hosts_two_levels(int64_t size, int64_t stride, int64_t host);

/* Whether any ranks that hold the experts of a layer once together are on several hosts. */
bool hosts_part_experts(const struct layout *l, const struct host_places *where);

/* Of a communicator whose rank r is on host[r], of which `rank` is asked for. Hosts are numbered
 * from 0 on. */
void hosts_of(struct hosts *h, const int *host, int size, int rank);

/* Of a communicator whose rank r is on host[r]: the rank after `rank`, or before it, among those at
 * the same place in their hosts, in a ring; -1 where it is alone there. */
int hosts_next(const int *host, int size, int rank, bool before);

/* The host among `hosts` of a machine's rank number `local` of `size`, of which the first size /
 * hosts are on the first; -1, with the nearest number that does, where it does not divide them. */
int hosts_pretended(int local, int size, int64_t hosts, struct err *e);

/* Appends what is inside a host and what is between hosts, by axis, of rank 0 of a world whose rank
 * r is on host[r]: "16 hosts of 8 ranks; inside a host: tensor 2; between hosts: data 16". */
void hosts_words(const struct layout *l, const int *host, int size, struct str *out);

#endif
