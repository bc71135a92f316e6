/* lists.c - names in the registries: each is there once, and can be read back from what holds it */
#include "lib/model/family.h"
#include "lib/model/lr.h"
#include "lib/model/optim_rule.h"
#include "tests/check.h"

#include <string.h>

/* One line that names the file to mend, where a rule is broken. */
static void
rule(bool holds, const char *file, const char *list, const char *word, const char *what)
{
	check_count++;
	check_failures += !holds;
	if (!holds)
		fprintf(stderr, "%s: %s: '%s' %s\n", file, list, word, what);
}

/* Words of state.conf have no blanks, and are not numbers, which stand for others in older files.
 */
static void
check_words(const char *file, const char *list, const char *const *words)
{
	for (int i = 0; words[i]; i++) {
		bool twice = false;

		for (int k = 0; k < i; k++)
			twice = twice || !strcmp(words[k], words[i]);
		rule(!twice, file, list, words[i], "is there twice");
		rule(!strpbrk(words[i], " \t\n"), file, list, words[i], "has a blank");
		rule(words[i][strspn(words[i], "0123456789")], file, list, words[i], "is a number");
	}
}

/* A config.json says which family reads it. */
static void
check_families(void)
{
	for (const struct family *const *f = family_all(); *f; f++)
		rule(family_find((*f)->model_type) == *f, "lib/model/family_list.h", "FAMILIES",
		    (*f)->model_type, "is there twice");
}

int
main(void)
{
	check_families();
	check_words("lib/model/lr_list.h", "LR_STYLES", lr_styles);
	check_words("lib/model/lr_list.h", "LR_TAILS", wsd_styles);
	check_words("lib/model/optim_list.h", "OPTIM_RULES", optim_rule_names);
	check_words("lib/model/lr_list.h", "WD_STYLES", wd_styles);
	return check_done();
}
