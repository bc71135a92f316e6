/* wandb.c - reads W&B's files back: pieces, checksums, records; what a run writes */
#include "lib/base/io.h"
#include "lib/base/prog.h"
#include "tests/check.h"
#include "train/config/config.h"
#include "train/report/metrics.h"
#include "train/report/wandb.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDS = 4000, ITEMS = 40 };

/* A record: its field, its figures or texts, and the step or exit status. */
struct item {
	char key[64], json[256];
};
struct record {
	int number, kind, count;
	struct item item[ITEMS];
	int64_t step;
};

struct reader {
	const unsigned char *at, *end;
};

static uint64_t
read_varint(struct reader *r)
{
	uint64_t x = 0;

	for (int shift = 0; r->at < r->end; shift += 7) {
		unsigned char byte = *r->at++;

		x |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			break;
	}
	return x;
}

static struct reader
read_bytes(struct reader *r)
{
	uint64_t len = read_varint(r);
	struct reader inner = { r->at, r->at };

	CHECK(len <= (uint64_t)(r->end - r->at));
	if (len > (uint64_t)(r->end - r->at))
		len = 0;
	r->at += len;
	inner.end = r->at;
	return inner;
}

static void
read_text(struct reader *r, char *out, size_t cap)
{
	struct reader text = read_bytes(r);

	snprintf(out, cap, "%.*s", (int)(text.end - text.at), (const char *)text.at);
}

/* The polynomial of zlib and Ethernet, as its definition has it: bit by bit. */
static uint32_t
crc32_bits(const unsigned char *p, size_t len, uint32_t crc)
{
	for (size_t i = 0; i < len; i++)
		for (int bit = 0; bit < 8; bit++) {
			uint32_t low = (crc ^ (uint32_t)p[i] >> bit) & 1;

			crc = crc >> 1 ^ (low ? 0xedb88320u : 0);
		}
	return crc;
}

/* Joins the pieces of the file. Returns the number of records; ends[k] is where the k-th ends. */
static int
read_pieces(const unsigned char *p, size_t len, unsigned char *out, size_t ends[RECORDS])
{
	size_t at = 7, have = 0;
	int n = 0;

	CHECK(len >= 7 && !memcmp(p, ":W&B\xe1\xbe\0", 7));
	while (at + 7 <= len) {
		size_t size = p[at + 4] | (size_t)p[at + 5] << 8;
		uint32_t sum = p[at] | (uint32_t)p[at + 1] << 8 | (uint32_t)p[at + 2] << 16 |
		    (uint32_t)p[at + 3] << 24;
		int type = p[at + 6];

		CHECK(at / 32768 == (at + 6 + size) / 32768 && at + 7 + size <= len);
		CHECK(~crc32_bits(p + at + 6, size + 1, ~0u) == sum);
		CHECK(type >= 1 && type <= 4);
		CHECK((type == 1 || type == 2) == (have == (n ? ends[n - 1] : 0)) || size == 0);
		memcpy(out + have, p + at + 7, size);
		have += size;
		at += 7 + size;
		if ((type == 1 || type == 4) && n < RECORDS)
			ends[n++] = have;
		for (size_t left = 32768 - at % 32768; left < 7 && at < len; left--)
			CHECK(p[at++] == 0);
	}
	CHECK(at == len);
	return n;
}

/* 1 {1: key, 16: JSON}, many; of a history 2 {1: step}; of an end 1: the status. */
static void
read_fields(struct record *r, struct reader in)
{
	while (in.at < in.end) {
		uint64_t key = read_varint(&in);
		struct reader inner;

		if ((key & 7) == 0) {
			r->step =
			    key >> 3 == 1 ? (int64_t)read_varint(&in) : (read_varint(&in), r->step);
			continue;
		}
		inner = read_bytes(&in);
		if (r->kind == 2 && key >> 3 == 2) {
			CHECK(read_varint(&inner) == 8);
			r->step = (int64_t)read_varint(&inner);
			continue;
		}
		CHECK(key >> 3 == 1 && r->count < ITEMS);
		CHECK(read_varint(&inner) == (1 << 3 | 2));
		read_text(&inner, r->item[r->count].key, sizeof r->item->key);
		CHECK(read_varint(&inner) == (16 << 3 | 2));
		read_text(&inner, r->item[r->count].json, sizeof r->item->json);
		r->count += r->count < ITEMS - 1;
	}
}

/* Fields of the run, by their number. */
static void
read_run(struct record *r, struct reader in)
{
	while (in.at < in.end) {
		uint64_t key = read_varint(&in);

		CHECK((key & 7) == 2 && key >> 3 < ITEMS);
		read_text(&in, r->item[key >> 3].json, sizeof r->item->json);
	}
}

/* Reads every record; the caller frees them. */
static int
read_file(const char *path, struct record **out)
{
	static size_t ends[RECORDS];
	struct err err;
	char *bytes, *joined;
	size_t len;
	int n;

	CHECK(io_read_file(path, 0, &bytes, &len, &err) == 0);
	joined = calloc(1, len + 1);
	*out = calloc(RECORDS, sizeof **out);
	n = read_pieces((unsigned char *)bytes, len, (unsigned char *)joined, ends);
	for (int i = 0; i < n; i++) {
		struct reader r = { (unsigned char *)joined + (i ? ends[i - 1] : 0),
			(unsigned char *)joined + ends[i] };
		struct record *record = *out + i;

		CHECK(read_varint(&r) == 8);
		record->number = (int)read_varint(&r);
		record->kind = (int)(read_varint(&r) >> 3);
		if (record->kind == 17)
			read_run(record, read_bytes(&r));
		else if (record->kind != 21)
			read_fields(record, read_bytes(&r));
		else
			read_bytes(&r);
		CHECK(r.at == r.end && record->number == i + 1);
	}
	free(bytes);
	free(joined);
	return n;
}

/* The value of a key, or "". */
static const char *
value(const struct record *r, const char *key)
{
	for (int i = 0; i < r->count; i++)
		if (!strcmp(r->item[i].key, key))
			return r->item[i].json;
	return "";
}

static double
noon(void)
{
	return 1795950000.25;
}

/* The path of the only file in the only directory of `dir`/wandb, or of the n-th. */
static void
file_of(const char *dir, int nth, char *path, size_t cap)
{
	char wandb[512];
	struct dirent **all;
	int n;

	snprintf(wandb, sizeof wandb, "%s/wandb", dir);
	n = scandir(wandb, &all, NULL, alphasort);
	CHECK(n > 2 + nth);
	path[0] = '\0';
	for (int i = 0; i < n; i++) {
		const char *name = all[i]->d_name, *id = strrchr(name, '-');

		if (i == 2 + nth && id)
			snprintf(path, cap, "%s/%s/run%s.wandb", wandb, name, id);
	}
	for (int i = 0; i < n; i++)
		free(all[i]);
	free(all);
}

/* Every record of a small file. */
static void
test_records(const char *top)
{
	struct wandb_run run = { top, "plans", "abcd1234", "team", "first", noon };
	struct err err;
	struct wandb *w = wandb_open(&run, &err);
	char path[1024], files[1100];
	struct record *r;
	struct stat st;
	int n;

	CHECK(w);
	snprintf(files, sizeof files, "%s/files", wandb_dir(w));
	CHECK(stat(files, &st) == 0 && S_ISDIR(st.st_mode));
	wandb_text(w, "lr", "0.001");
	wandb_text(w, "bf16", "True");
	wandb_text(w, "path", "a \"b\"\n");
	wandb_text(w, "octal", "010");
	wandb_scalar(w, "lm loss", 1, 10.5);
	wandb_scalar(w, "grad-norm", 1, NAN);
	CHECK(wandb_flush(w, &err) == 0);
	wandb_scalar(w, "lm loss", (int64_t)1 << 40, -INFINITY);
	CHECK(wandb_flush(w, &err) == 0);
	wandb_scalar(w, "lm loss validation", (int64_t)1 << 40, 0.1);
	CHECK(wandb_close(w, 3, &err) == 0);
	file_of(top, 0, path, sizeof path);
	n = read_file(path, &r);
	CHECK(n == 7 && r[0].kind == 21 && r[1].kind == 17 && r[2].kind == 5 && r[3].kind == 2);
	CHECK(r[4].kind == 2 && r[5].kind == 3 && r[6].kind == 18 && r[6].step == 3);
	CHECK_STR(r[1].item[1].json, "abcd1234");
	CHECK_STR(r[1].item[2].json, "team");
	CHECK_STR(r[1].item[3].json, "plans");
	CHECK_STR(r[1].item[8].json, "first");
	/* seconds 1795950000, nanos 250000000 */
	CHECK(!memcmp(r[1].item[17].json, "\x08\xb0\x8b\xb0\xd8\x06\x10\x80\xe5\x9a\x77", 11));
	CHECK_STR(value(&r[2], "lr"), "0.001");
	CHECK_STR(value(&r[2], "bf16"), "true");
	CHECK_STR(value(&r[2], "path"), "\"a \\\"b\\\"\\u000a\"");
	CHECK_STR(value(&r[2], "octal"), "\"010\"");
	CHECK(r[3].step == 1 && r[3].count == 5 && r[4].step == (int64_t)1 << 40);
	CHECK_STR(value(&r[3], "lm loss"), "10.5");
	CHECK_STR(value(&r[3], "grad-norm"), "NaN");
	CHECK_STR(value(&r[3], "_step"), "1");
	CHECK_STR(value(&r[3], "_timestamp"), "1795950000.25");
	CHECK_STR(value(&r[3], "_runtime"), "0");
	CHECK_STR(value(&r[4], "lm loss"), "-Infinity");
	CHECK_STR(value(&r[4], "lm loss validation"), "0.10000000000000001");
	CHECK_STR(value(&r[5], "lm loss"), "-Infinity");
	CHECK_STR(value(&r[5], "grad-norm"), "NaN");
	free(r);
}

/* Records of many lengths meet the ends of blocks in every way, and one is longer than a block. A
 * second start of the same second has a name of its own. */
static void
test_blocks(const char *top)
{
	struct wandb_run run = { top, "plans", "abcd1234", NULL, NULL, noon };
	struct err err;
	struct wandb *w = wandb_open(&run, &err);
	char path[1024], key[64], *text = mem_alloc(100001, 1);
	struct record *r;
	int n, bad = 0;

	CHECK(w);
	memset(text, 'x', 100000);
	text[100000] = '\0';
	wandb_text(w, "long", text);
	for (int i = 1; i <= 3000; i++) {
		snprintf(key, sizeof key, "%.*s", 1 + i % 53,
		    "keys of different lengths, one of which is this: keys");
		wandb_scalar(w, key, i, i / 8.0);
		CHECK(wandb_flush(w, &err) == 0);
	}
	CHECK(wandb_close(w, 0, &err) == 0);
	file_of(top, 1, path, sizeof path);
	n = read_file(path, &r);
	CHECK(n == 3005);
	for (int i = 1; i <= 3000; i++)
		bad += r[2 + i].step != i || atof(r[2 + i].item[0].json) != i / 8.0;
	CHECK(bad == 0);
	free(r);
	free(text);
}

/* What a killed run leaves ends with a whole record. */
static void
test_prefix(const char *top)
{
	struct wandb_run run = { top, "plans", "killed", NULL, NULL, noon };
	struct err err;
	struct wandb *w = wandb_open(&run, &err);
	char path[1024];
	struct record *r;

	CHECK(w);
	for (int i = 1; i <= 3; i++) {
		wandb_scalar(w, "lm loss", i, i);
		CHECK(wandb_flush(w, &err) == 0);
	}
	file_of(top, 0, path, sizeof path);
	CHECK(read_file(path, &r) == 4 && r[3].step == 2);
	free(r);
	CHECK(wandb_close(w, 0, &err) == 0);
}

/* A disk that is full: flush and close both say so, and what fitted stays. */
static void
test_full_disk(const char *top)
{
	struct wandb_run run = { top, "plans", "full", NULL, NULL, noon };
	struct rlimit old, small;
	struct err err;
	struct wandb *w = wandb_open(&run, &err);

	CHECK(w && wandb_flush(w, &err) == 0);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 64;
	setrlimit(RLIMIT_FSIZE, &small);
	wandb_scalar(w, "lm loss", 1, 2.0);
	wandb_scalar(w, "lm loss", 2, 2.0);
	CHECK(wandb_flush(w, &err) == -1);
	CHECK(strstr(err.msg, "cannot write") && strstr(err.msg, "File too large"));
	CHECK(wandb_close(w, 0, &err) == -1);
	setrlimit(RLIMIT_FSIZE, &old);
	CHECK(wandb_close(NULL, 0, &err) == 0);
	run.dir = "/dev/null";
	CHECK(!wandb_open(&run, &err) && strstr(err.msg, "/dev/null"));
}

/* Ids are those of files, and differ. */
static void
test_ids(void)
{
	char one[WANDB_ID], two[WANDB_ID];

	wandb_make_id(one);
	wandb_make_id(two);
	CHECK(strspn(one, "0123456789abcdefghijklmnopqrstuvwxyz") == 8 && strlen(one) == 8);
	CHECK(strcmp(one, two) != 0);
}

/* A start of a run in `save` that takes one step. */
static void
one_step(const char *save, int64_t iteration, const char *more)
{
	char *argv[] = { "mtrain", "-q", "--num-layers=1", "--hidden-size=8",
		"--num-attention-heads=2", "--vocab-size=16", "--seq-length=4",
		"--global-batch-size=4", "--train-iters=20", "--lr=0.125", "--mock-data",
		"--wandb-project=plans", "--save", (char *)(uintptr_t)save,
		(char *)(uintptr_t)more };
	struct step_metrics s = {
		.iteration = iteration, .samples = 4, .lm_loss = 2, .grad_norm = 3, .seconds = 1
	};
	struct train_config c;
	struct metrics *m;
	struct err err;

	CHECK(train_parse(&c, sizeof argv / sizeof *argv, argv, &err) == 0);
	CHECK(train_configure(&c, 1, &err) == 0);
	if (iteration > 1)
		c.start = START_RESUME;
	m = metrics_open(&c, 1, iteration - 1, &err);
	CHECK(m);
	if (m) {
		metrics_step(m, &s);
		CHECK(metrics_close(m, 0, &err) == 0);
	}
	train_release(&c);
}

/* The scalars are TensorBoard's, but by steps alone. A run that resumes has a file more, and the
 * same id; a new run has another, unless one is given. */
static void
test_run(const char *top)
{
	char save[256], path[1024], first[256], second[256];
	struct record *r;
	struct err err;
	int n;

	snprintf(save, sizeof save, "%s/save", top);
	CHECK(io_mkdir_p(save, &err) == 0);
	one_step(save, 1, "--wandb-exp-name=name");
	one_step(save, 2, "--wandb-exp-name=name");
	file_of(save, 0, path, sizeof path);
	n = read_file(path, &r);
	CHECK(n == 6 && r[3].step == 1);
	snprintf(first, sizeof first, "%s", r[1].item[1].json);
	CHECK_STR(r[1].item[8].json, "name");
	CHECK_STR(value(&r[2], "hidden_size"), "8");
	CHECK_STR(value(&r[3], "learning-rate"), "0");
	CHECK_STR(value(&r[3], "lm loss"), "2");
	CHECK_STR(value(&r[3], "grad-norm"), "3");
	CHECK_STR(value(&r[3], "iteration-time"), "1");
	CHECK_STR(value(&r[3], "lm loss vs samples"), "");
	free(r);
	file_of(save, 1, path, sizeof path);
	n = read_file(path, &r);
	CHECK(n == 6 && r[3].step == 2);
	CHECK_STR(r[1].item[1].json, first);
	free(r);
	CHECK(io_remove_tree(save, &err) == 0 && io_mkdir_p(save, &err) == 0);
	one_step(save, 1, "-q");
	file_of(save, 0, path, sizeof path);
	read_file(path, &r);
	snprintf(second, sizeof second, "%s", r[1].item[1].json);
	CHECK(strcmp(first, second) != 0);
	free(r);
	CHECK(io_remove_tree(save, &err) == 0);
	one_step(save, 1, "--wandb-id=given");
	file_of(save, 0, path, sizeof path);
	read_file(path, &r);
	CHECK_STR(r[1].item[1].json, "given");
	free(r);
}

int
main(void)
{
	char top[] = "/tmp/wandbXXXXXX", dir[64];
	struct err err;

	CHECK(mkdtemp(top));
	prog_quiet(-1);
	test_records(top);
	test_blocks(top);
	snprintf(dir, sizeof dir, "%s/killed", top);
	test_prefix(dir);
	snprintf(dir, sizeof dir, "%s/full", top);
	test_full_disk(dir);
	test_ids();
	test_run(top);
	CHECK(io_remove_tree(top, &err) == 0);
	return check_done();
}
