// spm.cc - libsentencepiece behind a C interface; C++ ends at this file
extern "C" {
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/token/spm.h"
}

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

using sentencepiece::SentencePieceProcessor;
using sentencepiece::util::Status;
using sentencepiece::util::StatusCode;

struct spm {
	SentencePieceProcessor processor;
};

struct spm_buffer {
	std::vector<int> ids;
	std::string text;
};

namespace {

// "src/file.cc(12) [condition] reason" becomes "reason"; one line.
int
fail(struct err *e, const char *what, const Status &status)
{
	std::string why = status.message();
	size_t bracket = why.rfind("] ");

	if (bracket != std::string::npos)
		why.erase(0, bracket + 2);
	else if (why.find(".cc(") != std::string::npos)
		why.clear();
	for (char &c : why)
		if (c == '\n')
			c = ' ';
	while (!why.empty() && (why.back() == ' ' || why.back() == '.'))
		why.pop_back();
	return err_set(
	    e, "%s: %s", what, why.empty() ? "libsentencepiece cannot use it" : why.c_str());
}

// Sentences for the trainer, pulled from a C callback.
class Sentences : public sentencepiece::SentenceIterator {
 public:
	Sentences(const struct spm_training *t, struct err *e) : t_(t), e_(e) { Next(); }

	bool done() const override { return state_ <= 0; }
	const std::string &value() const override { return value_; }
	bool failed() const { return state_ < 0; }

	Status
	status() const override
	{
		return state_ < 0 ? Status(StatusCode::kDataLoss, "the input failed") : Status();
	}

	void
	Next() override
	{
		const char *text;
		size_t len;

		state_ = t_->next(t_->ctx, &text, &len, e_);
		if (state_ > 0)
			value_.assign(text, len);
	}

 private:
	const struct spm_training *t_;
	struct err *e_;
	int state_ = 0;
	std::string value_;
};

}  // namespace

// A damaged vocabulary makes the library throw where it would else return a status.
struct spm *
spm_load(const void *model, size_t len, struct err *e)
{
	auto m = std::make_unique<struct spm>();

	try {
		Status s = m->processor.LoadFromSerializedProto(
		    std::string_view(static_cast<const char *>(model), len));

		if (s.ok())
			return m.release();
		fail(e, "not a SentencePiece model", s);
	} catch (const std::exception &) {
		err_set(e, "not a SentencePiece model: its pieces contradict each other");
	}
	return nullptr;
}

void
spm_free(struct spm *m)
{
	delete m;
}

int
spm_size(const struct spm *m)
{
	return m->processor.GetPieceSize();
}

int
spm_special(const struct spm *m, enum tokenizer_special which)
{
	switch (which) {
	case TOKENIZER_UNK:
		return m->processor.unk_id();
	case TOKENIZER_BOS:
		return m->processor.bos_id();
	case TOKENIZER_EOS:
		return m->processor.eos_id();
	default:
		return m->processor.pad_id();
	}
}

// The library has no predicate for user-defined pieces; they count as normal.
struct tokenizer_piece
spm_piece(const struct spm *m, int id)
{
	const SentencePieceProcessor &p = m->processor;
	const std::string &bytes = p.IdToPiece(id);
	enum piece_type type = p.IsUnknown(id) ? PIECE_UNKNOWN : p.IsControl(id) ? PIECE_CONTROL :
	    p.IsByte(id) ? PIECE_BYTE : p.IsUnused(id) ? PIECE_UNUSED : PIECE_NORMAL;

	return { bytes.data(), bytes.size(), p.GetScore(id), type };
}

struct spm_buffer *
spm_buffer_new(void)
{
	return new struct spm_buffer;
}

void
spm_buffer_free(struct spm_buffer *b)
{
	delete b;
}

int
spm_encode(
    const struct spm *m, struct spm_buffer *b, const char *text, size_t len, struct token_ids *out)
{
	if (len == 0)
		return 0;
	if (!m->processor.Encode(std::string_view(text, len), &b->ids).ok())
		return -1;
	token_ids_reserve(out, b->ids.size());
	for (int id : b->ids)
		out->id[out->count++] = (uint32_t)id;
	return 0;
}

void
spm_decode(
    const struct spm *m, struct spm_buffer *b, const uint32_t *ids, size_t count, struct str *out)
{
	b->ids.assign(ids, ids + count);
	b->text.clear();
	if (!m->processor.Decode(b->ids, &b->text).ok())
		BUG("libsentencepiece cannot decode ids inside its vocabulary");
	str_add(out, b->text.data(), b->text.size());
}

int
spm_train(const struct spm_training *t, struct str *model, struct err *e)
{
	std::unordered_map<std::string, std::string> settings;
	std::string bytes;
	Sentences sentences(t, e);

	for (int i = 0; i < t->num_settings; i++)
		settings[t->setting[i].name] = t->setting[i].value;
	settings["minloglevel"] = t->verbose ? "0" : "3";
	if (sentences.failed())
		return -1;
	Status s = sentencepiece::SentencePieceTrainer::Train(settings, &sentences, &bytes);
	if (sentences.failed())
		return -1;
	if (!s.ok())
		return fail(e, "cannot train", s);
	str_add(model, bytes.data(), bytes.size());
	return 0;
}
