/* proc.c - the files of /proc that the product reads */
#include "tests/sim/files.h"

#include <stdlib.h>
#include <string.h>

static struct node *
text_node(const char *text)
{
	struct node *n = node_new(false);

	n->proc = true;
	node_write(n, 0, text, strlen(text));
	node_sync(n, true);
	return n;
}

struct node *
proc_file(const char *path)
{
	const struct process *self = sim.current->process, *p;
	char text[256], *end;
	long pid;

	if (!strcmp(path, "/proc/sys/kernel/random/boot_id")) {
		snprintf(text, sizeof text, "%s\n", sim.boot[self->host]);
		return text_node(text);
	}
	if (!strcmp(path, "/proc/self/statm"))
		return text_node("1000 500 100 1 0 500 0\n");
	if (strncmp(path, "/proc/", 6))
		return NULL;
	pid = strtol(path + 6, &end, 10);
	p = strcmp(end, "/stat") ? NULL : process_find(self->host, (int)pid);
	if (!p)
		return NULL;
	snprintf(text, sizeof text, "%d (%s) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %llu 0 0\n",
	    p->pid, p->argv[0], (unsigned long long)p->start);
	return text_node(text);
}

ssize_t
proc_link(const char *path, char *to, size_t n)
{
	static const char space[] = "pid:[4026531836]";

	if (strcmp(path, "/proc/self/ns/pid") || n < sizeof space - 1)
		return -1;
	memcpy(to, space, sizeof space - 1);
	return sizeof space - 1;
}
