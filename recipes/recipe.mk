# recipe.mk - what can be done with every recipe; a target is one command
#
# DATA, TOKENIZER, WEIGHTS, VOCAB and OUT are yours, on the command line of make.
DATA      =
TOKENIZER =
WEIGHTS   =
VOCAB     =
OUT       = data
KEY      ?= text

corpus = $(OUT)/corpus_$(KEY)_document
vocab  = $(if $(VOCAB),--vocab-size $(VOCAB))
of     = $(shell sed -n 's/^$(1) //p' model.conf run.conf)

help:
	@sed -n 's/^#: //p' ../recipe.mk

#: text      count documents and tokens of DATA, in KEY, by TOKENIZER
text:
	mtok count --json-keys $(KEY) --tokenizer-model '$(TOKENIZER)' $(DATA)
#: tokens    make the dataset in OUT of them
tokens:
	@mkdir -p '$(OUT)'
	mtok encode --json-keys $(KEY) --tokenizer-model '$(TOKENIZER)' --append-eod \
		--output-prefix '$(OUT)/corpus' $(DATA)
#: verify    check the dataset
verify:
	mshard verify '$(corpus)'
#: index     say how many samples one epoch has, and write its maps
index:
	mshard index --data-path '$(corpus)' --seq-length $(call of,seq-length) \
		--split $(or $(call of,split),'969, 30, 1') --data-cache-path '$(OUT)/cache'
#: check     is the layout legal, on RANKS ranks
check:
	mplan check --config model.conf --world-size $(RANKS) $(vocab)
#: plan      the bytes of each rank
plan:
	mplan mem --config model.conf --world-size $(RANKS) $(vocab)
#: fit       does the run fit GPU; whatever else is wrong with it
fit:
	mtrain --config model.conf --config run.conf --mock-data --dry-run --world-size $(RANKS) \
		--gpu $(GPU) $(vocab)
#: all.conf  one file of options for mtrain and the scripts in ../job
all.conf: model.conf run.conf
	{ cat model.conf run.conf; echo 'data-path "$(abspath $(corpus))"'; \
	echo 'tokenizer-model "$(abspath $(TOKENIZER))"'; \
	$(if $(WEIGHTS),echo 'pretrained-checkpoint "$(abspath $(WEIGHTS))"';) } >$@
#: small     train the small form on this machine
small:
	mtrain --config model.conf --config run.conf --config small.conf

.PHONY: help text tokens verify index check plan fit small
