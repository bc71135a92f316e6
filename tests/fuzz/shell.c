/*
 * shell.c - fuzz target: a shell script; arguments and a filled hole are the same for all
 *
 * Whatever is found can be shown, and nothing but the text is opened.
 */
#include "lib/script/script.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *word[] = { "one", "two words", "A=1" };
	struct script_request r = { .name = "dir/fuzz.sh", .word = word, .words = 3 };
	char *text = mem_strndup((const char *)data, size);
	struct str shown = { 0 };
	struct script s;
	struct err e;

	if (script_read_text(&s, &r, text, &e) == 0) {
		script_show(&shown, s.world);
		for (int i = 0; i < s.options; i++) {
			script_show(&shown, s.option[i]);
			if (script_has_hole(s.option[i]))
				script_names(&shown, s.option[i]);
		}
		if (strchr(shown.buf, '\1') != strchr(shown.buf, '\2'))
			abort();
	} else if (!strstr(e.msg, "fuzz.sh")) {
		abort();
	}
	str_release(&shown);
	script_release(&s);
	free(text);
	return 0;
}
