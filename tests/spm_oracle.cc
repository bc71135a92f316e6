// spm_oracle.cc - libsentencepiece as the tests' authority; C++ ends at this file
extern "C" {
#include "lib/base/err.h"
#include "tests/spm_oracle.h"
}

#include <sentencepiece_processor.h>

#include <exception>
#include <string>
#include <string_view>
#include <vector>

struct oracle {
	sentencepiece::SentencePieceProcessor processor;
	std::vector<int> ids;
	std::string text;
};

// A damaged vocabulary makes the library throw where it would else return a status.
struct oracle *
oracle_new(const void *model, size_t len)
{
	auto *o = new struct oracle;

	try {
		if (o->processor
			.LoadFromSerializedProto(
			    std::string_view(static_cast<const char *>(model), len))
			.ok())
			return o;
	} catch (const std::exception &) {
	}
	delete o;
	return nullptr;
}

void
oracle_free(struct oracle *o)
{
	delete o;
}

const int *
oracle_encode(struct oracle *o, const char *text, size_t len, size_t *count)
{
	if (!o->processor.Encode(std::string_view(text, len), &o->ids).ok())
		return nullptr;
	*count = o->ids.size();
	return o->ids.data();
}

const char *
oracle_decode(struct oracle *o, const uint32_t *ids, size_t count, size_t *len)
{
	o->text.clear();
	if (!o->processor.Decode(std::vector<int>(ids, ids + count), &o->text).ok())
		BUG("libsentencepiece cannot decode ids inside its vocabulary");
	*len = o->text.size();
	return o->text.data();
}

int
oracle_special(const struct oracle *o, int which)
{
	switch (which) {
	case 0: return o->processor.unk_id();
	case 1: return o->processor.bos_id();
	case 2: return o->processor.eos_id();
	default: return o->processor.pad_id();
	}
}
