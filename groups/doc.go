// Package groups makes placement groups: bundles of resources that the cluster reserves together, on nodes that a strategy
// chooses, for tasks and grains that run in them.
//
//	Create ──► waits for room ──► every bundle is reserved: Wait returns ──► work .With(g.Bundle(0)) ──► Remove
//	               ▲                        │
//	               └── a node dies or drains: its bundles, and these alone, are placed anew
//
// A Group is the group, a bundle is one of its reservations: resources of one node that only the work of the group draws from.
//
// Rules:
//
//  1. A group gets all of its bundles or none. One that the cluster could never hold fails with raysys.ErrNoCapacity, at once and
//     with what there is; one that has no room now waits for it. Wait says when it has it; so does work in the group, which waits
//     too. Once it has waited for 10 s what becomes free on the nodes that it is to have is kept for it, and small tasks do not take that.
//
//  2. Work in a bundle asks for part of the bundle, as it would ask for part of a node, and waits in it, oldest first. Work that may be
//     in any (AnyBundle) does not wait in one while another has room.
//
//  3. A group goes with the node of the driver that has made it, unless it is Detached. One that a task makes goes with the node of the driver
//     that the task comes from, or with its own where that has gone; one that a grain makes with the node on which the grain is. The end of a task
//     removes no group: "defer g.Remove(ctx)" does. A further attempt of a task makes another, and those go that earlier attempts have made in the same place.
//
//  4. Remove cancels what runs in the group, with raysys.ErrGroupRemoved, and returns when the room is free. The command "raysys list groups" lists the
//     groups of a cluster, and "raysys cancel" removes one.
//
//  5. A grain is put into a bundle by the call that has it activated: the first decides, and other calls reach the grain where it is.
//     It holds there what grains.Holds says, and takes no Placement and no grains.Label into account. It goes with the group, and calls that
//     name a group which was removed fail with raysys.ErrGroupRemoved. So let each call name the bundle that may be the first.
//
//  6. When a node dies, its work in the group runs again as other work does, once its bundles have another node. A node that
//     drains gives its bundles to others while they have room: grains go with them, tasks that run go on to their ends.
//
// A pipeline of two stages, each of them on a node of its own:
//
//	g, err := groups.Create(ctx, placement.StrictSpread, []raysys.Resources{{CPU: 1, GPU: 4}, {CPU: 8}}, groups.Named("training"))
//	if err == nil {
//		err = g.Wait(ctx)
//	}
//	loss := learn.With(raysys.GPU(4), g.Bundle(0)).Go(ctx, epoch)
//	won := play.With(g.Bundle(1), groups.CaptureChildren()).Go(ctx, epoch)
//	saved := save.With(g.Bundle(0)).Call(ctx, learners.Get("policy"), loss)
//
// A grains.StatelessWorker kind is in no group. No bundle of a node that stays is moved, also where its device is sick: work that asks for that
// fails with raysys.ErrNoCapacity, or waits with raysys.WaitForResources, unless it may be in another. No group grows. One that no node could ever hold, and that is made while nodes join, waits
// until these are there, or given up. Then it has room, waits for it, or has ended: all that waits for it fails with raysys.ErrNoCapacity, and its name is free. A
// group that the nodes once were enough for does not end so, whichever of them die.
package groups
