#!/bin/bash
# a construct that is not read
# explain:
NODES=2
mapfile -t HOSTS < <(scontrol show hostnames)
torchrun pretrain_gpt.py --num-layers 2
