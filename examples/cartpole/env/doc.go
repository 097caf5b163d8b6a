// Package env holds the environments a policy learns in: an interface that
// costs no allocation per step, and the cart-pole of Barto, Sutton and Anderson.
//
// The nouns are Env, the world an agent acts in, and Spec, the sizes an agent
// needs to know before it meets the world.
//
//	action 0: push left           action 1: push right
//
//	                    theta  |  /
//	                           | /
//	                           |/
//	                       +---o---+
//	         force  ---->  |       |
//	                       +-o---o-+
//	 x: -2.4 ------------------0------------------ +2.4
//
// Rules for the user:
//
//  1. An Env belongs to one goroutine; make one per rollout, they are small.
//  2. Observations are written into a slice of the caller, so nothing a caller
//     keeps changes behind its back.
//  3. An episode ends in one of two ways, and they are never the same thing:
//     done says that the future is worth nothing from here, truncated says only
//     that nobody looks further. A learner bootstraps the second, not the first.
//  4. Step after the end of an episode, before the first Reset, or with an
//     action outside the Spec panics: it is a mistake in the program, like an
//     index out of range, and no caller could go on.
//
// A random agent:
//
//	rng := rand.New(rand.NewPCG(1, 2))
//	e := env.NewCartPole()
//	obs := make([]float64, e.Spec().Obs)
//	e.Reset(rng, obs)
//	for done, truncated := false, false; !done && !truncated; {
//		_, done, truncated = e.Step(rng.IntN(e.Spec().Actions), obs)
//	}
//
// What it does not do: continuous actions, rendering, batches of worlds in one
// call. Parallel worlds are parallel tasks.
package env
