/* backend.c - the registry of devices, and the host as a device */
#include "tests/check.h"
#include "train/backend.h"
#include "train/ops.h"

#include <stdlib.h>

static void
test_registry(void)
{
	struct err e = { "" };
	int n = 0;

	while (backend_names[n])
		n++;
	CHECK(n > 0);
	CHECK_STR(backend_names[n - 1], "cpu");
	CHECK(backend_find("cpu", &e) == &backend_cpu);
	CHECK(backend_choose("cpu", &e) == &backend_cpu);
	CHECK(backend_choose("auto", &e) != NULL);
	CHECK(backend_choose("tpu", &e) == NULL);
	CHECK_STR(e.msg, "backend 'tpu' is not built in (see --version)");
}

/* A backend outside the program: opened, or one line that says what is missing. tests/opened */
static void
test_opened(void)
{
	struct err e = { "" };
	const struct backend *b;
	char path[4096];
	const char *dir = getenv("B");

	CHECK(dir != NULL);
	snprintf(path, sizeof path, "%s/tests/opened/same.so", dir);
	b = backend_opened(path, &e);
	CHECK(b != NULL);
	CHECK_STR(b->name, "toy");
	CHECK(backend_opened(path, &e) == b);
	snprintf(path, sizeof path, "%s/tests/opened/other.so", dir);
	CHECK(backend_opened(path, &e) == NULL);
	CHECK(strstr(e.msg, "other.so is of another build: 0.0.1, commit 01234567") != NULL);
	snprintf(path, sizeof path, "%s/tests/opened/needs.so", dir);
	CHECK(backend_opened(path, &e) == NULL);
	CHECK_STR(
	    e.msg, "libother.so.1: cannot open shared object file: No such file or directory");
	CHECK(backend_opened("libm.so.6", &e) == NULL);
	CHECK(strstr(e.msg, "undefined symbol: " BACKEND_OBJECT) != NULL);
	CHECK(backend_opened("mikoshi-toy.so", &e) == NULL);
	CHECK_STR(
	    e.msg, "mikoshi-toy.so: cannot open shared object file: No such file or directory");
}

/* Both tables have every operation, and the run's type selects the table. */
static void
test_tables(void)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64 };
	const struct ops *table[4];

	for (int i = 0; i < 4; i++) {
		struct device_config config = { .num_threads = 2, .dtype = types[i] };
		struct err e;
		struct device *d = backend_cpu.open(&config, &e);
		void (*entry[sizeof *table[0] / sizeof(void (*)(void))])(void);

		table[i] = backend_cpu.stream(d, STREAM_COMPUTE)->ops;
		memcpy(entry, table[i], sizeof entry);
		for (size_t j = 0; j < sizeof entry / sizeof *entry; j++)
			CHECK(entry[j] != NULL);
		backend_cpu.close(d);
	}
	CHECK(table[0] == table[1] && table[0] == table[2] && table[0] != table[3]);
}

static void
test_device(void)
{
	struct device_config config = { .num_threads = 3, .dtype = DTYPE_F32 };
	struct err e;
	struct device *d = backend_cpu.open(&config, &e);
	struct stream *st = backend_cpu.stream(d, STREAM_COUNT - 1);
	struct event *event = backend_cpu.event(d);
	char text[8] = "mikoshi", back[8] = "", *p = backend_cpu.alloc(d, 1000, &e);

	CHECK(p != NULL && (uintptr_t)p % 256 == 0);
	for (int i = 0; i < 1000; i++)
		CHECK(p[i] == 0);
	backend_cpu.copy_in(st, p, text, sizeof text);
	backend_cpu.record(st, event);
	backend_cpu.wait(st, event);
	backend_cpu.copy_out(st, back, p, sizeof back);
	CHECK(backend_cpu.sync(st, &e) == 0);
	CHECK_STR(back, text);
	CHECK(backend_cpu.workspace(&config) > 0 && backend_cpu.workspace(&config) % 3 == 0);
	CHECK(backend_cpu.alloc(d, SIZE_MAX, &e) == NULL);
	CHECK(strstr(e.msg, "cannot allocate") == e.msg);
	backend_cpu.release(d, p);
	backend_cpu.close(d);
	backend_cpu.close(NULL);
}

int
main(void)
{
	test_registry();
	test_opened();
	test_tables();
	test_device();
	return check_done();
}
