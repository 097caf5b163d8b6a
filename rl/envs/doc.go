// Package envs has environments that a learner can be tested in, as others have published them, so that figures compare.
//
//	              observation       actions        episode            threshold   random
//	CartPole      4                 2              at most 500 steps  475         22.3
//	Catch         10 x 5            3              9 steps            -           -0.6
//	Pendulum      3                 1 in [-2, 2]   200 steps          -           -1227
//	Bandit        1, always 1       one an arm     1 step             -           the mean of the arms
//
// CartPole and Pendulum are gymnasium's CartPole-v1 and Pendulum-v1, Catch is bsuite's. The dynamics are tested against gymnasium's, step by step;
// the starts come from another generator, so that the same seed is another episode there. A threshold is the mean return over 100 episodes from which
// on the environment counts as solved; Pendulum and Catch have none: good policies reach about -150, and 1. Random baselines were measured here, over
// 50,000 episodes and more.
//
// All keep the rules of rl.Check, and no call of theirs allocates.
//
// There is no rendering, and there are no parameters: another task is another environment.
package envs
