/*
 * torch_ranks.c - the files of a checkpoint in Megatron-LM's torch format
 *
 *   mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt   of tensor rank T of stage P and expert rank E;
 *                                               without those where there is one
 *                          distrib_optim.pt     with the distributed optimizer
 *
 * The arguments in the first file tell how many ranks there were. Every one must have written, and
 * no other.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/torch_impl.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "mp_rank_"
#define MODEL_FILE "model_optim_rng.pt"
#define OPTIM_FILE "distrib_optim.pt"

enum { RANKS_MAX = 1 << 16 };

/* Opens DIR/NAME; a file that does not exist stays closed when it may be missing. */
static int
open_file(struct torch_file *f, const struct source *s, bool needed, struct err *e)
{
	char path[CKPT_PATH_BYTES];
	int there = 1;

	if (!ckpt_join(path, s->path, f->name))
		return err_set(e, "path too long: '%.60s...'", s->path);
	if (!needed)
		there = io_there(path, e);
	if (there <= 0)
		return there;
	if (map_open(&f->map, path, e) < 0)
		return -1;
	f->zip = torchzip_open(f->map.base, f->map.size, path, e);
	return f->zip ? 0 : -1;
}

static void
close_file(struct torch_file *f)
{
	torchzip_close(f->zip);
	map_close(&f->map);
}

/* The first directory by name, and the number of them. */
static int
list(const char *dir, char first[32])
{
	DIR *d = opendir(dir);
	struct dirent *de;
	int n = 0;

	while (d && (de = readdir(d))) {
		if (strncmp(de->d_name, PREFIX, sizeof PREFIX - 1) || strlen(de->d_name) >= 32)
			continue;
		if (n++ == 0 || strcmp(de->d_name, first) < 0)
			snprintf(first, 32, "%.31s", de->d_name);
	}
	if (d)
		closedir(d);
	return n;
}

/* The arguments of the run, from the file of one rank. */
static int
read_args(struct torch_source *t, const char *first, struct err *e)
{
	struct torch_file f = { .zip = NULL };
	const struct pickle_value *root;
	struct err why;
	int rc;

	snprintf(f.name, sizeof f.name, "%s/" MODEL_FILE, first);
	rc = open_file(&f, &t->s, true, e);
	if (rc == 0) {
		root = torchzip_root(f.zip);
		rc = megatron_args_read(pickle_get(root, "args"), &t->args, &why);
		if (rc < 0)
			err_at(e, t->s.path, 0, "%s: %s", f.name, why.msg);
	}
	close_file(&f);
	t->ranks = (struct megatron_ranks){ t->args.tensor_ranks, t->args.slices };
	t->stages = t->args.stages;
	t->expert_ranks = t->args.expert_ranks;
	return rc;
}

static int
open_rank(struct torch_source *t, struct torch_rank *r, struct err *e)
{
	char name[32];
	int n = snprintf(name, sizeof name, PREFIX "%02lld", (long long)r->tensor);

	if (t->stages > 1)
		n += snprintf(name + n, sizeof name - (size_t)n, "_%03lld", (long long)r->stage);
	if (t->expert_ranks > 1)
		snprintf(name + n, sizeof name - (size_t)n, "_%03lld", (long long)r->expert);
	snprintf(r->model.name, sizeof r->model.name, "%s/" MODEL_FILE, name);
	snprintf(r->optim.name, sizeof r->optim.name, "%s/" OPTIM_FILE, name);
	return open_file(&r->model, &t->s, true, e) < 0 || open_file(&r->optim, &t->s, false, e) < 0
	    ? -1
	    : 0;
}

/* Names of files tell tensor ranks apart, and expert ranks, but not those that share an expert. */
static int
check_whole(const struct torch_source *t, struct err *e)
{
	if (t->ranks.tensor > RANKS_MAX || t->expert_ranks > RANKS_MAX || t->stages > RANKS_MAX)
		return err_at(e, t->s.path, 0, "more than %d ranks of a kind", RANKS_MAX);
	if (t->ranks.slices > t->ranks.tensor)
		return err_at(e, t->s.path, 0,
		    "expert_tensor_parallel_size %lld: above tensor_model_parallel_size, %lld, so "
		    "that ranks wrote files of the same name",
		    (long long)t->ranks.slices, (long long)t->ranks.tensor);
	if (torch_width(t) % t->ranks.tensor)
		return err_at(e, t->s.path, 0,
		    "expert_model_parallel_size %lld x expert_tensor_parallel_size %lld: no "
		    "multiple of tensor_model_parallel_size, %lld, so that not all tensor ranks "
		    "wrote",
		    (long long)t->expert_ranks, (long long)t->ranks.slices,
		    (long long)t->ranks.tensor);
	return 0;
}

int
torch_open_ranks(struct torch_source *t, struct err *e)
{
	char first[32];
	int found = list(t->s.path, first);
	int64_t n;

	if (found == 0)
		return err_at(e, t->s.path, 0, "no " PREFIX "* directories");
	if (read_args(t, first, e) < 0 || check_whole(t, e) < 0)
		return -1;
	n = torch_num_ranks(t);
	if (n != found)
		return err_at(e, t->s.path, 0,
		    "%d " PREFIX
		    "* directories, but the run had %lld tensor ranks in %lld stages%s",
		    found, (long long)t->ranks.tensor, (long long)t->stages,
		    t->expert_ranks > 1 ? ", for each expert rank" : "");
	t->rank = mem_zalloc((size_t)n, sizeof *t->rank);
	for (int64_t i = 0; i < n; i++) {
		t->rank[i].number = i % torch_width(t);
		t->rank[i].tensor = t->rank[i].number % t->ranks.tensor;
		t->rank[i].expert = t->rank[i].number / t->ranks.slices;
		t->rank[i].stage = i / torch_width(t);
		if (open_rank(t, &t->rank[i], e) < 0)
			return -1;
	}
	return 0;
}

int64_t
torch_width(const struct torch_source *t)
{
	return t->ranks.slices * t->expert_ranks;
}

int64_t
torch_num_ranks(const struct torch_source *t)
{
	return torch_width(t) * t->stages;
}

void
torch_close_ranks(struct torch_source *t)
{
	for (int64_t i = 0; t->rank && i < torch_num_ranks(t); i++) {
		close_file(&t->rank[i].model);
		close_file(&t->rank[i].optim);
	}
	free(t->rank);
}

/* --- checksums -------------------------------------------------------------------------------- */

/* A file of a rank, of two for each; NULL: there is none. */
static const struct torch_file *
file_of(const struct torch_source *t, int64_t i)
{
	const struct torch_rank *r = &t->rank[i / 2];
	const struct torch_file *f = i % 2 ? &r->optim : &r->model;

	return f->zip ? f : NULL;
}

int
torch_check_roots(struct torch_source *t, struct err *e)
{
	struct err why;

	for (int64_t i = 0; !t->compared && i < 2 * torch_num_ranks(t); i++) {
		const struct torch_file *f = file_of(t, i);

		if (f && torchzip_check_root(f->zip, &why) < 0) {
			t->s.damaged = true;
			return err_at(e, t->s.path, 0, "%s: %s", f->name, why.msg);
		}
	}
	return 0;
}

int
torch_verify_files(struct source *s, struct str *problems)
{
	const struct torch_source *t = (const struct torch_source *)s;
	int wrong = 0;
	struct err e;

	for (int64_t i = 0; i < 2 * torch_num_ranks(t); i++) {
		const struct torch_file *f = file_of(t, i);

		if (!f || torchzip_verify(f->zip, &f->map, &e) == 0)
			continue;
		str_addf(problems, "%s/%s: %s\n", s->path, f->name, e.msg);
		wrong++;
	}
	return wrong;
}

/* Files are dealt to the ranks of a run, each of which then reads parts of many. */
int
torch_check_share(struct source *s, int rank, int num_ranks, struct err *e)
{
	struct torch_source *t = (struct torch_source *)s;
	struct err why;

	t->compared = true;
	for (int64_t i = 0, turn = 0; i < 2 * torch_num_ranks(t); i++) {
		const struct torch_file *f = file_of(t, i);

		if (!f || turn++ % num_ranks != rank || torchzip_verify(f->zip, &f->map, &why) == 0)
			continue;
		s->damaged = true;
		return err_set(e, "%s/%s: %s", s->path, f->name, why.msg);
	}
	return 0;
}
