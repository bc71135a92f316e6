/*
 * wandb.c - W&B's offline files
 *
 * Field numbers are those of wandb_internal.proto: Record num 1, history 2, summary 3, config 5,
 * run 17, exit 18, header 21; RunRecord run_id 1, entity 2, project 3, display_name 8, host 13,
 * start_time 17; HistoryRecord item 1, step 2; Summary- and ConfigRecord update 1; an item's key 1,
 * value_json 16; RunExitRecord exit_code 1, runtime 2; HeaderRecord version_info 1; VersionInfo
 * producer 1. As with W&B's own client, figures of one step are one record, which a later figure
 * of the same step joins, so it is written when another step begins. Whole records go to the
 * system in one call, which a killed run does not cut.
 */
#include "train/report/wandb.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "train/report/protobuf.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 32768, HEAD = 7 };
enum piece { WHOLE = 1, FIRST, MIDDLE, LAST };
enum record { HISTORY = 2, SUMMARY = 3, CONFIG = 5, RUN = 17, EXIT = 18, HEADER = 21 };

/* Starts within one second need as many names. */
enum { NAMES = 60 };

/* The last value of a key. */
struct figure {
	char *key;
	double value;
};

struct wandb {
	int fd;
	int lost; /* errno of the first failed write, after which nothing is written */
	char dir[IO_PATH], path[IO_PATH];
	double (*clock)(void);
	double start;
	uint64_t at;     /* bytes so far */
	int64_t records; /* so far */
	struct str out;  /* not yet handed to the system */
	struct str row, config;
	int64_t step; /* of the row */
	struct figure *figure;
	int figures;
};

void
wandb_make_id(char out[WANDB_ID])
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	struct {
		double now;
		long pid;
		char host[256];
	} of = { clock_unix(), (long)getpid(), "" };
	uint64_t sum;

	gethostname(of.host, sizeof of.host - 1);
	sum = hash_xxh3(&of, sizeof of);
	for (int i = 0; i < WANDB_ID - 1; i++, sum /= sizeof digits - 1)
		out[i] = digits[sum % (sizeof digits - 1)];
	out[WANDB_ID - 1] = '\0';
}

/* --- records ---------------------------------------------------------------------------------- */

static void
add_piece(struct wandb *w, enum piece type, const char *bytes, size_t len)
{
	const unsigned char checked = (unsigned char)type;

	protobuf_fixed(&w->out, hash_crc32(hash_crc32(0, &checked, 1), bytes, len), 4);
	protobuf_fixed(&w->out, len, 2);
	str_addc(&w->out, (char)type);
	str_add(&w->out, bytes, len);
	w->at += HEAD + len;
}

/* A piece is as long as its block has room for. */
static void
add_pieces(struct wandb *w, const char *bytes, size_t len)
{
	size_t done = 0;

	do {
		size_t room = BLOCK - w->at % BLOCK, n = len - done;
		bool first = done == 0, last;

		for (; room < HEAD; room = BLOCK - w->at % BLOCK) {
			str_addc(&w->out, '\0');
			w->at++;
		}
		last = n <= room - HEAD;
		if (!last)
			n = room - HEAD;
		add_piece(w, first ? last ? WHOLE : FIRST : last ? LAST : MIDDLE, bytes + done, n);
		done += n;
		if (last)
			return;
	} while (true);
}

/* A record of this kind, with `inner` as its message. */
static void
add_record(struct wandb *w, enum record kind, const struct str *inner)
{
	struct str record = { 0 };

	protobuf_int(&record, 1, ++w->records);
	protobuf_bytes(&record, kind, inner->buf, inner->len);
	add_pieces(w, record.buf, record.len);
	str_release(&record);
}

/* A message {1: key, 16: JSON} as a field of `out`. */
static void
add_item(struct str *out, const char *key, const char *json)
{
	struct str item = { 0 };

	protobuf_string(&item, 1, key);
	protobuf_string(&item, 16, json);
	protobuf_bytes(out, 1, item.buf, item.len);
	str_release(&item);
}

/* As W&B's client writes what JSON cannot hold. */
static void
add_number(struct str *out, const char *key, double value)
{
	char text[32];

	if (isnan(value))
		strcpy(text, "NaN");
	else if (isinf(value))
		strcpy(text, value > 0 ? "Infinity" : "-Infinity");
	else
		snprintf(text, sizeof text, "%.17g", value);
	add_item(out, key, text);
}

/* --- the file --------------------------------------------------------------------------------- */

/* Creates a file of a new name, after DATE_TIME and the id. `wandb sync` writes into "files" beside
 * it, and does not make that directory. */
static int
create(struct wandb *w, const struct wandb_run *r, struct err *e)
{
	w->fd = -1;
	for (int i = 0; i < NAMES && w->fd < 0; i++) {
		time_t when = (time_t)w->start + i;
		char date[32], files[IO_PATH + 8];
		struct tm tm;
		int n;

		localtime_r(&when, &tm);
		strftime(date, sizeof date, "%Y%m%d_%H%M%S", &tm);
		snprintf(w->dir, sizeof w->dir, "%s/wandb/offline-run-%s-%s", r->dir, date, r->id);
		n = snprintf(w->path, sizeof w->path, "%s/wandb/offline-run-%s-%s/run-%s.wandb",
		    r->dir, date, r->id, r->id);
		if (n >= (int)sizeof w->path)
			return err_set(e, "cannot create '%s': the name is too long", r->dir);
		snprintf(files, sizeof files, "%s/files", w->dir);
		if (io_mkdir_p(files, e) < 0)
			return -1;
		w->fd = open(w->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (w->fd < 0 && errno != EEXIST)
			break;
	}
	return w->fd < 0 ? err_sys(e, "create", w->path) : 0;
}

/* What a file begins with: the program, and the run. */
static void
begin(struct wandb *w, const struct wandb_run *r)
{
	struct str inner = { 0 }, outer = { 0 };
	char host[256] = "localhost";

	gethostname(host, sizeof host - 1);
	str_adds(&w->out, ":W&B");
	protobuf_fixed(&w->out, 0xbee1, 2);
	str_addc(&w->out, '\0');
	w->at = w->out.len;
	protobuf_string(&inner, 1, "mikoshi");
	protobuf_bytes(&outer, 1, inner.buf, inner.len);
	add_record(w, HEADER, &outer);
	str_clear(&inner);
	str_clear(&outer);
	protobuf_int(&inner, 1, (int64_t)w->start);
	protobuf_int(&inner, 2, (int64_t)((w->start - floor(w->start)) * 1e9));
	protobuf_string(&outer, 1, r->id);
	if (r->entity)
		protobuf_string(&outer, 2, r->entity);
	protobuf_string(&outer, 3, r->project);
	if (r->name)
		protobuf_string(&outer, 8, r->name);
	protobuf_string(&outer, 13, host);
	protobuf_bytes(&outer, 17, inner.buf, inner.len);
	add_record(w, RUN, &outer);
	str_release(&inner);
	str_release(&outer);
}

struct wandb *
wandb_open(const struct wandb_run *r, struct err *e)
{
	struct wandb *w = mem_zalloc(1, sizeof *w);

	w->clock = r->clock;
	w->start = w->clock();
	if (create(w, r, e) < 0) {
		free(w);
		return NULL;
	}
	begin(w, r);
	return w;
}

const char *
wandb_dir(const struct wandb *w)
{
	return w->dir;
}

/* --- figures ---------------------------------------------------------------------------------- */

static void
end_row(struct wandb *w)
{
	struct str step = { 0 };
	double now = w->clock();

	if (!w->row.len)
		return;
	add_number(&w->row, "_step", (double)w->step);
	add_number(&w->row, "_timestamp", now);
	add_number(&w->row, "_runtime", now - w->start);
	protobuf_int(&step, 1, w->step);
	protobuf_bytes(&w->row, 2, step.buf, step.len);
	add_record(w, HISTORY, &w->row);
	str_clear(&w->row);
	str_release(&step);
}

/* There are a few dozen keys. */
static void
remember(struct wandb *w, const char *key, double value)
{
	int i = 0;

	while (i < w->figures && strcmp(w->figure[i].key, key) != 0)
		i++;
	if (i == w->figures) {
		w->figure = mem_realloc(w->figure, (size_t)i + 1, sizeof *w->figure);
		w->figure[w->figures++].key = mem_strdup(key);
	}
	w->figure[i].value = value;
}

void
wandb_scalar(struct wandb *w, const char *key, int64_t step, double value)
{
	if (step != w->step)
		end_row(w);
	w->step = step;
	add_number(&w->row, key, value);
	remember(w, key, value);
}

void
wandb_text(struct wandb *w, const char *name, const char *text)
{
	struct err ignored;
	struct json *j = json_parse(text, strlen(text), name, &ignored);
	bool number = j && (json_root(j)->type == JSON_INT || json_root(j)->type == JSON_FLOAT);
	struct str quoted = { 0 };

	str_add_json(&quoted, text, strlen(text));
	add_item(&w->config, name, !strcmp(text, "True") ? "true" : number ? text : quoted.buf);
	str_release(&quoted);
	json_free(j);
}

void
wandb_summary(struct wandb *w)
{
	struct str inner = { 0 };

	for (int i = 0; i < w->figures; i++)
		add_number(&inner, w->figure[i].key, w->figure[i].value);
	if (inner.len)
		add_record(w, SUMMARY, &inner);
	str_release(&inner);
}

/* What came after bytes that were lost could not be read. */
int
wandb_flush(struct wandb *w, struct err *e)
{
	if (w->config.len)
		add_record(w, CONFIG, &w->config);
	str_clear(&w->config);
	if (!w->lost && io_write_all(w->fd, w->out.buf, w->out.len) < 0)
		w->lost = errno;
	str_clear(&w->out);
	if (!w->lost)
		return 0;
	errno = w->lost;
	return err_sys(e, "write", w->path);
}

/* How the run ended: its exit status, and the seconds that it took. */
static void
add_end(struct wandb *w, int status)
{
	struct str inner = { 0 };

	protobuf_int(&inner, 1, status);
	protobuf_int(&inner, 2, (int64_t)(w->clock() - w->start));
	add_record(w, EXIT, &inner);
	str_release(&inner);
}

int
wandb_close(struct wandb *w, int status, struct err *e)
{
	int rc;

	if (!w)
		return 0;
	end_row(w);
	wandb_summary(w);
	add_end(w, status);
	rc = wandb_flush(w, e);
	if (close(w->fd) != 0 && rc == 0)
		rc = err_sys(e, "write", w->path);
	for (int i = 0; i < w->figures; i++)
		free(w->figure[i].key);
	free(w->figure);
	str_release(&w->out);
	str_release(&w->row);
	str_release(&w->config);
	free(w);
	return rc;
}
