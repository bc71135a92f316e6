/*
 * files.c - the files that the programs write, read by their documented forms alone: mckpt(5),
 * mdataset(5), and one JSON object a line
 */
#include "tests/oracle/oracle.h"

#include <dirent.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
give_up(const char *what, const char *of)
{
	fprintf(stderr, "%s %s\n", what, of);
	exit(1);
}

static void *
room(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p)
		give_up("out of", "memory");
	return p;
}

static void
read_at(const char *path, long offset, void *to, size_t bytes)
{
	FILE *f = fopen(path, "rb");

	if (!f || fseek(f, offset, SEEK_SET) || fread(to, 1, bytes, f) != bytes)
		give_up("cannot read", path);
	fclose(f);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

/* A piece of a tensor: its box, from the corner `start`. */
struct piece {
	char name[96], file[96];
	int dims, shape[2], start[2], count[2];
	long offset;
};

static int
numbers(char *text, int *out)
{
	int n = 0;

	for (char *save, *w = strtok_r(text, ",", &save); w && n < 2;
	     w = strtok_r(NULL, ",", &save))
		out[n++] = atoi(w);
	return n;
}

static struct piece
read_line(char *line)
{
	char shape[40], start[40], count[40], type[8];
	struct piece p;

	if (sscanf(line, "%95s %7s %39s %39s %39s %95s %ld", p.name, type, shape, start, count,
		p.file, &p.offset) != 7 ||
	    strcmp(type, "F64"))
		give_up("not a line of F64:", line);
	p.dims = numbers(shape, p.shape);
	numbers(start, p.start);
	numbers(count, p.count);
	if (p.dims == 1)
		p.shape[1] = p.count[1] = 1, p.start[1] = 0;
	return p;
}

/* Which of a weight's arrays a tensor is: 0 its values, 1 and 2 what update rules keep. The name
 * loses what says so. */
static int
take_kind(char *name)
{
	static const struct {
		const char *end;
		int kind;
	} kinds[] = { { ".exp_avg_sq", 2 }, { ".exp_avg", 1 }, { ".momentum", 1 } };

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		size_t n = strlen(name), end = strlen(kinds[i].end);

		if (n > end && !strcmp(name + n - end, kinds[i].end)) {
			name[n - end] = '\0';
			return kinds[i].kind;
		}
	}
	return 0;
}

static struct weights *
add_weights(struct model *m, const struct piece *p)
{
	struct weights *w = model_find(m, p->name);

	if (w)
		return w;
	m->weights = realloc(m->weights, (size_t)(m->num_weights + 1) * sizeof *m->weights);
	if (!m->weights)
		give_up("out of", "memory");
	w = &m->weights[m->num_weights++];
	*w = (struct weights){ .rows = p->dims == 2 ? p->shape[0] : 0,
		.columns = p->shape[1],
		.count = p->shape[0] * p->shape[1] };
	snprintf(w->name, sizeof w->name, "%s", p->name);
	w->value = room((size_t)w->count, sizeof(double));
	w->grad = room((size_t)w->count, sizeof(double));
	w->m = room((size_t)w->count, sizeof(double));
	w->v = room((size_t)w->count, sizeof(double));
	return w;
}

/* A piece of a vector is one row. */
static void
read_piece(const char *dir, struct model *m, struct piece *p)
{
	int kind = take_kind(p->name), rows = p->dims == 2 ? p->count[0] : 1,
	    columns = p->dims == 2 ? p->count[1] : p->count[0];
	struct weights *w = add_weights(m, p);
	double *to = kind == 0 ? w->value : kind == 1 ? w->m : w->v;
	int first = p->dims == 2 ? p->start[0] * p->shape[1] + p->start[1] : p->start[0];
	char path[500];

	snprintf(path, sizeof path, "%s/%s", dir, p->file);
	for (int i = 0; i < rows; i++)
		read_at(path, p->offset + (long)(i * columns) * 8, to + first + i * p->shape[1],
		    (size_t)columns * 8);
}

void
read_checkpoint(const char *dir, struct model *m)
{
	char path[500], line[1000];
	FILE *f;

	snprintf(path, sizeof path, "%s/manifest.tsv", dir);
	f = fopen(path, "r");
	if (!f)
		give_up("cannot read", path);
	while (fgets(line, sizeof line, f)) {
		struct piece p;

		if (*line == '#' || !strncmp(line, "tensor\t", 7))
			continue;
		p = read_line(line);
		read_piece(dir, m, &p);
	}
	fclose(f);
}

void
free_model(struct model *m)
{
	for (int i = 0; i < m->num_weights; i++) {
		free(m->weights[i].value);
		free(m->weights[i].grad);
		free(m->weights[i].m);
		free(m->weights[i].v);
	}
	free(m->weights);
	m->weights = NULL;
	m->num_weights = 0;
}

/* --- datasets --------------------------------------------------------------------------------- */

static void
put(FILE *f, uint64_t x, int bytes)
{
	for (int i = 0; i < bytes; i++)
		fputc((int)(x >> 8 * i & 255), f);
}

/* Tokens of 16 bits, a sequence for each document. */
void
write_dataset(const char *prefix, const int *tokens, const int *lengths, int count)
{
	char path[500];
	uint64_t at = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s.idx", prefix);
	f = fopen(path, "wb");
	if (!f)
		give_up("cannot write", path);
	fwrite("MMIDIDX\0", 1, 9, f);
	put(f, 1, 8);
	put(f, 8, 1);
	put(f, (uint64_t)count, 8);
	put(f, (uint64_t)count + 1, 8);
	for (int i = 0; i < count; i++)
		put(f, (uint64_t)lengths[i], 4);
	for (int i = 0; i < count; at += 2 * (uint64_t)lengths[i++])
		put(f, at, 8);
	for (int i = 0; i <= count; i++)
		put(f, (uint64_t)i, 8);
	if (fclose(f))
		give_up("cannot write", path);
	snprintf(path, sizeof path, "%s.bin", prefix);
	f = fopen(path, "wb");
	if (!f)
		give_up("cannot write", path);
	for (uint64_t i = 0; i < at / 2; i++)
		put(f, (uint64_t)tokens[i], 2);
	if (fclose(f))
		give_up("cannot write", path);
}

/* The first numbers of a map of training, each of 4 bytes after a header in text. */
static void
read_map(const char *cache, const char *kind, int *out, int count)
{
	char path[700] = "", end[40];
	unsigned char head[10];
	struct dirent *d;
	DIR *dir = opendir(cache);

	snprintf(end, sizeof end, "train-%s_index.npy", kind);
	while (dir && (d = readdir(dir)))
		if (strstr(d->d_name, end))
			snprintf(path, sizeof path, "%s/%s", cache, d->d_name);
	if (!dir || !*path)
		give_up("no map:", end);
	closedir(dir);
	read_at(path, 0, head, sizeof head);
	read_at(path, 10 + head[8] + 256 * head[9], out, (size_t)count * 4);
}

/* Sample i is what lies between two places, from document to document in the order of the map. */
void
read_samples(
    const char *cache, const int *tokens, const int *lengths, int *out, int samples, int seq)
{
	int shuffle[STEPS * BATCH], place[2 * SAMPLES], order[DOCUMENTS],
	    first[DOCUMENTS + 1] = { 0 };

	for (int i = 0; i < DOCUMENTS; i++)
		first[i + 1] = first[i] + lengths[i];
	read_map(cache, "document", order, DOCUMENTS);
	read_map(cache, "shuffle", shuffle, samples);
	for (int i = 0; i < samples; i++) {
		int *at = place + 2 * shuffle[i];

		if (shuffle[i] < 0 || shuffle[i] >= SAMPLES)
			give_up("more samples than there may be in", cache);
		read_map(cache, "sample", place, 2 * (shuffle[i] + 1));
		for (int k = 0; k <= seq; k++) {
			while (at[1] == lengths[order[at[0]]]) {
				at[0]++;
				at[1] = 0;
			}
			out[i * (seq + 1) + k] = tokens[first[order[at[0]]] + at[1]++];
		}
	}
}

/* --- metrics ---------------------------------------------------------------------------------- */

int
read_metric(const char *path, const char *key, double *out, int most)
{
	char line[4000], quoted[60];
	FILE *f = fopen(path, "r");
	int n = 0;

	snprintf(quoted, sizeof quoted, "\"%s\": ", key);
	while (f && n < most && fgets(line, sizeof line, f)) {
		const char *at = strstr(line, quoted);

		if (at)
			out[n++] = strtod(at + strlen(quoted), NULL);
	}
	if (f)
		fclose(f);
	return n;
}
