/* identity.c - the description of each kind of tokenizer in the names of index maps */
#include "lib/base/str.h"
#include "lib/token/identity.h"
#include "tests/check.h"

#include <string.h>

/* Path and arguments on one line. */
static void
expect(const struct tokenizer_spec *spec, const char *want)
{
	struct tokenizer_identity id;
	struct str got = { 0 };
	struct err e;

	CHECK(tokenizer_identity(spec, &id, &e) == 0);
	str_adds(&got, id.path ? id.path : "-");
	for (int i = 0; i < id.count; i++)
		str_addf(&got, " %s", id.argument[i]);
	CHECK_STR(got.buf, want);
	str_release(&got);
	tokenizer_identity_release(&id);
}

int
main(void)
{
	static const char *special[] = { "<s>", "</s>" };
	struct tokenizer_identity id;
	struct err e;

	expect(&(struct tokenizer_spec){ 0 }, "-");
	expect(&(struct tokenizer_spec){ .type = "NullTokenizer", .vocab_size = 100 },
	    "- vocab_size=100 pad_id=-1");
	expect(&(struct tokenizer_spec){ .type = "Llama2Tokenizer", .model = "a/b.model" },
	    "a/b.model chat_template=None ignore_extra_whitespaces=True legacy=False "
	    "special_tokens=None");
	expect(
	    &(struct tokenizer_spec){
		.type = "TikTokenizer", .model = "t.json", .tiktoken_num_special_tokens = 1000 },
	    "t.json chat_template=None num_special_tokens=1000 special_tokens=None");
	expect(&(struct tokenizer_spec){ .type = "TikTokenizer",
		   .model = "t.json",
		   .tiktoken_pattern = "v2",
		   .vocab_size = 9,
		   .tiktoken_num_special_tokens = 2,
		   .tiktoken_special_tokens = { 2, special } },
	    "t.json chat_template=None pattern=v2 vocab_size=9 num_special_tokens=2 "
	    "special_tokens=['<s>', '</s>']");
	expect(&(struct tokenizer_spec){ .type = "HuggingFaceTokenizer",
		   .model = "hf",
		   .hf_no_include_special_tokens = true },
	    "hf chat_template=None vocab_file=None merges_file=None additional_special_tokens=[] "
	    "use_fast=True "
	    "trust_remote_code=False include_special_tokens=False use_gigatoken=False");
	expect(
	    &(struct tokenizer_spec){
		.type = "GPT2BPETokenizer", .vocab = "v.json", .merges = "m.txt" },
	    "GPT2BPETokenizer additional_special_tokens=[] vocab_file=v.json merges_file=m.txt "
	    "use_fast=True "
	    "trust_remote_code=False include_special_tokens=True use_gigatoken=False");
	CHECK(tokenizer_identity(&(struct tokenizer_spec){ .type = "Other" }, &id, &e) < 0);
	return check_done();
}
