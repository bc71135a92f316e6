/*
 * choices.c - rows take the experts of another run under another layout
 *
 * Layouts round differently, and where two scores are nearly equal so that another expert is taken,
 * losses differ by far more than rounding. With MIKOSHI_CHOICES=write:FILE the choice of every row
 * is kept, with read:FILE it counts in place of the own. A line of the file has a row's experts;
 * lines are in the order of samples, layers and positions under every layout. mtrain is linked
 * with this around its router. At the end each rank prints how many of its rows would have chosen
 * otherwise.
 */
#include "lib/model/block/moe.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/layers/linear.h"
#include "train/layers/router.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void __real_prog_exit(int status) __attribute__((noreturn));
void __wrap_prog_exit(int status) __attribute__((noreturn));
void __real_router_forward(const struct layer *l, struct step *s, const struct tensor *x);
void __wrap_router_forward(const struct layer *l, struct step *s, const struct tensor *x);

enum { DIGITS = 4, LINE_BYTES = 256 };

static struct {
	int fd; /* of the file; 0: not open */
	bool writes;
	long long rows, other;
} file;

void
__wrap_prog_exit(int status)
{
	if (file.fd)
		fprintf(stderr, "%lld rows of %lld choose otherwise\n", file.other, file.rows);
	__real_prog_exit(status);
}

/* False where the environment asks for nothing. */
static bool
opened(void)
{
	const char *ask = getenv("MIKOSHI_CHOICES"), *path = ask ? strchr(ask, ':') : NULL;

	if (file.fd || !path)
		return file.fd;
	file.writes = ask[0] == 'w';
	file.fd = open(path + 1, file.writes ? O_WRONLY | O_CREAT : O_RDONLY, 0666);
	if (file.fd < 0)
		die("cannot open '%s'", path + 1);
	return true;
}

/* Where the line of row i of this rank's begins, if its layer's lines have so many bytes each. */
static off_t
line_of(const struct layer *l, const struct step *s, int64_t i, int bytes)
{
	const struct run_plan *p = &s->e->plan;
	const struct position_range *has = s->e->position_range;
	int64_t row = first_row(s) + i, held = row / p->shape.micro_batch_size,
		sample = s->first_sample + row % p->shape.micro_batch_size,
		position =
		    held < has[0].count ? has[0].first + held : has[1].first + held - has[0].count;
	/* The head has a number among the layers', and no lines. */
	int64_t layer = l->block->layer - (l->block->layer > p->model.num_layers);

	return (off_t)bytes *
	    ((sample * model_end(&p->model) + layer) * p->shape.seq_length + position);
}

static void
write_line(const int32_t *choice, int64_t k, off_t at)
{
	char line[LINE_BYTES];
	int len = 0;

	for (int64_t j = 0; j < k; j++)
		len += snprintf(line + len, sizeof line - (size_t)len, "%*d", DIGITS, choice[j]);
	line[len++] = '\n';
	if (pwrite(file.fd, line, (size_t)len, at) != len)
		die("a choice cannot be written");
}

/* Whether what the row is to choose is something else, which it then chooses. */
static bool
read_line(int32_t *choice, int64_t k, off_t at)
{
	char line[LINE_BYTES], *next = line;
	ssize_t len = (ssize_t)(DIGITS * k + 1);
	bool other = false;

	if (pread(file.fd, line, (size_t)len, at) != len || line[len - 1] != '\n')
		die("a row has no choice at byte %lld", (long long)at);
	for (int64_t j = 0; j < k; j++) {
		int32_t expert = (int32_t)strtol(next, &next, 10);

		other = other || expert != choice[j];
		choice[j] = expert;
	}
	return other;
}

/* A pass that recomputes has the choice already; following it is what makes another one count. */
void
__wrap_router_forward(const struct layer *l, struct step *s, const struct tensor *x)
{
	struct tensor choice = step_buffer(s, MOE_TOPK, l->block->local);
	const struct backend *b = s->e->backend;
	int64_t k = choice.shape[1], others = 0;
	int32_t *host;

	__real_router_forward(l, s, x);
	if (!s->training || s->recomputes || !opened())
		return;
	host = mem_alloc(tensor_bytes(&choice), 1);
	b->copy_out(s->e->stream, host, choice.data, tensor_bytes(&choice));
	engine_sync(s->e);
	for (int64_t i = 0; i < choice.shape[0]; i++) {
		off_t at = line_of(l, s, i, (int)(DIGITS * k + 1));

		if (file.writes)
			write_line(host + i * k, k, at);
		else
			others += read_line(host + i * k, k, at);
	}
	file.rows += choice.shape[0];
	file.other += others;
	if (others) {
		b->copy_in(s->e->stream, choice.data, host, tensor_bytes(&choice));
		engine_sync(s->e);
		s->recomputes = true;
		__real_router_forward(l, s, x);
		s->recomputes = false;
	}
	free(host);
}
