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
//  1. A firing is made at least once, and in a Durable kind it counts once.
//  2. An error of the method or the function is an outcome. A fault of the system is none: the firing is tried again.
//  3. What is due while the last firing runs is left out, unless Queue or Allow says otherwise; of what was missed while nothing ran the
//     newest is made up for, unless CatchUp says otherwise. Both are counted.
//  4. The time of day is that of the node which leads the shard of the name. It is read each minute, and when it is set back nothing fires twice.
//
// In the code:
//
//		Call, Task, Pause, ... ──▶ the record "r/" of the name (internal/due) ◀── its leader: waits, gives what is due to a worker
//		                                   ▲                                              │
//		                                   └── the next record ── hand (hand.go) ◀────────┘
//
//	  - A record (record.go) is what a schedule does and how far it is, and how that changes: plain functions of the time.
//	  - A hand is a record at which this node works.
//	  - When (when.go) says which times are due; cron.go what a line of cron means in a zone.
package schedule
