// spmtrain.cc - the trainer of libsentencepiece as a C function; C++ ends at this file
extern "C" {
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/token/spm/spmtrain.h"
}

#include <sentencepiece_trainer.h>

#include <string>
#include <unordered_map>

using sentencepiece::util::Status;
using sentencepiece::util::StatusCode;

namespace
{

// "src/file.cc(12) [condition] reason" becomes "reason", or "libsentencepiece requires condition"
// when there is no reason; one line.
int
fail(struct err *e, const char *what, const Status &status)
{
	std::string why = status.message();
	size_t from = why.find('['), to = why.rfind(']');

	if (from < to && to != std::string::npos)
		why = why.find_first_not_of(" .\n", to + 1) != std::string::npos
		    ? why.substr(to + 1)
		    : "libsentencepiece requires  " + why.substr(from + 1, to - from - 1);
	else if (why.find(".cc(") != std::string::npos)
		why.clear();
	for (char &c : why)
		if (c == '\n')
			c = ' ';
	while (!why.empty() && (why.back() == ' ' || why.back() == '.'))
		why.pop_back();
	why.erase(0, why.find_first_not_of(' '));
	return err_set(
	    e, "%s: %s", what, why.empty() ? "libsentencepiece cannot use it" : why.c_str());
}

// Sentences for the trainer, pulled from a C callback.
class Sentences : public sentencepiece::SentenceIterator
{
      public:
	Sentences(const struct spm_training *t, struct err *e) : t_(t), e_(e)
	{
		Next();
	}

	bool done() const override
	{
		return state_ <= 0;
	}
	const std::string &value() const override
	{
		return value_;
	}
	bool failed() const
	{
		return state_ < 0;
	}

	Status status() const override
	{
		return state_ < 0 ? Status(StatusCode::kDataLoss, "the input failed") : Status();
	}

	void Next() override
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

} // namespace

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
