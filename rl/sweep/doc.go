// Package sweep looks for the settings of an agent: it draws them from a space, trains each in a trial, on all nodes, and gives the steps of the
// environment to those that do well.
//
//	var tune = sweep.Define("catch-tune", sweep.Space{
//		"rate":  sweep.Log(1e-5, 1e-1),
//		"nstep": sweep.Choice(1, 3, 5),
//	}, func(s sweep.Setting) rl.Setup[int] {
//		return rl.Setup[int]{Env: envs.Catch, Agent: dqn.New(dqn.Config{LearningRate: s.Float("rate"), NStep: s.Int("nstep")})}
//	})
//
//	func main() {
//		system.Main(func(ctx context.Context) error {
//			found, err := tune.Run(ctx, sweep.Plan{Name: "monday", Trials: 27, Steps: 18_000, Search: sweep.ASHA(3, 2000)})
//			if err != nil {
//				return err
//			}
//			fmt.Println(found) // a table of the trials, the best first
//			return found.Plot("monday.svg")
//		})
//	}
//
// A Space has a Range for each name: Uniform, Log or Choice. A Setting is a number for each of them.
//
// A trial is a run of one Setting, a task of one CPU on any node, whose checkpoints have the name of the sweep and its number. Its actor and learner
// share a goroutine. The nth setting and its chance follow from Plan.Seed and n, whatever the nodes do.
//
// Two searches say how far trials are run:
//
//   - Random: each to all Steps.
//   - ASHA(eta, least): asynchronous successive halving, of Li et al., "A System for Massively Parallel Hyperparameter Tuning" (2018). A trial begins with
//     the first rung, of least steps; each rung has eta times as many as the one before, the last has all Steps. Whenever there is room, a trial that is among
//     the best 1/eta of those that have made its rung goes on to the next rung, from its checkpoint; if there is none a new trial begins. None waits
//     for others to end.
//
// A sweep with a Name that has not ended goes on when Run is called again with that name, in another program too where the cluster or RAYSYS_DATA keeps
// State: what trials have made is not made again, and those that ran go on from their checkpoints. A checkpoint has no replay table: a trial that
// goes on plays until its table can be sampled again, which a small MinSize of dqn keeps short.
//
// A trial whose learner diverges is one that failed; what is wrong with a setup or an environment ends the sweep.
package sweep
