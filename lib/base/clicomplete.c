/*
 * clicomplete.c - completion of verbs, options, their values and files, for bash and zsh
 *
 * What is printed is made of the tables alone, so a new option completes with its row. A value
 * completes where its row has choices, or where its unit is a file.
 */
#include "lib/base/cli.h"

#include <ctype.h>
#include <string.h>

/* True for an option whose value is a path: the units say so. */
static bool
is_file(const struct opt *o)
{
	static const char *const words[] = { "FILE", "DIR", "PATH", "PREFIX", "CONFIG", "LIST",
		"MODEL", "F.npy", NULL };

	for (const char *const *w = words; *w && o->unit; w++)
		if (strstr(o->unit, *w))
			return true;
	return o->type == OPT_CONFIG;
}

/* The first word of each heading in lower case, and "all": what may follow --help. */
static void
add_topics(const struct opt *table, struct str *out)
{
	str_adds(out, "all");
	for (const struct opt *o = table; o->type != OPT_END_TYPE; o++) {
		if (o->type != OPT_GROUP)
			continue;
		str_addc(out, ' ');
		for (const char *c = o->help; isalnum((unsigned char)*c); c++)
			str_addc(out, (char)tolower((unsigned char)*c));
	}
}

static void
add_choices(const struct opt *o, struct str *out)
{
	for (int i = 0; o->choices[i]; i++)
		str_addf(out, "%s%s", i ? " " : "", o->choices[i]);
}

static void
add_verb_names(const struct tool *t, const char *between, struct str *out)
{
	for (const struct verb *const *v = t->verbs; *v; v++)
		str_addf(out, "%s%s", v == t->verbs ? "" : between, (*v)->name);
}

/* --- bash ------------------------------------------------------------------------------------- */

/* What a word after an option completes to. */
enum value { VALUE_OTHER, VALUE_FILE, VALUE_LIST, VALUE_FILES, VALUE_COUNT };

static enum value
value_of(const struct opt *o)
{
	if (opt_takes(o) > 1)
		return is_file(o) ? VALUE_FILES : VALUE_LIST;
	return is_file(o) ? VALUE_FILE : VALUE_OTHER;
}

/* "verb--name | verb-n", a pattern of the function's case. */
static void
add_pattern(const struct verb *v, const struct opt *o, struct str *out)
{
	str_addf(out, "%s%s--%s", out->len ? "|" : "", v->name, o->name);
	if (o->letter)
		str_addf(out, "|%s-%c", v->name, o->letter);
}

/* Options with words of their own, a line each. */
static void
bash_words(const struct verb *v, struct str *out)
{
	for (const struct opt *o = v->opts; o->type != OPT_END_TYPE; o++) {
		struct str pattern = { 0 };

		if (o->type != OPT_HELP && !o->choices)
			continue;
		add_pattern(v, o, &pattern);
		str_addf(out, "\t%s) ", pattern.buf);
		if (o->choices) {
			str_adds(out, "max=1 words='");
			add_choices(o, out);
		} else {
			str_adds(out, "max=99 words=\"${options//--/} ");
			add_topics(v->opts, out);
		}
		str_addf(out, "%c ;;\n", o->choices ? '\'' : '"');
		str_release(&pattern);
	}
}

/* All other options of a verb that take values, a line for each kind. */
static void
bash_values(const struct verb *v, struct str *out)
{
	static const char *const does[] = { "max=1", "max=1 files=1", "max=99", "max=99 files=1" };

	for (int kind = 0; kind < VALUE_COUNT; kind++) {
		struct str pattern = { 0 };

		for (const struct opt *o = v->opts; o->type != OPT_END_TYPE; o++)
			if (opt_takes(o) && o->type != OPT_HELP && !o->choices &&
			    (int)value_of(o) == kind)
				add_pattern(v, o, &pattern);
		if (pattern.len)
			str_addf(out, "\t%s) %s ;;\n", pattern.buf, does[kind]);
		str_release(&pattern);
	}
}

static void
bash_options(const struct verb *v, struct str *out)
{
	str_addf(out, "\t'%s') options='", v->name);
	for (const struct opt *o = v->opts; o->type != OPT_END_TYPE; o++)
		if (o->type != OPT_GROUP)
			str_addf(out, "%s--%s", o == v->opts ? "" : " ", o->name);
	str_addf(out, "'%s ;;\n", *v->operands ? " operands=1" : "");
}

static void
bash_file(const struct tool *t, struct str *out)
{
	str_addf(out,
	    "# completion of %s in bash, as printed by %s --completion bash\n_%s()\n{\n"
	    "\tlocal cur=${COMP_WORDS[COMP_CWORD]} verb='%s' options='' operands='' words='' "
	    "files=''\n"
	    "\tlocal opt='' i=0 n max=0\n",
	    t->name, t->name, t->name, t->default_verb ? t->default_verb : "");
	if (!cli_is_plain(t)) {
		str_adds(out, "\tcase ${COMP_WORDS[1]} in\n\t");
		add_verb_names(t, "|", out);
		str_adds(out, ") verb=${COMP_WORDS[1]} ;;\n\tesac\n");
	}
	str_adds(out,
	    "\t[ \"$cur\" != = ] || cur=''\n"
	    "\t# The last option before the word, and the words between them.\n"
	    "\tfor ((i = COMP_CWORD - 1; i > 0; i--)); do\n"
	    "\t\tcase ${COMP_WORDS[i]} in -?*) opt=${COMP_WORDS[i]}; break ;; esac\n\tdone\n"
	    "\tn=$((COMP_CWORD - i - 1))\n"
	    "\t[ \"$n\" = 0 ] || [ \"${COMP_WORDS[i + 1]}\" != = ] || n=$((n - 1))\n"
	    "\t[ \"${COMP_WORDS[COMP_CWORD]}\" != = ] || n=0\n"
	    "\tcase $verb in\n");
	for (const struct verb *const *v = t->verbs; *v; v++)
		bash_options(*v, out);
	str_adds(out, "\tesac\n\tcase $verb$opt in\n");
	for (const struct verb *const *v = t->verbs; *v; v++) {
		bash_words(*v, out);
		bash_values(*v, out);
	}
	str_adds(out,
	    "\tesac\n\tcase $cur in\n\t-*) words=$options files='' ;;\n"
	    "\t*) [ \"$n\" -lt \"$max\" ] || words='' files=$operands ;;\n\tesac\n");
	if (!cli_is_plain(t)) {
		str_adds(out, "\t[ \"$COMP_CWORD\" != 1 ] || words=\"$words ");
		add_verb_names(t, " ", out);
		str_adds(out, "\"\n");
	}
	str_addf(out,
	    "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"\n"
	    "\t\t[ -z \"$files\" ] || compgen -f -- \"$cur\")\n"
	    "\t[ -z \"$files\" ] || compopt -o filenames 2>/dev/null\n}\ncomplete -F _%s %s\n",
	    t->name, t->name);
}

/* --- zsh -------------------------------------------------------------------------------------- */

/* A description inside brackets and quotes: up to its first colon or semicolon. */
static void
zsh_text(const char *text, struct str *out)
{
	for (; *text && !strchr(":;", *text); text++)
		switch (*text) {
		case '[': str_addc(out, '('); break;
		case ']': str_addc(out, ')'); break;
		case '\'': str_adds(out, "'\\''"); break;
		default: str_addc(out, *text);
		}
}

/* Colons part the fields of a specification. */
static void
zsh_unit(const char *unit, struct str *out)
{
	for (; *unit; unit++)
		str_addf(out, "%s%c", *unit == ':' ? "\\" : "", *unit);
}

static void
zsh_option(const struct opt *o, struct str *out)
{
	str_addf(out, " \\\n\t\t\t'*--%s[", o->name);
	zsh_text(o->help, out);
	str_addc(out, ']');
	if (opt_takes(o)) {
		str_adds(out, opt_takes(o) > 1 ? ":*-*:" : ":");
		zsh_unit(opt_unit(o), out);
		str_addc(out, ':');
	}
	if (o->choices) {
		str_addc(out, '(');
		add_choices(o, out);
		str_addc(out, ')');
	} else if (is_file(o)) {
		str_adds(out, "_files");
	}
	str_addc(out, '\'');
}

/* --help takes names of options too, which are those of the line that is printed. */
static void
zsh_verb(const struct verb *v, struct str *out)
{
	str_addf(out, "\t('%s') _arguments", v->name);
	for (const struct opt *o = v->opts; o->type != OPT_END_TYPE; o++) {
		if (o->type == OPT_GROUP)
			continue;
		if (o->type != OPT_HELP) {
			zsh_option(o, out);
			continue;
		}
		str_adds(out, " \\\n\t\t\t'*--help[print help]:*-*:WORD:(");
		add_topics(v->opts, out);
		for (const struct opt *w = v->opts; w->type != OPT_END_TYPE; w++)
			if (w->type != OPT_GROUP)
				str_addf(out, " %s", w->name);
		str_adds(out, ")'");
	}
	if (*v->operands)
		str_adds(out, " \\\n\t\t\t'*:operand:_files'");
	str_adds(out, " ;;\n");
}

static void
zsh_file(const struct tool *t, struct str *out)
{
	str_addf(out,
	    "#compdef %s\n# completion of %s in zsh, as printed by %s --completion zsh\n"
	    "_%s()\n{\n\tlocal verb='%s'\n",
	    t->name, t->name, t->name, t->name, t->default_verb ? t->default_verb : "");
	if (!cli_is_plain(t)) {
		str_adds(out, "\tif (( CURRENT == 2 )); then\n\t\tcompadd -- ");
		add_verb_names(t, " ", out);
		str_adds(out, "\n\telse\n\t\tcase $words[2] in\n\t\t(");
		add_verb_names(t, "|", out);
		str_adds(
		    out, ") verb=$words[2]; shift words; (( CURRENT-- )) ;;\n\t\tesac\n\tfi\n");
	}
	str_adds(out, "\tcase $verb in\n");
	for (const struct verb *const *v = t->verbs; *v; v++)
		zsh_verb(*v, out);
	str_addf(out,
	    "\tesac\n}\nif [[ $funcstack[1] = _%s ]]; then\n\t_%s \"$@\"\nelse\n"
	    "\tcompdef _%s %s\nfi\n",
	    t->name, t->name, t->name, t->name);
}

void
cli_completion(const struct tool *t, const char *shell, struct str *out)
{
	if (!strcmp(shell, "zsh"))
		zsh_file(t, out);
	else
		bash_file(t, out);
}
