// Package placement chooses a node for a task or a grain. It is a pure function: it reads no clock, keeps no state and
// draws no randomness of its own, so that equal input gives an equal decision, in a cluster, a test or a simulator.
//
// A View is what the caller believes of the nodes, a Request is the work, Place returns a Decision.
//
//	View ──┐   filters: role, function, labels, total,
//	       │            hard conditions                    ──► no node ever: raysys.ErrNoCapacity
//	       ├─►          joining, draining, free             ──► no node now:  ErrNoNode
//	Request┘   order:   sound, avoided, suspect
//	           prefer:  soft conditions, where it begins at once
//	           strategy: balanced, prefer-local, hash, spread, or your own ──► Decision
//
// Rules:
//
//  1. A View may be wrong: it is made of reports that are on their way while things change. The node that is chosen has
//     the last word; when it refuses, put it in Avoid, correct the View and ask again.
//
//  2. A grain reserves what it needs, so the node must have it free. A task may queue: it goes where the wait is
//     shortest, unless Now is set. One that reads large values goes where the wait and the time to move them there are
//     shortest together.
//
//  3. A grain goes to workers only. A task goes to workers, and to a driver only when that driver asks:
//     what others sent to it would be lost when its program ends.
//
//  4. A draining node takes nothing, a joining one nothing but its own tasks. A node in Avoid, or a suspect one, is taken
//     where there is no other: the first may still refuse, the second may be alive behind a broken link, and either is
//     better than no answer.
//
//  5. A hard condition is never broken. A soft one is a preference: it makes no task wait while a node that fits is idle, and takes
//     no node that is to be avoided, or suspect, while there is another.
//
// One request:
//
//	v := placement.NewView("a", nodes)
//	r := placement.Request{Kind: placement.Grain, Key: "alice", Seed: draw}
//	d, err := placement.Place(v, r)
//	if err == nil {
//		v.Placed(r, d) // so that the next decision knows of this one
//	}
//
// Assign chooses the nodes of the bundles of a placement group, which want nodes together: see package groups.
//
// It does not reserve anything, and does not weigh for grains where objects lie.
package placement
