/* optim_list.h - the registry of update rules, from which optim_rule.c and train/optim/optim.c make
 * their tables */
#ifndef MODEL_OPTIM_LIST_H
#define MODEL_OPTIM_LIST_H

/* A rule's name, what it is capable of (enum optim_trait of optim_rule.h; 0: nothing), how many of
 * its states are of matrices of layers alone, and the names of its states. The order is that of
 * --help alone: files hold names. */
#define OPTIM_RULES(DO) \
	DO(adam, OPTIM_CHOOSES_TYPES | OPTIM_OF_MEGATRON, 0, "exp_avg", "exp_avg_sq") \
	DO(sgd, 0, 0, "exp_avg") \
	DO(muon, 0, 1, "momentum", "exp_avg", "exp_avg_sq")

#define OPTIM_ONE_MORE(...) +1
enum { OPTIM_NUM_RULES = OPTIM_RULES(OPTIM_ONE_MORE) };

#endif
