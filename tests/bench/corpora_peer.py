"""corpora_peer.py LIST CACHE SPLIT SEQ_LENGTH TRAIN,VALID,TEST THREADS

Builds the index maps of a blend with Megatron-LM's own builder, its source in PYTHONPATH
and its helpers_cpp built in place; prints the builder's elapsed and CPU milliseconds, without
Python's start.
"""
import sys
import time
import warnings

warnings.simplefilter("ignore")
from megatron.core.datasets import helpers  # its load is not part of the build
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig


class Tokenizer:
    """What maps are named after; the same as of mshard without a tokenizer."""

    vocab_size = 65536
    eod = 0
    unique_identifiers = {
        "class": "megatron.core.tokenizers.text.text_tokenizer.MegatronTokenizerText",
        "tokenizer_path": None,
        "vocab_size": "0",
    }


list_path, cache, split, seq_length, sizes, threads = sys.argv[1:]
with open(list_path, encoding="utf-8") as lines:
    words = lines.read().split()
config = GPTDatasetConfig(
    random_seed=1234,
    sequence_length=int(seq_length),
    blend=(words[1::2], [float(weight) for weight in words[::2]]),
    split=split,
    path_to_cache=cache,
    num_dataset_builder_threads=int(threads),
    tokenizer=Tokenizer(),
    reset_position_ids=False,
    reset_attention_mask=False,
    eod_mask_loss=False,
)
clocks = (time.monotonic, time.process_time)
start = [clock() for clock in clocks]
BlendedMegatronDatasetBuilder(
    GPTDataset, [int(size) for size in sizes.split(",")], lambda: True, config).build()
print(*(round(1000 * (clock() - begin)) for clock, begin in zip(clocks, start)), sep="\t")
