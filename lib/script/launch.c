/*
 * launch.c - the command that starts the training program, and how many ranks it asks for
 */
#include "lib/script/impl.h"
#include "lib/script/scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The last part of a path. */
static const char *
last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool
is_program(const char *word)
{
	static const char *const patterns[] = { "*pretrain_*.py", "train*.py", "finetune*.py",
		"pretrain_gpt", "mtrain" };
	const char *name = last_part(word);

	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
		if (scan_match(patterns[i], name, strlen(name)))
			return true;
	return false;
}

/* Commands whose words may name a program that they do not start. */
static bool
starts_nothing(const char *command)
{
	static const char *const names[] = { "echo", "printf", "cat", "ls", "cp", "mv", "rm", "ln",
		"grep", "sed", "awk", "head", "tail", "tee", "cd", "mkdir", "touch", "chmod", "git",
		"wget", "curl", "pkill", "kill", "ps", "rsync", "scp", "find", "which" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(last_part(command), names[i]))
			return true;
	return false;
}

/* A shell and "-c", with other letters beside the c. */
static bool
is_shell(const struct words *w, int i)
{
	const char *name = last_part(w->item[i]);
	const char *flag = i + 2 < w->count ? w->item[i + 1] : "";

	return (!strcmp(name, "bash") || !strcmp(name, "sh") || !strcmp(name, "zsh")) &&
	    *flag == '-' && flag[1] != '-' && strchr(flag, 'c');
}

/* A word that is a command of its own, as pdsh and ssh take it. */
static bool
holds_program(struct shell *sh, const char *text)
{
	struct str word = { 0 };
	bool found = false;

	for (const char *s = text; strpbrk(text, " \t\n") && *s && !found;) {
		size_t n = strcspn(s, " \t\n\"'");

		sh->steps++;
		str_clear(&word);
		str_add(&word, s, n);
		found = n && is_program(word.buf);
		s += n + (s[n] != '\0');
	}
	str_release(&word);
	return found;
}

/* The words before index i are launchers of what the text starts; words after it are its $0 and
 * arguments. */
static enum flow
run_inside(struct shell *sh, const struct words *w, int i)
{
	struct frame f = { .name = i + 1 < w->count ? w->item[i + 1] : sh->frame->name },
		     *before = sh->frame;
	struct words prefix = sh->prefix;
	enum flow flow;

	if (i + 2 < w->count)
		f.argument = (struct words){ w->count - i - 2, 0, w->item + i + 2 };
	sh->prefix = (struct words){ 0 };
	for (int k = 0; k < prefix.count; k++)
		words_add(sh, &sh->prefix, prefix.item[k]);
	for (int k = 0; k < i; k++)
		words_add(sh, &sh->prefix, w->item[k]);
	sh->frame = &f;
	flow = run_text(sh, &(struct script_text){ sh->name, w->item[i], sh->line });
	sh->frame = before;
	sh->prefix = prefix;
	return flow == FLOW_FOUND || flow == FLOW_ERROR ? flow : FLOW_NEXT;
}

/* '-' and '_' are one in names of launchers' options. */
static bool
same_name(const char *word, const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((word[i] == '_' ? '-' : word[i]) != name[i])
			return false;
	return true;
}

/* The value of the launcher's option, as "--name V", "--name=V" or, of one letter, "-nV"; NULL: not
 * given. */
static const char *
option(const struct words *w, const char *name)
{
	size_t n = strlen(name);

	for (int i = 0; i < w->count; i++) {
		const char *word = w->item[i];

		if (strlen(word) < n || !same_name(word, name, n))
			continue;
		if (word[n] == '=')
			return word + n + 1;
		if (!word[n] && i + 1 < w->count)
			return w->item[i + 1];
		if (n == 2 && isdigit((unsigned char)word[n]))
			return word + n;
	}
	return NULL;
}

static bool
is_number(const char *s)
{
	return *s && strspn(s, "0123456789") == strlen(s) && strlen(s) < 8;
}

/* A number, or a text that only a run knows. */
static bool
is_count(const char *s)
{
	return s && (is_number(s) || is_hole(s));
}

/* Adds a value inside a hole: its own holes lose their ends. */
static void
add_inside(struct str *out, const char *s)
{
	for (; *s; s++)
		if (*s != HOLE_OPEN && *s != HOLE_CLOSE)
			str_addc(out, *s);
}

/* a x b in the pool. */
static void
multiply(struct script *s, const char *a, const char *b, const char *from)
{
	struct str t = { 0 };

	if (is_number(a) && is_number(b)) {
		str_addf(&t, "%lld", atoll(a) * atoll(b));
	} else {
		str_addc(&t, HOLE_OPEN);
		add_inside(&t, a);
		if (strcmp(b, "1") != 0) {
			str_adds(&t, " x ");
			add_inside(&t, b);
		}
		str_addc(&t, HOLE_CLOSE);
	}
	s->world = mem_pool_strndup(&s->pool, t.buf, t.len);
	s->world_from = from;
	str_release(&t);
}

/* Two options that are counts of hosts and of ranks of one; an absent one is 1. */
static bool
hosts_times(struct script *s, const struct words *w, const char *hosts, const char *each)
{
	const char *a = option(w, hosts), *b = option(w, each);
	char from[96];

	if (!is_count(a) && !is_count(b))
		return false;
	snprintf(from, sizeof from, "%s x %s", hosts, each);
	multiply(s, is_count(a) ? a : "1", is_count(b) ? b : "1",
	    mem_pool_strndup(&s->pool, from, strlen(from)));
	return true;
}

/* The first of the options that is a count. */
static bool
ranks(struct script *s, const struct words *w, const char *const *names)
{
	for (; *names; names++)
		if (is_count(option(w, *names))) {
			multiply(s, option(w, *names), "1", *names);
			return true;
		}
	return false;
}

/* A program that starts ranks, whose "-n" is their number. */
static bool
starts_ranks(const struct words *w)
{
	static const char *const names[] = { "mpirun", "mpiexec", "mpiexec.hydra", "orterun",
		"prun", "srun", "aprun", "jsrun" };

	for (int i = 0; i < w->count; i++)
		for (size_t k = 0; k < sizeof names / sizeof *names; k++)
			if (!strcmp(last_part(w->item[i]), names[k]))
				return true;
	return false;
}

static void
number(struct script *s, int64_t a, int64_t b, const char *from)
{
	char x[24], y[24];

	snprintf(x, sizeof x, "%lld", (long long)a);
	snprintf(y, sizeof y, "%lld", (long long)b);
	multiply(s, x, y, from);
}

/* In this order: a launcher of Python's, one of MPI, DeepSpeed's, the batch system's lines. */
static void
script_world(struct script *s, const struct words *w)
{
	static const char *const mpi[] = { "-np", "--np", "-n", "--n", "--ntasks", NULL };
	static const char *const deepspeed[] = { "--num-processes", NULL };
	int64_t nodes = s->nodes ? s->nodes : 1;

	if (hosts_times(s, w, "--nnodes", "--nproc-per-node"))
		return;
	if (starts_ranks(w) &&
	    (ranks(s, w, mpi) || hosts_times(s, w, "--nodes", "--ntasks-per-node")))
		return;
	if (hosts_times(s, w, "--num-nodes", "--num-gpus") || ranks(s, w, deepspeed))
		return;
	if (s->tasks)
		number(s, s->tasks, 1, "the script's lines for the batch system");
	else if (s->tasks_per_node > 1 || s->gpus_per_node)
		number(s, nodes, s->tasks_per_node > 1 ? s->tasks_per_node : s->gpus_per_node,
		    "the script's lines for the batch system");
	else if (s->nodes)
		number(s, nodes, 1, "the script's lines for the batch system");
}

static enum flow
found(struct shell *sh, const struct words *w, int program)
{
	struct script *s = sh->out;
	struct words launcher = { 0 };

	for (int i = 0; i < sh->prefix.count; i++)
		words_add(sh, &launcher, sh->prefix.item[i]);
	for (int i = 0; i < program; i++)
		words_add(sh, &launcher, w->item[i]);
	s->program = w->item[program];
	s->line = sh->line;
	s->option = w->item + program + 1;
	s->options = w->count - program - 1;
	script_world(s, &launcher);
	return FLOW_FOUND;
}

enum flow
find_launch(struct shell *sh, const struct words *w)
{
	if (starts_nothing(w->item[0]))
		return FLOW_NEXT;
	for (int i = 0; i < w->count; i++) {
		bool shell = is_shell(w, i);

		if (shell || (!is_hole(w->item[i]) && holds_program(sh, w->item[i])))
			return run_inside(sh, w, i + 2 * shell);
		if (is_program(w->item[i]))
			return found(sh, w, i);
		if (scan_match("*.sh", w->item[i], strlen(w->item[i]))) {
			sh->other = w->item[i];
			sh->other_line = sh->line;
		}
	}
	return FLOW_NEXT;
}
