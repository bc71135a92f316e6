/*
 * schedule.h - what a pipeline stage does, in order: a list of actions
 *
 * The engine runs the list, mplan draws and prices it, and a property test simulates all stages.
 * Communication actions with the same group number are adjacent and issued as one exchange, so
 * nothing can deadlock. chunk is always 0: a stage has one. Source: Narayanan 2021 arXiv:2104.04473
 * (1F1B); Huang 2019 arXiv:1811.06965.
 */
#ifndef MODEL_SCHEDULE_H
#define MODEL_SCHEDULE_H

#include "lib/model/layout.h"

enum action_kind {
	ACTION_FORWARD,
	ACTION_BACKWARD,
	ACTION_RECV_FORWARD,
	ACTION_SEND_FORWARD,
	ACTION_RECV_BACKWARD,
	ACTION_SEND_BACKWARD,
};

struct action {
	enum action_kind kind;
	int microbatch, chunk;
	int group; /* of communication actions */
};

/* The list of one stage, freed by the caller; returns its length. */
int schedule_1f1b(int num_stages, int stage, int num_microbatches, struct action **out);
/* Forward passes alone, for evaluation. */
int schedule_forward(int num_stages, int stage, int num_microbatches, struct action **out);
/* The most micro batches whose activations a stage holds at once. */
int schedule_in_flight(int num_stages, int stage, int num_microbatches);

#endif
