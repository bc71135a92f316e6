/* rows.c - fuzz target of mplan fit: any bytes as a table of measured steps; what is taken has a
 * time that can be fitted */
#include "plan/rows.h"
#include "tests/fuzz/input.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct input file;
	struct measured_rows rows = { 0 };
	struct str why = { 0 };
	const struct rows_wanted wanted = { .why = &why };
	struct err e;

	if (rows_read(&rows, input_file(&file, data, size), &wanted, &e) == 0)
		for (int i = 0; i < rows.count; i++)
			if (!(rows.item[i].seconds > 0) || !isfinite(rows.item[i].seconds))
				abort();
	rows_release(&rows);
	str_release(&why);
	return 0;
}
