// Package rl is reinforcement learning on raysys, in the words of Acme: environments, agents, and experiments that train one in the other, in one
// goroutine or on a cluster by the same line.
//
//	actor:    Env ◄─ action ─ Policy ◄──────────── Weights, found by their name ◄─────┐
//	           └─ Step ─► Adder ─► Trajectory ─► replay table ─► Batch ─► Learner ────┘
//	                                              its limiter keeps the two in step
//
// Its nouns:
//
//   - An Env is an environment; its Spec says what it shows and takes, and Check looks whether it keeps the rules. Flatten makes an observation of a
//     struct. Package rl/envs has environments to begin with.
//   - An Agent is an algorithm: it makes the Policy that acts and the Learner that learns, and says by an Experience how steps become what is
//     sampled. Packages rl/dqn, rl/ppo and rl/impala have one each; one of your own has three small types.
//   - A Trajectory is a run of steps, the one item of the replay table. An Adder makes them: NStep, Sequence or Episodes.
//   - A Setup is an environment with an agent. Define gives it a name that all nodes know, as an Experiment; Train runs it as a Plan says, and
//     returns the Run.
//   - A Variant is an Experiment with another Setup, for one goroutine on any node: package rl/sweep finds settings by many of them.
//   - A Loop is what an actor does: for programs that spread rollouts in their own way.
//
// A first experiment:
//
//	var catch = rl.Define("catch-dqn", rl.Setup[int]{
//		Env:   func(seed uint64) rl.Env[int] { return envs.Catch(seed) },
//		Agent: dqn.New(dqn.Config{NStep: 5, Prioritised: true}),
//	})
//
//	func main() {
//		system.Main(func(ctx context.Context) error {
//			run, err := catch.Train(ctx, rl.Plan{Steps: 20_000, Stop: rl.MeanReturn(100, 0.95)})
//			if err != nil {
//				return err
//			}
//			fmt.Println(run)
//			return run.Plot("catch.svg")
//		})
//	}
//
// Rules:
//
//  1. With one actor, on a node that is alone, everything happens in the goroutine of the caller and repeats bit for bit by Plan.Seed. Else each
//     actor, the learner and the replay table are grains, which the cluster places; what they do depends on which is faster.
//  2. The limiter of the agent's table says how many samples the learner takes for each that an actor inserts. It waits for the actors, or they
//     for it: so 1 actor and 16 make runs of the same quality.
//  3. The learner is never asked for its weights: it gives them a name, and actors look the name up while they play. While the learner is away
//     they play by those that they have.
//  4. The learner's State has a checkpoint. When its node dies it goes on from there on another; the steps that a Run counts are those that a
//     checkpoint has, and never go back. What the replay table held on a dead node is gone, and the learner waits until there is enough
//     again. A Plan with a Name goes on even when the program ended, by the Seed that it began with.
//  5. A Policy, a Learner and an Env are each for one goroutine. Slices that they return have the rules that their methods say.
//
// What is wrong with an environment or an action is an *EnvError, with its seed, episode and step; the other errors are ErrPlan, ErrModel,
// ErrDiverged and those of grains/replay.
//
// It has no recurrent policies, no environments of several agents, and no schedule for hyperparameters.
package rl
