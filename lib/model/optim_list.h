/* optim_list.h - the registry of update rules, from which optim_rule.c and train/optim/optim.c make
 * their tables */
#ifndef MODEL_OPTIM_LIST_H
#define MODEL_OPTIM_LIST_H

/* A rule's name, how many of its states are of matrices of layers alone, and the names of its
 * states, in the order of --optimizer. */
#define OPTIM_RULES(DO) \
	DO(adam, 0, "exp_avg", "exp_avg_sq") \
	DO(sgd, 0, "exp_avg") \
	DO(muon, 1, "momentum", "exp_avg", "exp_avg_sq")

#define OPTIM_ONE_MORE(...) +1
enum { OPTIM_NUM_RULES = OPTIM_RULES(OPTIM_ONE_MORE) };

#endif
