/*
 * read.c - reading a script from its first line
 */
#include "lib/script/script.h"
#include "lib/base/io.h"
#include "lib/script/batch.h"
#include "lib/script/impl.h"
#include "lib/script/scan.h"
#include "lib/script/yaml.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 20 };

/* Variables that the batch system would set from the lines of the script. */
static void
batch_variables(struct shell *sh, const struct script *s)
{
	const struct {
		const char *name;
		int64_t value;
	} variable[] = {
		{ "SLURM_NNODES", s->nodes },
		{ "SLURM_JOB_NUM_NODES", s->nodes },
		{ "NHOSTS", s->nodes },
		{ "SLURM_NTASKS", s->tasks },
		{ "SLURM_NPROCS", s->tasks },
		{ "SLURM_NTASKS_PER_NODE", s->tasks_per_node },
		{ "SLURM_GPUS_ON_NODE", s->gpus_per_node },
		{ "SLURM_GPUS_PER_NODE", s->gpus_per_node },
	};
	char text[24];

	for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
		if (!variable[i].value || given_value(sh, variable[i].name))
			continue;
		snprintf(text, sizeof text, "%lld", (long long)variable[i].value);
		variable_set(sh, variable[i].name, shell_keep(sh, text, strlen(text)));
	}
}

/* NAME=VALUE fills; every other word is an argument. */
static void
take_words(struct shell *sh, const struct script_request *r, struct frame *f)
{
	for (int i = 0; i < r->words; i++) {
		size_t n = scan_name(r->word[i]);

		words_add(sh, n && r->word[i][n] == '=' ? &sh->given : &f->argument, r->word[i]);
	}
	sh->given_used = mem_zalloc((size_t)sh->given.count + 1, sizeof *sh->given_used);
}

static void
unused_words(struct shell *sh)
{
	for (int i = 0; i < sh->given.count; i++)
		if (!sh->given_used[i])
			str_addf(&sh->out->notes, "%s: nothing in the script asks for it\n",
			    sh->given.item[i]);
}

/* The number that the user gives, where the script does not say one. */
static void
world_given(struct shell *sh, struct script *s)
{
	const char *given = s->world && !is_hole(s->world) ? NULL : given_value(sh, "WORLD_SIZE");

	if (given) {
		s->world = given;
		s->world_from = "WORLD_SIZE";
	} else if (!s->world) {
		s->world = "1";
		s->world_from = NULL;
	}
}

static bool
is_yaml(const char *name)
{
	size_t n = strlen(name);

	return (n > 5 && !strcmp(name + n - 5, ".yaml")) ||
	    (n > 4 && !strcmp(name + n - 4, ".yml"));
}

static int
no_launch(struct shell *sh)
{
	struct str other = { 0 };

	if (sh->other) {
		str_adds(&other, "; it starts '");
		script_show(&other, sh->other);
		str_adds(&other, "' here, which may: give that");
	}
	err_at(sh->e, sh->name, sh->other ? sh->other_line : 0,
	    "nothing in it starts a training program: no command has a word that ends in "
	    "pretrain_*.py, train*.py, finetune*.py, pretrain_gpt or mtrain%s",
	    other.buf ? other.buf : "");
	str_release(&other);
	return -1;
}

static int
read_shell(struct shell *sh, const char *text)
{
	struct script *s = sh->out;

	batch_lines(s, text);
	batch_variables(sh, s);
	switch (run_text(sh, &(struct script_text){ sh->name, text, 1 })) {
	case FLOW_FOUND: return 0;
	case FLOW_ERROR: return -1;
	case FLOW_EXIT:
		return err_at(sh->e, sh->name, sh->line,
		    "the script exits here, before it starts a training program: does it need "
		    "arguments?");
	default: return no_launch(sh);
	}
}

int
script_read_text(struct script *s, const struct script_request *r, const char *text, struct err *e)
{
	struct frame f = { .name = r->name };
	struct shell sh = {
		.frame = &f, .name = r->name, .path = r->name, .follow = r->follow, .out = s, .e = e
	};
	int rc;

	memset(s, 0, sizeof *s);
	if (strpbrk(text, "\1\2"))
		return err_at(e, r->name, 0, "not a script: it has control characters");
	take_words(&sh, r, &f);
	rc = is_yaml(r->name) ? yaml_arguments(&sh, text) : read_shell(&sh, text);
	if (rc == 0) {
		world_given(&sh, s);
		unused_words(&sh);
	}
	free(sh.variable);
	free(sh.function);
	free(sh.given_used);
	s->pool_of_shell = sh.pool;
	return rc;
}

int
script_read(struct script *s, const struct script_request *r, struct err *e)
{
	char *text;
	size_t len;
	int rc;

	memset(s, 0, sizeof *s);
	if (io_read_regular(r->name, FILE_MOST, &text, &len, e) < 0)
		return -1;
	if (strlen(text) != len)
		rc = err_at(e, r->name, 0, "not a script: it has control characters");
	else
		rc = script_read_text(s, r, text, e);
	free(text);
	return rc;
}

void
script_release(struct script *s)
{
	str_release(&s->notes);
	mem_pool_release(&s->pool);
	mem_pool_release(&s->pool_of_shell);
}

void
script_show(struct str *out, const char *value)
{
	for (; *value; value++)
		str_addc(out, *value == HOLE_OPEN ? '<' : *value == HOLE_CLOSE ? '>' : *value);
}

bool
script_has_hole(const char *value)
{
	return is_hole(value);
}

/* True when " NAME" is a word of the list. */
static bool
listed(const struct str *names, const char *name, size_t n)
{
	for (const char *s = names->buf; s && *s; s += strcspn(s + 1, " ") + 1)
		if (strcspn(s + 1, " ") == n && !memcmp(s + 1, name, n))
			return true;
	return false;
}

/* A name after '$' or "${", and every name in "$((...))". */
void
script_names(struct str *names, const char *value)
{
	bool hole = false, inside = false;

	for (const char *s = value; *s; s++) {
		size_t n = scan_name(s);
		bool after = s > value && (s[-1] == '$' || (s[-1] == '{' && s - 1 > value));

		hole = *s == HOLE_OPEN || (hole && *s != HOLE_CLOSE);
		inside = hole && (inside || !strncmp(s, "$((", 3));
		if (!n || !hole || (s > value && scan_name(s - 1)))
			continue;
		if ((after || inside) && !listed(names, s, n)) {
			str_addc(names, ' ');
			str_add(names, s, n);
		}
	}
}
