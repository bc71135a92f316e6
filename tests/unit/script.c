/* script.c - what a script starts, as it is read: words, expansions, control flow, and the lines of
 * what is not read */
#include "lib/script/script.h"
#include "tests/check.h"

/* The words of the launch with '|' between, and the reason of a failure. */
static char *
read_words(const char *text, const char **word, int words, const char *name)
{
	struct script s;
	struct script_request r = { .name = name, .word = word, .words = words };
	struct err e;
	struct str out = { 0 };

	if (script_read_text(&s, &r, text, &e) < 0) {
		str_adds(&out, e.msg);
	} else {
		for (int i = 0; i < s.options; i++) {
			str_adds(&out, i ? "|" : "");
			script_show(&out, s.option[i]);
		}
	}
	script_release(&s);
	return str_detach(&out);
}

static void
gives(const char *text, const char *expected)
{
	static const char *word[] = { "one", "two words", "FILLED=7" };
	char *found = read_words(text, word, 3, "s.sh");

	CHECK_STR(found, expected);
	free(found);
}

static void
words_and_quotes(void)
{
	gives("x/pretrain_gpt.py --a 1 \\\n --b 'c d' \"e f\" # comment\n", "--a|1|--b|c d|e f");
	gives("python train.py --a=b\\ c $'d\\te' '' \"\"", "--a=b c|d\te||");
	gives("A='x \"y\"'\npretrain_gpt $A", "x|\"y\"");
	gives("A='x y'; pretrain_gpt \"$A\" '$A' \\$A", "x y|$A|$A");
	gives("cat <<EOF >ds.json\n{ \"a\": 1 }\nEOF\npretrain_gpt -x 2>&1 | tee log", "-x");
	gives("pretrain_gpt *.bin ~/x", "*.bin|<$HOME>/x");
	gives("echo pretrain_gpt.py --no\npretrain_gpt.py --yes", "--yes");
}

static void
variables(void)
{
	gives("A=(--a 1\n --b '2 3') # c\nA+=(--c)\npretrain_gpt ${A[@]}", "--a|1|--b|2|3|--c");
	gives(
	    "A=(--a 1 --b '2 3')\npretrain_gpt \"${A[@]}\" ${#A[@]} ${A[1]}", "--a|1|--b|2 3|4|1");
	gives("A=\"--a 1\"\nA+=\" --b\"\nexport B=$A\npretrain_gpt $B", "--a|1|--b");
	gives("pretrain_gpt $1 \"$2\" $# \"$@\"", "one|two words|2|one|two words");
	gives("shift\npretrain_gpt \"$@\" ${2:-none}", "two words|none");
	gives("A=a/b.c.d\npretrain_gpt ${A%.*} ${A%%.*} ${A#*/} ${A##*.} ${A/b/x} ${A//./_}",
	    "a/b.c|a/b|b.c.d|d|a/x.c.d|a/b_c_d");
	gives("A=abc\npretrain_gpt ${A:1} ${A:0:2} ${A^^} ${#A} ${B:=z} $B ${C:+no} ${A:+yes}",
	    "bc|ab|ABC|3|z|z|yes");
	gives("A=B\nB=5\npretrain_gpt ${!A} $((B * 2 - 1)) $(( (B + 1) / 4 % 2 ))", "5|9|1");
	gives("D=$(dirname \"$0\")\nS=$(cd /x/y && pwd)\npretrain_gpt $D $S $(basename a/b.sh .sh)",
	    ".|/x/y|b");
	gives("cmd=\"pretrain_gpt --a 'b c'\"\n$cmd", "--a|'b|c'");
	gives("cmd=\"pretrain_gpt --a 'b c'\"\neval $cmd", "--a|b c");
}

static void
holes(void)
{
	gives("pretrain_gpt --save s-$(date +%s) --x $NO ${NO}",
	    "--save|s-<$(date +%s)>|--x|<$NO>|<$NO>");
	gives("pretrain_gpt $FILLED", "7");
	gives("FILLED=$(nproc)\npretrain_gpt $((FILLED * 2))", "14");
	gives("FILLED=4\npretrain_gpt $FILLED", "4");
	gives("N=$SLURM_NNODES\npretrain_gpt $((N * 8)) ${N%x}", "<$((N * 8))>|<${N%x}>");
	gives("DATA=<path of data>\npretrain_gpt --data-path $DATA", "--data-path|<path of data>");
	gives("sh -c 'pretrain_gpt --load <THE PATH> \\\n--bf16'", "--load|<THE PATH>|--bf16");
	gives("pretrain_gpt --a <in >out --b <in 2> err --c", "--a|--b|--c");
	gives("A=$NO\nbash -c \"pretrain_gpt --a $A\"", "--a|<$NO>");
	gives("pretrain_gpt $((1 / 0)) $((9223372036854775807 + 1))",
	    "<$((1 / 0))>|<$((9223372036854775807 + 1))>");
}

static void
control(void)
{
	gives("if [ $1 = one ]; then A=1; else A=2; fi\npretrain_gpt $A", "1");
	gives("if [[ $1 == t* && -z '' ]]; then A=1; elif [[ $1 == o* ]]; then A=2; fi\n"
	      "pretrain_gpt $A",
	    "2");
	gives("case $1 in two|o?e) A=1;; *) A=2;; esac\npretrain_gpt $A", "1");
	gives("for x in a 'b c' d; do A+=($x); done\npretrain_gpt \"${A[@]}\"", "a|b|c|d");
	gives("for ((i = 0; i < 3; i++)); do A+=($i); done\npretrain_gpt ${A[*]}", "0|1|2");
	gives("while [ $# -gt 0 ]; do case $1 in one) A=$2; shift 2;; *) shift;; esac; done\n"
	      "pretrain_gpt \"$A\"",
	    "two words");
	gives("f() {\n\tlocal A=$1\n\tB=$A-$2\n}\nA=0\nf 1 2\npretrain_gpt $A $B", "0|1-2");
	gives("if [ -z \"$NO\" ]; then A=1; else A=2; B=3; fi\npretrain_gpt $A $B", "1|3");
	gives("if [ -z \"$NO\" ]; then exit 1; fi\n[ -d x ] || exit 1\npretrain_gpt --a", "--a");
	gives("[ $1 = two ] && A=1 || A=2\n(A=5)\npretrain_gpt $A", "2");
	gives("srun --x bash -c 'torchrun --y pretrain_gpt.py --a $1' zero first", "--a|first");
	gives("pdsh -w h \"cd /x; deepspeed pretrain_gpt.py --a\"", "--a");
}

static void
refusals(void)
{
	gives("ls\n",
	    "s.sh: nothing in it starts a training program: no command has a word that "
	    "ends in pretrain_*.py, train*.py, finetune*.py, pretrain_gpt or mtrain");
	gives("\n\nselect x in a; do b; done",
	    "s.sh:3: 'select': this part of the shell is not read");
	gives("\ndiff <(a) b", "s.sh:2: process substitution: this part of the shell is not read");
	gives("declare -A m\n", "s.sh:1: an array with names: this part of the shell is not read");
	gives("if a; then\nb\n", "s.sh:3: 'fi' is missing for line 1");
	gives("A='x\n\n",
	    "s.sh:1: a quote or bracket that does not end: this part of the shell is not "
	    "read");
	gives("\nif [ $# -gt 1 ]; then\n\texit 1\nfi\npretrain_gpt",
	    "s.sh:3: the script exits here, before it starts a training program: does it need "
	    "arguments?");
}

/* A file of options, its words with '|' between. */
static void
maps(const char *text, const char *expected)
{
	static const char *word[] = { "DATA=/d" };
	char *found = read_words(text, word, 1, "m.yaml");

	CHECK_STR(found, expected);
	free(found);
}

static void
yaml(void)
{
	maps("X: {a: b}\nMODEL_ARGS:\n  # c\n  --a: 1 # c\n  --b: true\n  --c: false\n  --d: null\n"
	     "  --e: \"x y\"\n  --f:\n    - 1\n    - 2\n  --g: [3, 4]\n  --h: ${DATA}/t\n"
	     "  --i:\n    true\nMODEL_ARGS_2:\n  --no: 1\n",
	    "--a|1|--b|--e|x y|--f|1|2|--g|3|4|--h|/d/t|--i");
	maps("MODEL_ARGS:\n  --m: \"[mlp moe]\"\n  --n: ([0]*1+[1]*1)\n",
	    "--m|mlp|moe|--n|([0]*1+[1]*1)");
	maps("MODEL_ARGS:\n  <<: *base\n",
	    "m.yaml:2: a reference to an anchor: this part of YAML is not read");
	maps("MODEL_ARGS:\n  --a: &x 1\n", "m.yaml:2: an anchor: this part of YAML is not read");
	maps("MODEL_ARGS:\n  --a: 1\n  --b: {c: 1}\n",
	    "m.yaml:3: a map in braces: this part of YAML is not read");
	maps("MODEL_ARGS:\n  a: |\n    x\n",
	    "m.yaml:2: a text of several lines: this part of YAML is not read");
	maps("a: 1\n", "m.yaml: it has no mapping MODEL_ARGS");
}

static void
world(const char *text, const char *expected)
{
	struct script s;
	struct script_request r = { .name = "s.sh" };
	struct err e;
	struct str out = { 0 };

	CHECK(script_read_text(&s, &r, text, &e) == 0);
	script_show(&out, s.world);
	CHECK_STR(out.buf, expected);
	str_release(&out);
	script_release(&s);
}

static void
worlds(void)
{
	world("torchrun --nnodes=2 --nproc_per_node 8 pretrain_gpt.py", "16");
	world("mpirun -np 4 python pretrain_gpt.py", "4");
	world("mpirun -n 2 torchrun --nproc-per-node=4 pretrain_gpt.py", "4");
	world("deepspeed --num_nodes 3 --num_gpus 2 pretrain_gpt.py", "6");
	world("#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\nsrun pretrain_gpt", "32");
	world("#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\nsrun -n $SLURM_NNODES pretrain_gpt", "2");
	world("#PBS -l select=2:ngpus=8\npretrain_gpt", "16");
	world("#$ -l rt_F=4\nmpirun -np $((NHOSTS * 4)) pretrain_gpt", "16");
	world("torchrun --nnodes $N --nproc_per_node 8 pretrain_gpt.py", "<$N x 8>");
	world("pretrain_gpt", "1");
}

int
main(void)
{
	words_and_quotes();
	variables();
	holes();
	control();
	refusals();
	yaml();
	worlds();
	return check_done();
}
