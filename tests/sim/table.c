/* table.c - sums over many seeds, for people and for a file */
#include "tests/sim/table.h"
#include "lib/base/outfile.h"

static const char *const status_names[STATUSES] = { "0", "1", "2", "3", "4", "5", "6", "7",
	"signal" };

void
table_add(struct table *t, const struct result *r)
{
	t->seeds++;
	t->failed += r->failed;
	t->starts += r->starts;
	t->yields += r->yields;
	t->seconds += r->seconds;
	t->logs += (uint32_t)r->hash;
	for (int i = 0; i < STRIKE_KIND_COUNT; i++)
		t->happened[i] += r->happened[i];
	for (int i = 0; i < COUNT_COUNT; i++)
		t->count[i] += r->count[i];
	for (int i = 0; i < STATUSES; i++)
		t->status[i] += r->status[i];
	for (int i = 0; i < CALL_COUNT; i++) {
		t->calls[r->layout][i] += r->calls[i];
		t->at[r->layout][i] += r->at[i];
	}
}

/* What calls there are, of which layouts, and at which of them something has happened. */
static void
print_sites(const struct table *t)
{
	int sites = 0, struck = 0;

	for (int i = 0; i < CALL_COUNT; i++) {
		long calls = 0, at = 0;

		for (int k = 0; k < LAYOUTS; k++) {
			calls += t->calls[k][i];
			at += t->at[k][i];
			sites += t->calls[k][i] > 0;
			struck += t->at[k][i] > 0;
		}
		printf("call\t%s\t%ld\tstruck\t%ld\n", call_names[i], calls, at);
	}
	printf("sites (a kind of call in a layout): %d, struck: %d\n", sites, struck);
}

void
table_print(const struct table *t)
{
	for (int i = 0; i < STRIKE_KIND_COUNT; i++)
		printf("fault\t%s\t%ld\n", strike_names[i], t->happened[i]);
	for (int i = 0; i < COUNT_COUNT; i++)
		printf("also\t%s\t%ld\n", count_names[i], t->count[i]);
	print_sites(t);
	for (int i = 0; i < STATUSES; i++)
		if (t->status[i])
			printf("status\t%s\t%ld\n", status_names[i], t->status[i]);
	printf("%ld seeds, %ld failed: %ld starts, %ld calls, %.1f simulated hours, %.0f seeds an "
	       "hour\n",
	    t->seeds, t->failed, t->starts, t->yields, t->seconds / 3600,
	    (double)t->seeds / t->real * 3600);
}

static void
row(struct str *s, const char *kind, const char *name, double n)
{
	str_addf(s, "%s\t%s\t%.15g\n", kind, name, n);
}

int
table_write(const struct table *t, const char *path, struct err *e)
{
	struct str s = { 0 };
	int rc;

	row(&s, "total", "seeds", (double)t->seeds);
	row(&s, "total", "failed", (double)t->failed);
	row(&s, "total", "starts", (double)t->starts);
	row(&s, "total", "calls", (double)t->yields);
	row(&s, "total", "simulated seconds", t->seconds);
	row(&s, "total", "seconds", t->real);
	row(&s, "total", "logs", (double)t->logs);
	for (int i = 0; i < STRIKE_KIND_COUNT; i++)
		row(&s, "fault", strike_names[i], (double)t->happened[i]);
	for (int i = 0; i < COUNT_COUNT; i++)
		row(&s, "also", count_names[i], (double)t->count[i]);
	for (int i = 0; i < STATUSES; i++)
		row(&s, "status", status_names[i], (double)t->status[i]);
	for (int k = 0; k < LAYOUTS; k++)
		for (int i = 0; i < CALL_COUNT; i++) {
			char site[80];

			snprintf(site, sizeof site, "%s of %s", call_names[i], layouts[k].name);
			if (t->calls[k][i])
				row(&s, "site", site, (double)t->calls[k][i]);
			if (t->calls[k][i])
				row(&s, "struck", site, (double)t->at[k][i]);
		}
	rc = outfile_write(path, s.buf, s.len, e);
	str_release(&s);
	return rc;
}
