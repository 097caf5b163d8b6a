// Package schedule calls methods of grains and submits tasks at times: once, each so often, or by a line of cron.
//
//	err := schedule.Call(ctx, "alice/bill", schedule.Every(30*24*time.Hour), bill, accounts.Get("alice"), args)
//	err = schedule.Task0(ctx, "report", schedule.Cron("30 2 * * mon-fri", "Europe/Berlin"), report, schedule.Queue)
//
// Schedules are kept where State is: without a cluster in memory or in RAYSYS_DATA, and in a cluster in its store. They fire while some
// node of the namespace runs that has the function; no node has to stay for that which has set them.
//
// Rules:
//
//  1. Each due time has one end. It is fired: its firing has an outcome. Or it is missed, for a reason: "overlap" (the
//     firing before ran, or was tried again), "late" (an outage, beyond CatchUp), "full" (1,000 firings run or wait).
//  2. A firing is made at least once. In a Durable kind it counts once, within KeepReplies: its call has a key of the
//     schedule's name and the due time.
//  3. The leader of the name's shard decides what is due, by its time of day, which it reads each minute. That time
//     travels with the record, and no other clock counts. After it is set back nothing fires twice. Where it was ahead by
//     more than an hour and more than a period, the schedule goes on from now.
//  4. An outage: the time that was due first is made, since it may have begun, and of the others the newest CatchUp.
//  5. Nothing is due in a pause, and another When is due first after the change. What was due before stays owed: it is
//     made after Resume, and with the new content.
//  6. An error of the method or the function is an outcome, and so is Cancel or Forget of a run. A fault of the system
//     is none. The list of faults is closed (outcome.go). The firing is tried again after 1 s, doubling to 60 s.
//
// In the code:
//
//		Call, Task, Pause, ... ──▶ the record "r/" of the name (internal/due) ◀── its leader: waits, gives what is due to a worker
//		                                   ▲                                              │
//		                                   └── the next record ── hand (hand.go) ◀────────┘
//
//	  - A record (record.go) is what a schedule does and how far it is, and how that changes: plain functions of the time.
//	  - A hand is a record at which this node works. It begins only firings that the stored record has (record.firm).
//	  - When (when.go) says which times are due; cron.go what a line of cron means in a zone.
package schedule
