/* tensorboard.c - reads event files back: frames, checksums, fields */
#include "train/tensorboard.h"

#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "tests/check.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* What was found in one event; text is the version or the tag. */
struct event {
	double wall_time;
	int64_t step;
	bool is_version;
	char text[64];
	float value;
};

struct reader {
	const unsigned char *at, *end;
	bool bad;
};

static uint64_t
read_fixed(struct reader *r, int bytes)
{
	uint64_t x = 0;

	if (r->end - r->at < bytes) {
		r->bad = true;
		r->at = r->end;
		return 0;
	}
	for (int i = 0; i < bytes; i++)
		x |= (uint64_t)*r->at++ << 8 * i;
	return x;
}

static uint64_t
read_varint(struct reader *r)
{
	uint64_t x = 0, byte = 0x80;

	for (int shift = 0; byte & 0x80 && shift < 64 && !r->bad; shift += 7) {
		byte = read_fixed(r, 1);
		x |= (byte & 0x7f) << shift;
	}
	return x;
}

/* The bytes of a length-prefixed field. */
static struct reader
read_bytes(struct reader *r)
{
	uint64_t len = read_varint(r);
	struct reader inner = { r->at, r->at, false };

	if (len > (uint64_t)(r->end - r->at)) {
		r->bad = true;
		return inner;
	}
	r->at += len;
	inner.end = r->at;
	return inner;
}

static void
read_text(struct reader *r, struct event *e)
{
	struct reader text = read_bytes(r);
	size_t len = (size_t)(text.end - text.at);

	CHECK(len < sizeof e->text);
	memcpy(e->text, text.at, len < sizeof e->text ? len : 0);
}

/* Summary { 1: Value { 1: tag, 2: simple_value } }, one value. */
static void
read_summary(struct reader *r, struct event *e)
{
	struct reader summary = read_bytes(r), value;
	uint32_t u;

	CHECK(read_varint(&summary) == (1 << 3 | 2));
	value = read_bytes(&summary);
	CHECK(summary.at == summary.end);
	CHECK(read_varint(&value) == (1 << 3 | 2));
	read_text(&value, e);
	CHECK(read_varint(&value) == (2 << 3 | 5));
	u = (uint32_t)read_fixed(&value, 4);
	memcpy(&e->value, &u, 4);
	CHECK(value.at == value.end && !value.bad && !summary.bad);
}

static struct event
read_event(struct reader r)
{
	struct event e = { 0 };
	uint64_t u, key;

	CHECK(read_varint(&r) == (1 << 3 | 1));
	u = read_fixed(&r, 8);
	memcpy(&e.wall_time, &u, 8);
	CHECK(read_varint(&r) == (2 << 3 | 0));
	e.step = (int64_t)read_varint(&r);
	key = read_varint(&r);
	CHECK(key == (3 << 3 | 2) || key == (5 << 3 | 2));
	e.is_version = key == (3 << 3 | 2);
	if (e.is_version)
		read_text(&r, &e);
	else
		read_summary(&r, &e);
	CHECK(r.at == r.end && !r.bad);
	return e;
}

/* The checksum as it was before it was masked. */
static uint32_t
unmask(uint64_t masked)
{
	uint32_t x = (uint32_t)masked - 0xa282ead8u;

	return x >> 17 | x << 15;
}

/* Reads every record; returns how many, of which the first cap are in out. */
static int
read_file(const char *path, struct event *out, int cap)
{
	struct err err;
	char *bytes;
	size_t len;
	int n = 0;

	CHECK(io_read_file(path, 0, &bytes, &len, &err) == 0);
	for (struct reader r = { (unsigned char *)bytes, (unsigned char *)bytes + len, false };
	     r.at < r.end && !r.bad; n++) {
		const unsigned char *head = r.at;
		uint64_t size = read_fixed(&r, 8);

		CHECK(unmask(read_fixed(&r, 4)) == hash_crc32c(head, 8));
		CHECK(size + 4 <= (uint64_t)(r.end - r.at));
		if (size + 4 > (uint64_t)(r.end - r.at))
			break;
		struct event e = read_event((struct reader){ r.at, r.at + size, false });

		if (n < cap)
			out[n] = e;
		head = r.at;
		r.at += size;
		CHECK(unmask(read_fixed(&r, 4)) == hash_crc32c(head, size));
	}
	free(bytes);
	return n;
}

/* The one file of a directory. */
static void
only_file(const char *dir, char *path, size_t cap)
{
	DIR *d = opendir(dir);
	int n = 0;

	for (struct dirent *entry; d && (entry = readdir(d));)
		if (entry->d_name[0] != '.') {
			CHECK(strncmp(entry->d_name, "events.out.tfevents.", 20) == 0);
			CHECK(strcmp(entry->d_name + strlen(entry->d_name) - 3, ".v2") == 0);
			snprintf(path, cap, "%s/%s", dir, entry->d_name);
			n++;
		}
	CHECK(n == 1);
	if (d)
		closedir(d);
}

static void
test_scalars(const char *top)
{
	struct event e[5] = { 0 };
	struct err err;
	char dir[256], path[512] = "";
	struct tensorboard *t;

	snprintf(dir, sizeof dir, "%s/deep/runs", top);
	t = tensorboard_open(dir, &err);
	CHECK(t);
	if (!t)
		return;
	only_file(dir, path, sizeof path);
	tensorboard_scalar(t, "lm loss", 1, 10.5);
	CHECK(tensorboard_flush(t, &err) == 0);
	CHECK(read_file(path, e, 5) == 2);
	tensorboard_scalar(t, "grad norm", 300, -0.1);
	tensorboard_scalar(t, "lm loss", (int64_t)1 << 40, NAN);
	CHECK(tensorboard_close(t, &err) == 0);
	CHECK(read_file(path, e, 5) == 4);
	CHECK(e[0].is_version && fabs(e[0].wall_time - (double)time(NULL)) < 60);
	CHECK_STR(e[0].text, "brain.Event:2");
	CHECK(!e[1].is_version && e[1].step == 1 && e[1].value == 10.5f);
	CHECK_STR(e[1].text, "lm loss");
	CHECK(e[2].step == 300 && e[2].value == -0.1f && e[2].wall_time >= e[1].wall_time);
	CHECK_STR(e[2].text, "grad norm");
	CHECK(e[3].step == (int64_t)1 << 40 && isnan(e[3].value));
}

static void
test_failure(const char *top)
{
	struct err err;
	char path[300];

	snprintf(path, sizeof path, "%s/file", top);
	CHECK(io_write_file(path, "x", 1, &err) == 0);
	CHECK(!tensorboard_open(path, &err));
	CHECK(strstr(err.msg, path));
	CHECK(tensorboard_close(NULL, &err) == 0);
}

/* A disk that is full after the first record: flush and close both say so. */
static void
test_full_disk(const char *top)
{
	struct rlimit old, small;
	struct err err;
	char dir[256];
	struct tensorboard *t;

	snprintf(dir, sizeof dir, "%s/full", top);
	t = tensorboard_open(dir, &err);
	CHECK(t && tensorboard_flush(t, &err) == 0);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 64;
	setrlimit(RLIMIT_FSIZE, &small);
	tensorboard_scalar(t, "lm loss", 1, 2.0);
	CHECK(tensorboard_flush(t, &err) == -1);
	CHECK(strstr(err.msg, "cannot write") && strstr(err.msg, "File too large"));
	CHECK(tensorboard_close(t, &err) == -1);
	setrlimit(RLIMIT_FSIZE, &old);
}

int
main(void)
{
	char top[] = "/tmp/tensorboardXXXXXX";
	struct err err;

	CHECK(mkdtemp(top));
	test_scalars(top);
	test_failure(top);
	test_full_disk(top);
	CHECK(io_remove_tree(top, &err) == 0);
	return check_done();
}
