/* layout.c - properties of layouts and shards: inverses, partitions, tilings */
#include "lib/base/mem.h"
#include "lib/model/cut.h"
#include "lib/model/split.h"
#include "lib/model/family.h"
#include "tests/check.h"

#include <math.h>

/* The inverse of layout_coord. */
static int64_t
rank_at(const struct layout *l, const int coord[AX_COUNT])
{
	int64_t rank = 0;

	for (int a = 0; a < AX_COUNT; a++)
		rank += layout_stride(l, (enum axis)a) * coord[a];
	return rank;
}

/* Every rank has its own coordinate, and each kind of group partitions the ranks evenly. */
static void
check_ranks(const struct layout *l)
{
	int64_t world = layout_world(l);

	for (int64_t r = 0; r < world; r++) {
		int coord[AX_COUNT];

		layout_coord(l, r, coord);
		for (int a = 0; a < AX_COUNT; a++)
			CHECK(coord[a] >= 0 && coord[a] < layout_size(l, (enum axis)a));
		CHECK(rank_at(l, coord) == r);
	}
	for (unsigned axes = 0; axes < AX_BIT(AX_COUNT); axes++) {
		int64_t *members = mem_zalloc((size_t)world, sizeof *members), size = 1;

		for (int a = 0; a < AX_COUNT; a++)
			if (axes & AX_BIT(a))
				size *= layout_size(l, (enum axis)a);
		for (int64_t r = 0; r < world; r++) {
			int64_t g = layout_group(l, axes, r);

			CHECK(g >= 0 && g < world / size);
			members[g]++;
		}
		for (int64_t g = 0; g < world / size; g++)
			CHECK(members[g] == size);
		free(members);
	}
}

/* Ranks of a communicator are in the order of their numbers: stages and data ranks in theirs. */
static void
check_order(const struct layout *l)
{
	static const unsigned over[] = { AX_BIT(AX_PP), AX_BIT(AX_CP) | AX_BIT(AX_DP) };
	int64_t world = layout_world(l);

	for (int k = 0; k < 2; k++) {
		int *next = mem_zalloc((size_t)world, sizeof *next);

		for (int64_t r = 0; r < world; r++) {
			int64_t group = layout_group(l, over[k], r);
			int coord[AX_COUNT];

			layout_coord(l, r, coord);
			CHECK((k ? layout_data_rank(l, coord) : coord[AX_PP]) == next[group]++);
		}
		free(next);
	}
}

/* The example of docs/parallelism.md 1: t 2, c 1, D 2, p 2. */
static void
check_example(void)
{
	static const int tp[8] = { 0, 0, 1, 1, 2, 2, 3, 3 }, dp[8] = { 0, 1, 0, 1, 2, 3, 2, 3 };
	static const int pp[8] = { 0, 1, 2, 3, 0, 1, 2, 3 };
	struct layout l = { 2, 1, 2, 2 }, near = l;

	/* With as many stages as data ranks, the other order makes the groups of the one those of
	 * the other. */
	near.use_tp_pp_dp_mapping = true;
	for (int r = 0; r < 8; r++) {
		CHECK(layout_group(&l, AX_BIT(AX_TP), r) == tp[r]);
		CHECK(layout_group(&l, AX_BIT(AX_DP), r) == dp[r]);
		CHECK(layout_group(&l, AX_BIT(AX_PP), r) == pp[r]);
		CHECK(layout_group(&near, AX_BIT(AX_DP), r) == pp[r]);
		CHECK(layout_group(&near, AX_BIT(AX_PP), r) == dp[r]);
	}
}

/* Marks the elements of a shard's box in the global tensor. */
static void
mark(unsigned char *count, const struct param *p, const struct slice *slice)
{
	int64_t cols = p->ndim > 1 ? p->shape[1] : 1, width = p->ndim > 1 ? slice->count[1] : 1;

	for (int64_t i = 0; i < slice->count[0]; i++)
		for (int64_t j = 0; j < width; j++)
			count[(slice->start[0] + i) * cols + (p->ndim > 1 ? slice->start[1] : 0) +
			    j]++;
}

/* Checks one shard: its size, its place after `end`, its box. */
static void
check_shard(const struct shards *s, int i, const struct param *table, int64_t end)
{
	const struct shard *sh = &s->item[i];
	const struct param *p = &table[sh->param];
	int64_t n = 1;

	for (int k = 0; k < p->ndim; k++)
		n *= sh->shape[k];
	CHECK(sh->count == n && sh->offset >= end);
	if (p->flags & PARAM_JOINED)
		CHECK(sh->offset == end && i > 0 && s->item[i - 1].param == sh->param - 1);
	else
		CHECK(sh->offset % SHARD_ALIGN == 0);
	CHECK(
	    slice_inside(&sh->slice, p->ndim, p->shape) && slice_elements(&sh->slice) <= sh->count);
	CHECK(!(sh->tied_copy && sh->owner));
}

/* In each chunk vectors come first, then matrices; within each, offsets ascend without overlap,
 * except that vectors which every tensor rank holds whole come before the others. */
static void
check_shards(const struct shards *s, const struct param *table, int chunks)
{
	int64_t end = 0;

	for (int place = 0; place < 3 * chunks; place++)
		for (int i = 0; i < s->count; i++) {
			const struct param *p = &table[s->item[i].param];

			if (s->item[i].chunk != place / 3 ||
			    place % 3 != (p->ndim > 1 ? 2 : p->shard != SHARD_NONE))
				continue;
			check_shard(s, i, table, end);
			end = s->item[i].offset + s->item[i].count;
		}
	CHECK(s->elements >= end);
}

/* Elements from the first shard of shard i's layer up to shard i. */
static int64_t
layer_before(const struct shards *s, int i, const struct param *table)
{
	int64_t first = s->item[i].offset;

	for (int k = 0; k < s->count; k++)
		if (s->item[k].bucket == s->item[i].bucket && s->item[k].offset < first &&
		    table[s->item[k].param].layer == table[s->item[i].param].layer)
			first = s->item[k].offset;
	return s->item[i].offset - first;
}

/* Buckets tile the flat order, in parts that the data ranks share equally; each shard is in its
 * own. The vectors of a chunk are one bucket, a vocabulary table has its own, and a bucket of
 * layers ends as soon as it is full. */
static void
check_buckets(
    const struct shards *s, const struct param *table, const struct layout *l, int64_t size)
{
	int64_t end = 0;

	for (int k = 0; k < s->num_buckets; k++) {
		const struct bucket *b = &s->bucket[k];

		CHECK(b->first == end && b->count > 0 && b->count % layout_data_ranks(l) == 0);
		CHECK(b->decay || k == 0 || b[-1].chunk < b->chunk);
		CHECK(b->first_layer <= b->last_layer && (k == 0 || b[-1].chunk <= b->chunk));
		CHECK(k == 0 || b[-1].chunk == b->chunk || b[-1].last_layer < b->first_layer);
		CHECK(b->place >= 0 && b->place + b->count <= s->slot_elements);
		CHECK(k + 1 == s->num_buckets || !b->layers || !b[1].layers || b->count >= size);
		end += b->count;
	}
	CHECK(end == s->elements);
	for (int i = 0; i < s->count; i++) {
		const struct shard *sh = &s->item[i];
		const struct bucket *b = &s->bucket[sh->bucket];

		CHECK(sh->offset >= b->first && sh->offset + sh->count <= b->first + b->count);
		CHECK(b->decay == (table[sh->param].ndim > 1));
		CHECK(!b->layers || table[sh->param].layer == b->first_layer ||
		    sh->offset - b->first - layer_before(s, i, table) < size + SHARD_ALIGN);
		for (int j = 0; table[sh->param].shard == SHARD_VOCAB && j < s->count; j++)
			CHECK(j == i || s->item[j].bucket != sh->bucket);
	}
}

/* Buckets of layers that are held whole at the same time do not overlap. */
static void
check_places(const struct shards *s)
{
	for (int k = 0; k < s->num_buckets; k++)
		for (int j = 0; j < k; j++) {
			const struct bucket *a = &s->bucket[j], *b = &s->bucket[k];

			if (a->layers && b->layers && a->turn == b->turn)
				continue;
			CHECK(a->place + a->count <= b->place || b->place + b->count <= a->place);
		}
}

/* The shards of the data ranks tile a bucket; the rank's own begins in buffers of shards at `at`,
 * and has its own part. */
static void
check_held_shard(const struct bucket *b, int64_t at)
{
	struct part held = bucket_own_shard(b), own = bucket_optim_part(b);
	int64_t sum = 0;

	for (int r = 0; r < b->data_ranks; r++) {
		struct part p = bucket_shard(b, r, b->data_ranks);

		CHECK(r != b->data_rank || (p.first == held.first && p.count == held.count));
		for (int i = 0; i < r; i++) {
			struct part other = bucket_shard(b, i, b->data_ranks);

			CHECK(part_cut(&p, other.first, other.count).count == 0);
		}
		sum += p.count;
	}
	CHECK(sum == b->count && held.in_shard == at);
	CHECK(part_cut(&held, own.first, own.count).count == own.count);
	CHECK(own.count == 0 || own.in_shard - at == own.first - held.first);
}

/* The owners' equal parts of a bucket tile it, and the rank's own lie one after the other; so do
 * shards. */
static void
check_parts(const struct shards *s)
{
	int64_t at = 0, held = 0;

	for (int k = 0; k < s->num_buckets; k++) {
		const struct bucket *b = &s->bucket[k];
		struct part own = bucket_optim_part(b);

		for (int r = 0; r < b->owners; r++) {
			struct part p = bucket_part(b, r, b->owners);

			CHECK(p.first == b->first + r * p.count);
			CHECK(r != b->owner || (own.first == p.first && own.count == p.count));
		}
		CHECK(own.in_optim == at && own.state == at && own.count * b->owners == b->count);
		at += own.count;
		check_held_shard(b, held);
		held += b->count / b->data_ranks;
	}
}

/* Buffers of shards have as many elements as are said at most. */
static void
check_held(const struct shards *s)
{
	int64_t at = 0;

	for (int k = 0; k < s->num_buckets; k++) {
		check_held_shard(&s->bucket[k], at);
		at += bucket_own_shard(&s->bucket[k]).count;
	}
	CHECK(at <= shards_shard_elements(s, true) + shards_shard_elements(s, false));
}

/* The rank's own parts, or with one data rank the whole buckets, lie one after the other; states
 * skip buckets of other kinds. */
static void
check_own(const struct shards *s, bool sharded)
{
	int64_t at = 0, state[2] = { 0 };

	for (int k = 0; k < s->num_buckets; k++) {
		const struct bucket *b = &s->bucket[k];
		struct part p = sharded ? bucket_optim_part(b) : bucket_part(b, 0, 1);

		CHECK(p.in_optim == at && p.state == state[b->layers]);
		at += p.count;
		state[b->layers] += p.count;
	}
	for (int layers = 0; layers < 2; layers++)
		CHECK(state[layers] <= shards_optim_elements(s, layers, sharded));
	CHECK(sharded || at == s->elements);
}

/* Where matrices of layers are cut between data ranks none is cut in two, all other buckets have
 * equal parts, and the parts of a bucket tile it. */
static void
check_whole(struct shards *s, const struct param *table)
{
	cut_whole(s, table);
	check_held(s);
	check_own(s, true);
	check_own(s, false);
	for (int k = 0; k < s->num_buckets; k++) {
		const struct bucket *b = &s->bucket[k];
		int64_t sum = 0;

		for (int r = 0; r < b->owners; r++) {
			struct part p = bucket_part(b, r, b->owners);

			CHECK(p.first >= b->first && p.first + p.count <= b->first + b->count);
			CHECK(b->layers || p.count == b->count / b->owners);
			sum += p.count;
		}
		CHECK(sum == b->count);
	}
	for (int i = 0; i < s->count; i++) {
		const struct shard *sh = &s->item[i];
		int n = s->bucket[sh->bucket].owners;
		int64_t owners = 0, parts = 0;

		for (int r = 0; r < n; r++) {
			struct part p = shard_part(s, sh, r, n);

			owners += p.count > 0;
			parts += p.count;
		}
		CHECK(parts == sh->count && (owners == 1 || !s->bucket[sh->bucket].layers));
	}
}

/* Every shard lies in exactly one run, which has its bucket and its owner; runs ascend without
 * overlap. */
static void
check_runs(const struct shards *s)
{
	for (int i = 0; i < s->count; i++) {
		const struct shard *sh = &s->item[i];
		int found = 0;

		for (int k = 0; k < s->num_runs; k++) {
			const struct shard_run *r = &s->run[k];

			if (sh->offset < r->first || sh->offset + sh->count > r->first + r->count)
				continue;
			found++;
			CHECK(r->owner == sh->owner && r->bucket == sh->bucket);
		}
		CHECK(found == 1);
	}
	for (int k = 1; k < s->num_runs; k++)
		CHECK(s->run[k].first >= s->run[k - 1].first + s->run[k - 1].count);
}

/* The same for sums; neighbours in a bucket differ, so that each collective covers as many shards
 * as possible. */
static void
check_sums(const struct shards *s, const struct param *table, const struct layout *l)
{
	for (int i = 0; i < s->count; i++) {
		const struct shard *sh = &s->item[i];
		int found = 0;

		for (int k = 0; k < s->num_sums; k++) {
			const struct shard_sum *r = &s->sum[k];

			if (sh->offset < r->first || sh->offset + sh->count > r->first + r->count)
				continue;
			found++;
			CHECK(
			    r->sums == param_sums(&table[sh->param], l) && r->bucket == sh->bucket);
		}
		CHECK(found == 1);
	}
	for (int k = 1; k < s->num_sums; k++) {
		const struct shard_sum *a = &s->sum[k - 1], *b = &s->sum[k];

		CHECK(b->first >= a->first + a->count);
		CHECK(a->bucket != b->bucket || a->sums != b->sums);
	}
}

/* Data ranks are instances of neighbours, each of which shares every bucket, and all of which share
 * the optimizer's state or none. */
static void
check_instances(const struct shards *s, const struct layout *l, const int coord[AX_COUNT])
{
	int64_t ranks = layout_data_ranks(l) / layout_instances(l),
		sharing = l->outer_sharding == OUTER_OPTIM ? layout_instances(l) : 1;

	for (int k = 0; k < s->num_buckets; k++) {
		const struct bucket *b = &s->bucket[k];

		CHECK(b->data_ranks == ranks && b->data_rank < ranks);
		CHECK(b->instance * ranks + b->data_rank == layout_data_rank(l, coord));
		CHECK(b->owners == ranks * sharing);
		CHECK(b->owner == b->data_rank * sharing + b->instance % sharing);
		CHECK(bucket_first_copy(b) == (b->instance < sharing));
	}
}

/* The owners' slices over all tensor ranks and stages tile every tensor exactly once. */
static void
check_tiling(const struct model_config *c, const struct layout *l)
{
	struct param *table;
	int n = model_params(c, &table);
	unsigned char **count = mem_zalloc((size_t)n, sizeof *count);
	struct shards_of of = { table, n, c, l, 1 + rand() % 20000 };

	for (int i = 0; i < n; i++)
		count[i] = mem_zalloc((size_t)param_elements(&table[i]), 1);
	for (int64_t r = 0; r < layout_world(l); r++) {
		int coord[AX_COUNT];
		struct shards s;

		layout_coord(l, r, coord);
		shards_init(&s, &of, coord);
		check_shards(&s, table, layout_chunks(l));
		check_buckets(&s, table, l, of.bucket_size);
		check_places(&s);
		check_parts(&s);
		check_instances(&s, l, coord);
		check_runs(&s);
		check_sums(&s, table, l);
		check_whole(&s, table);
		for (int i = 0; i < s.count; i++)
			if (s.item[i].owner && coord[AX_DP] == 0)
				mark(count[s.item[i].param], &table[s.item[i].param],
				    &s.item[i].slice);
		shards_release(&s);
	}
	for (int i = 0; i < n; i++) {
		int64_t wrong = 0;

		for (int64_t k = 0; k < param_elements(&table[i]); k++)
			wrong += count[i][k] != 1;
		CHECK(wrong == 0);
		free(count[i]);
	}
	free(count);
	free(table);
}

/* A random number from 1 to max. */
static int64_t
pick(int64_t max)
{
	return 1 + rand() % max;
}

/* A random small model, whose sizes need not be legal for a layout. */
static void
random_model(struct model_config *c)
{
	family_defaults(c);
	c->num_layers = pick(6);
	c->num_query_groups = pick(4);
	c->num_attention_heads = c->num_query_groups * pick(4);
	c->kv_channels = 2 * pick(3);
	c->hidden_size = pick(24);
	c->ffn_hidden_size = 4 * pick(8);
	c->max_position_embeddings = pick(9);
	c->vocab_size = pick(300);
	c->make_vocab_size_divisible_by = pick(20);
	c->norm_epsilon = 1e-5;
	c->normalization = (enum normalization)(rand() % 2);
	c->activation = (enum activation)(rand() % 5);
	c->position = (enum position)(rand() % 3);
	c->qkv_bias = rand() % 2;
	c->proj_bias = rand() % 2;
	c->mlp_bias = rand() % 2;
	c->untie_embeddings_and_output_weights = rand() % 2;
}

/* The positions of all ranks tile a sequence, all ranks have equally many positions and scores
 * below the diagonal, and layout_holder is the inverse. */
static void
check_positions(const struct layout *l)
{
	int64_t c = l->context_parallel_size, s = 2 * c * pick(5), number, scores = 0;
	int *held = mem_zalloc((size_t)s, sizeof *held);
	struct err e;

	CHECK(layout_check_length(l, s, "half of", &e) == 0);
	CHECK(c == 1 || layout_check_length(l, s + 1, "half of", &e) < 0);
	for (int cp = 0; cp < c; cp++) {
		struct position_range has[POSITION_RANGES];
		int n = layout_positions(l, s, cp, has);
		int64_t seen = 0, rows = 0;

		CHECK(n == (c > 1 ? 2 : 1));
		for (int i = 0; i < n; i++)
			for (int64_t k = 0; k < has[i].count; k++, rows++) {
				int64_t position = has[i].first + k;

				seen += position + 1;
				held[position]++;
				CHECK(layout_holder(l, s, position, &number) == cp);
				CHECK(number == rows);
			}
		CHECK(rows == layout_held(l, s) && (cp == 0 || seen == scores));
		scores = seen;
	}
	for (int64_t i = 0; i < s; i++)
		CHECK(held[i] == 1);
	free(held);
}

/* Vocabulary rows: enough, equal parts, a multiple of both rules. */
static void
check_vocab(const struct model_config *c, const struct layout *l)
{
	int64_t v = layout_vocab(l, c), t = l->tensor_model_parallel_size;

	CHECK(v >= c->vocab_size && v % (16 * t) == 0 && v % c->make_vocab_size_divisible_by == 0);
	CHECK(layout_local_groups(l, c) * t == c->num_query_groups * layout_group_ranks(l, c));
}

/* The FLOPs of the data rank with the most, over those of the mean; of experts that ranks share, or
 * of all other matrices of layers. */
static double
imbalance(const struct shards *s, const struct param *table, bool experts)
{
	double flops[64] = { 0 }, total = 0, most = 0;
	int data_ranks = 1;

	for (int i = 0; i < s->count; i++) {
		const struct shard *sh = &s->item[i];
		const struct bucket *b = &s->bucket[sh->bucket];
		const struct param *p = &table[sh->param];

		if (!b->layers || b->experts != experts)
			continue;
		data_ranks = b->owners;
		for (int r = 0; r < data_ranks; r++)
			if (shard_part(s, sh, r, data_ranks).count)
				flops[r] += cut_flops(p->shape[0], p->shape[1]);
		total += cut_flops(p->shape[0], p->shape[1]);
	}
	for (int r = 0; r < data_ranks; r++)
		most = fmax(most, flops[r]);
	return most * data_ranks / total;
}

static void
large_model(struct model_config *c)
{
	family_defaults(c);
	c->num_layers = 32;
	c->hidden_size = 4096;
	c->ffn_hidden_size = 14336;
	c->num_attention_heads = 32;
	c->num_query_groups = 8;
	c->kv_channels = 128;
	c->max_position_embeddings = 8192;
	c->vocab_size = 128256;
	c->make_vocab_size_divisible_by = 128;
	c->norm_epsilon = 1e-5;
	c->activation = ACTIVATION_SWIGLU;
}

/* Llama 3.1 8B: 2 and 4 data ranks have equal FLOPs and elements, of up to 8 none has over 12 %
 * more than its share. */
static void
check_balance(void)
{
	struct model_config c;
	struct param *table;
	int count;

	large_model(&c);
	count = model_params(&c, &table);
	for (int n = 2; n <= 8; n++) {
		struct layout l = { 1, 1, n, 1 };
		const struct shards_of of = { table, count, &c, &l, 0 };
		double most = n == 2 || n == 4 ? 1.0001 : 1.12;
		struct shards s;

		shards_init(&s, &of, (int[AX_COUNT]){ 0 });
		cut_whole(&s, table);
		CHECK(imbalance(&s, table, false) < most);
		CHECK((double)(shards_optim_elements(&s, true, true) +
			  shards_optim_elements(&s, false, true)) < most * (double)s.elements / n);
		shards_release(&s);
	}
	free(table);
}

/* 8 experts that 4 ranks share: none of their up to 8 data ranks has over 3 % more than its
 * share. */
static void
check_expert_balance(void)
{
	struct model_config c;
	struct param *table;
	int count;

	large_model(&c);
	c.num_experts = 8;
	c.moe_ffn_hidden_size = c.ffn_hidden_size;
	count = model_params(&c, &table);
	for (int n = 2; n <= 8; n++) {
		struct layout l = { 1, 1, 4 * n, 1, .expert_model_parallel_size = 4 };
		const struct shards_of of = { table, count, &c, &l, 0 };
		struct shards s;

		shards_init(&s, &of, (int[AX_COUNT]){ 0 });
		cut_whole(&s, table);
		CHECK(imbalance(&s, table, true) < 1.03);
		shards_release(&s);
	}
	free(table);
}

/* Stages without an end have equal work but for a layer, and the later ones have it, or with chunks
 * the first; so have the later chunks of a stage. */
static void
check_split(const struct layout *l)
{
	int p = (int)l->pipeline_model_parallel_size, v = layout_chunks(l), before = 0;

	for (int r = 0; r < p - 1; r++) {
		int layers = 0;

		for (int j = 0; j < v; j++) {
			int here = l->split[j * p + r], first = l->split[r];

			layers += here;
			CHECK(r == 0 || (here >= first && here <= first + 1));
			CHECK(j == 0 || here >= l->split[(j - 1) * p + r]);
		}
		if (v == 1)
			CHECK(layers >= before && (r < 2 || layers <= before + 1));
		else
			CHECK(r < 2 || (layers <= before && layers >= before - 1));
		before = layers;
	}
}

/* What the ranks of a layout own of a tensor, each part once; whole: matrices of layers are cut
 * between data ranks. */
static int64_t
owned_by_all(const struct shards_of *of, int param, bool whole)
{
	int64_t sum = 0;

	for (int64_t rank = 0; rank < layout_world(of->layout); rank++) {
		struct shards s;
		int coord[AX_COUNT];

		layout_coord(of->layout, rank, coord);
		shards_init(&s, of, coord);
		if (whole)
			cut_whole(&s, of->table);
		for (int i = 0; i < s.count; i++) {
			struct slice slice[SLICE_FLAT_MAX];
			struct part own = shard_share(&s, &s.item[i]);
			int n = s.item[i].owner ? shard_slices(&s.item[i], &own, slice) : 0;

			for (int k = 0; k < n && s.item[i].param == param; k++)
				sum += slice_elements(&slice[k]);
		}
		shards_release(&s);
	}
	return sum;
}

/* Each kind of group of ranks that share experts partitions the ranks of a stage evenly; the ranks
 * that hold the experts once together are in the order of slices, then of experts. */
static void
check_expert_groups(const struct layout *l)
{
	const int64_t sizes[EX_COUNT] = { layout_expert_slices(l), layout_expert_ranks(l),
		layout_expert_data_ranks(l) };
	int64_t world = layout_world(l);

	for (unsigned axes = 0; axes < EX_BIT(EX_COUNT); axes++) {
		int64_t *members = mem_zalloc((size_t)world, sizeof *members), size = 1;

		for (int a = 0; a < EX_COUNT; a++)
			size *= axes & EX_BIT(a) ? sizes[a] : 1;
		for (int64_t r = 0; r < world; r++) {
			int64_t group = layout_expert_group(l, axes, r);
			int coord[AX_COUNT], at[EX_COUNT], placed[AX_COUNT];

			layout_coord(l, r, coord);
			layout_expert_coord(l, coord, at);
			placed[AX_PP] = coord[AX_PP];
			CHECK(group >= 0 && group < world / size);
			layout_expert_place(l, at, placed);
			CHECK(!memcmp(placed, coord, sizeof coord));
			CHECK(axes != (EX_BIT(EX_TP) | EX_BIT(EX_EP)) ||
			    at[EX_TP] + sizes[EX_TP] * at[EX_EP] == members[group]);
			members[group]++;
		}
		for (int64_t group = 0; group < world / size; group++)
			CHECK(members[group] == size);
		free(members);
	}
}

/* Where ranks share experts every element has one owner too, and each expert as many ranks. */
static void
check_experts(void)
{
	static const struct layout layouts[] = {
		{ 1, 1, 4, 1, .expert_model_parallel_size = 2 },
		{ 2, 1, 2, 1, true, .expert_model_parallel_size = 4,
		    .expert_tensor_parallel_size = 1 },
		{ 4, 1, 1, 2, true, .expert_model_parallel_size = 2,
		    .expert_tensor_parallel_size = 1 },
		{ 2, 2, 3, 1, true, true, .expert_model_parallel_size = 6 },
		{ 2, 1, 2, 2, true },
		{ 1, 2, 3, 1, .expert_tensor_parallel_size = 3 },
		{ 2, 1, 4, 1, true, true, .expert_model_parallel_size = 2,
		    .expert_tensor_parallel_size = 2 },
		{ 2, 1, 6, 1, true, .expert_model_parallel_size = 2,
		    .expert_tensor_parallel_size = 6 },
	};
	struct model_config c;

	family_defaults(&c);
	c.num_layers = 3;
	c.hidden_size = 20;
	c.num_attention_heads = c.num_query_groups = 4;
	c.kv_channels = 5;
	c.ffn_hidden_size = 12;
	c.vocab_size = 77;
	c.num_experts = 12;
	c.moe_ffn_hidden_size = 6;
	c.moe_layer_freq = pattern_but_every(2);
	c.position = POSITION_ROPE;
	for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
		struct param *table;
		int count = model_params(&c, &table);
		int64_t ranks[12] = { 0 };

		const struct shards_of of = { table, count, &c, &layouts[k], 500 };

		for (int i = 0; i < 2 * count; i++)
			CHECK(owned_by_all(&of, i / 2, i % 2) == param_elements(&table[i / 2]));
		for (int64_t rank = 0; rank < layout_world(&layouts[k]); rank++) {
			int coord[AX_COUNT], at[EX_COUNT];
			struct shards s;

			layout_coord(&layouts[k], rank, coord);
			layout_expert_coord(&layouts[k], coord, at);
			shards_init(&s, &of, coord);
			check_parts(&s);
			check_whole(&s, table);
			shards_release(&s);
			CHECK(at[EX_DP] >= 0 && at[EX_DP] < layout_expert_data_ranks(&layouts[k]));
			ranks[at[EX_EP]]++;
		}
		for (int i = 0; i < layout_expert_ranks(&layouts[k]); i++)
			CHECK(ranks[i] * layout_expert_ranks(&layouts[k]) ==
			    layout_world(&layouts[k]));
		check_expert_groups(&layouts[k]);
		free(table);
	}
}

/* One instance, one for each data rank, or a number between. */
static void
draw_instances(struct layout *l, const struct model_config *c)
{
	int64_t ranks = layout_data_ranks(l);
	struct err e;

	l->optimizer_instances = (const int64_t[]){ 0, 1, ranks, pick(ranks) }[rand() % 4];
	l->outer_sharding = rand() % 2 ? OUTER_OPTIM : OUTER_NO_SHARD;
	while (layout_check_instances(l, c, &e) < 0)
		l->optimizer_instances--;
}

int
main(void)
{
	int legal = 0, shared = 0, interleaved = 0;

	srand((unsigned)check_seed());
	check_example();
	check_balance();
	check_expert_balance();
	check_experts();
	for (int i = 0; i < 3000 && legal < 150; i++) {
		struct model_config c;
		struct layout l = { pick(8), 1, pick(3), pick(4), rand() % 2 };
		struct err e;

		random_model(&c);
		CHECK(model_check(&c, &e) == 0);
		if (layout_check(&l, &c, &e) < 0)
			continue;
		legal++;
		if (l.pipeline_model_parallel_size > 1 &&
		    l.pipeline_model_parallel_size * 2 <= c.num_layers + 1)
			l.virtual_stages = 1 + rand() % 2;
		interleaved += layout_chunks(&l) > 1;
		if (rand() % 2) {
			split_balance(&c, 9, &l);
			check_split(&l);
		}
		shared += layout_group_ranks(&l, &c) > 1;
		check_vocab(&c, &l);
		draw_instances(&l, &c);
		check_tiling(&c, &l);
		l.context_parallel_size = pick(3);
		l.use_tp_pp_dp_mapping = legal % 2;
		check_ranks(&l);
		check_order(&l);
		l.context_parallel_size = pick(9);
		check_positions(&l);
	}
	CHECK(legal >= 100 && shared >= 5 && interleaved >= 10);
	return check_done();
}
