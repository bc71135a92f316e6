/* hub.c - names of a model hub, which are no paths here */
#include "lib/base/hub.h"
#include "lib/base/io.h"

#include <string.h>

/* One slash between two words of letters, digits and "-_.". */
static bool
has_form(const char *text)
{
	static const char words[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t owner = strspn(text, words), name;

	if (owner == 0 || *text == '.' || text[owner] != '/')
		return false;
	name = strspn(text + owner + 1, words);
	return name > 0 && text[owner + 1 + name] == '\0';
}

int
hub_check(const char *path, const char *give, struct err *e)
{
	if (io_exists(path) || !has_form(path))
		return 0;
	return err_set(e,
	    "cannot open '%s': no such file or directory; nothing is downloaded from a hub: give "
	    "%s",
	    path, give);
}
