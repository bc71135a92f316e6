/* hosts.c - which ranks of a communicator share a host */
#include "lib/model/hosts.h"

#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/tree.h"

#include <stdlib.h>

/* Whether ranks [first, first + count) are on one host, on which no rank before them is; *most is
 * the highest number of the hosts before, above which no search for the number is needed. */
static bool
is_host(const int *host, int first, int count, int *most)
{
	for (int i = 1; i < count; i++)
		if (host[first + i] != host[first])
			return false;
	if (host[first] > *most) {
		*most = host[first];
		return true;
	}
	for (int i = 0; i < first; i += count)
		if (host[i] == host[first])
			return false;
	return true;
}

void
hosts_of(struct hosts *h, const int *host, int size, int rank)
{
	int inside = 1, most = -1;

	while (inside < size && host[inside] == host[0])
		inside++;
	h->even = size % inside == 0 && (inside == size || TREE_TERMS % inside == 0);
	for (int first = 0; h->even && first < size; first += inside)
		h->even = is_host(host, first, inside, &most);
	h->inside = h->even ? inside : 1;
	h->count = size / h->inside;
	h->own = rank / h->inside;
	h->place = rank % h->inside;
}

/* The ranks before it on its host. */
static int
place_in(const int *host, int rank)
{
	int before = 0;

	for (int i = 0; i < rank; i++)
		before += host[i] == host[rank];
	return before;
}

int
hosts_next(const int *host, int size, int rank, bool before)
{
	int place = place_in(host, rank);

	for (int i = 1; i < size; i++) {
		int other = (rank + (before ? size - i : i)) % size;

		if (host[other] != host[rank] && place_in(host, other) == place)
			return other;
	}
	return -1;
}

int
host_of(const struct host_places *where, int64_t rank)
{
	return where->host ? where->host[rank] : (int)(rank / where->ranks_per_host);
}

/* Of a stage the ranks that hold its experts together, by their number on the axis of data. */
static void
of_experts(
    struct hosts *h, const struct layout *l, const struct host_places *where, int stage, int edp)
{
	int n = (int)layout_expert_slices(l), size = (int)layout_expert_holders(l),
	    *host = mem_alloc((size_t)size, sizeof *host);

	for (int i = 0; i < size; i++) {
		int at[EX_COUNT] = { [EX_TP] = i % n, [EX_EP] = i / n, [EX_DP] = edp },
		    coord[AX_COUNT] = { [AX_PP] = stage };
		int64_t rank = 0;

		layout_expert_place(l, at, coord);
		for (int a = 0; a < AX_COUNT; a++)
			rank += coord[a] * layout_stride(l, (enum axis)a);
		host[i] = host_of(where, rank);
	}
	hosts_of(h, host, size, 0);
	free(host);
}

/* How many groups of all stages may lie in ways of their own: one where hosts, each of as many
 * neighbours, hold whole groups, or groups whole hosts. */
static int64_t
unlike(const struct layout *l, const struct host_places *where)
{
	int64_t holders = layout_expert_holders(l), host = where->ranks_per_host;

	if (!where->host && !l->use_tp_pp_dp_mapping &&
	    (host % holders == 0 || holders % host == 0))
		return 1;
	return l->pipeline_model_parallel_size * layout_expert_data_ranks(l);
}

int64_t
hosts_of_experts(const struct layout *l, const struct host_places *where)
{
	int data = (int)layout_expert_data_ranks(l);
	struct hosts first, h;

	of_experts(&first, l, where, 0, 0);
	if (!first.even || first.inside % layout_expert_slices(l))
		return 1;
	for (int i = 1; i < unlike(l, where); i++) {
		of_experts(&h, l, where, i / data, i % data);
		if (!h.even || h.inside != first.inside)
			return 1;
	}
	return first.count;
}

/* The hosts of `size` ranks, each `stride` after the one before it, with `host` neighbours on each,
 * of which one divides the other; 1 where they are not even. */
static int64_t
hosts_of_row(int64_t size, int64_t stride, int64_t host)
{
	int64_t inside = int64_min(size, host > stride ? host / stride : 1);

	return size % inside == 0 && TREE_TERMS % inside == 0 ? size / inside : 1;
}

int64_t
hosts_of_data(const struct layout *l, const struct host_places *where)
{
	int64_t stride = layout_stride(l, AX_CP), each = where->ranks_per_host;
	int context = (int)l->context_parallel_size, size = (int)layout_data_ranks(l), *host;
	struct hosts h;

	if (!where->host && layout_stride(l, AX_DP) == context * stride &&
	    (each % stride == 0 || stride % each == 0))
		return hosts_of_row(size, stride, each);
	host = mem_alloc((size_t)size, sizeof *host);
	for (int i = 0; i < size; i++)
		host[i] = host_of(where,
		    i % context * layout_stride(l, AX_CP) + i / context * layout_stride(l, AX_DP));
	hosts_of(&h, host, size, 0);
	free(host);
	return h.even ? h.count : 1;
}

bool
hosts_two_levels(int64_t size, int64_t stride, int64_t host)
{
	int64_t inside = host / stride;

	return inside > 1 && host % stride == 0 && size > inside && size % inside == 0 &&
	    TREE_TERMS % inside == 0;
}

bool
hosts_part_experts(const struct layout *l, const struct host_places *where)
{
	int data = (int)layout_expert_data_ranks(l);
	struct hosts h = { .count = 1 };

	for (int i = 0; i < unlike(l, where) && h.count == 1; i++)
		of_experts(&h, l, where, i / data, i % data);
	return h.count > 1;
}

int
hosts_pretended(int local, int size, int64_t hosts, struct err *e)
{
	int64_t near = 0;

	if (size % hosts == 0)
		return (int)(local / (size / hosts));
	/* the larger of two that are as near */
	for (int64_t away = 1; !near; away++)
		near = hosts + away <= size && size % (hosts + away) == 0 ? hosts + away
		    : hosts > away && size % (hosts - away) == 0          ? hosts - away
									  : 0;
	return err_set(e, "--pretend-hosts %lld: must divide the %d ranks of a machine (try %lld)",
	    (long long)hosts, size, (long long)near);
}

/* The hosts of the ranks of rank 0's group over some axes. */
static void
of_group(struct hosts *h, const struct layout *l, const int *host, enum axis a)
{
	int64_t stride = layout_stride(l, a);
	int n = (int)layout_size(l, a), *group = mem_alloc((size_t)n, sizeof *group);

	for (int i = 0; i < n; i++)
		group[i] = host[i * stride];
	hosts_of(h, group, n, 0);
	free(group);
}

/* "16 hosts of 8 ranks", or "of 2 to 8 ranks". */
static void
add_sizes(const int *host, int size, struct str *out)
{
	int *ranks = mem_zalloc((size_t)size, sizeof *ranks), count = 0, least = size, most = 0;

	for (int r = 0; r < size; r++)
		ranks[host[r]]++;
	for (; count < size && ranks[count]; count++) {
		least = ranks[count] < least ? ranks[count] : least;
		most = ranks[count] > most ? ranks[count] : most;
	}
	free(ranks);
	str_addf(out, "%d host%s of ", count, count == 1 ? "" : "s");
	if (least < most)
		str_addf(out, "%d to ", least);
	str_addf(out, "%d rank%s", most, most == 1 ? "" : "s");
}

void
hosts_words(const struct layout *l, const int *host, int size, struct str *out)
{
	static const struct {
		enum axis axis;
		const char *name;
	} axes[] = { { AX_TP, "tensor" }, { AX_CP, "context" }, { AX_DP, "data" },
		{ AX_PP, "pipeline" } };
	struct str in = { 0 }, between = { 0 };

	for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
		struct hosts h;

		of_group(&h, l, host, axes[i].axis);
		if (h.inside > 1)
			str_addf(&in, "%s%s %d", in.len ? ", " : "", axes[i].name, h.inside);
		if (h.count > 1)
			str_addf(
			    &between, "%s%s %d", between.len ? ", " : "", axes[i].name, h.count);
	}
	add_sizes(host, size, out);
	str_addf(out, "; inside a host: %s; between hosts: %s", in.len ? in.buf : "nothing",
	    between.len ? between.buf : "nothing");
	str_release(&in);
	str_release(&between);
}
