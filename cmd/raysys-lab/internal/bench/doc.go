// Package bench measures raysys in rows, each beside its raw limit: the same work done with nothing but the language,
// in the same run, round by round in turn.
//
// A Row is one operation. Run gives its Result, which the table and the JSON form show.
//
//	Select ─> Row ── Run(ctx, Plan) ──> Result ─> Printer, JSON
//	           │  round: operation, raw limit
//	           │  round: operation, raw limit
//	           └─ ...                          (medians of the rounds)
//
// A tier says where the two ends of an operation are. In the in-process tier a node and its driver are this process. In
// the cross-process tier this process is the driver of a cluster, without CPUs of its own, the workers are children,
// and they find each other through a Consul server:
//
//	driver (this process) ── link over loopback TCP ── worker (child) ...      measured in turn with
//	caller (this process) ──── framed loopback TCP ──── echo (child)
//
// Rows that wait for each result have a child for both ends, each pinned to a CPU from its start, in two layouts.
//
// Rules: a figure stands beside a limit of the same run or it is not shown; a row that cannot be measured yet is
// listed, never made up; a measurement that others would disturb (memory of a node, start of a process) runs in a
// process of its own, the same binary again (Child); a row of the cross-process tier checks where its work was done.
//
//	c, err := consulserver.Run(ctx, consulserver.Options{Disk: true})
//	rows, err := bench.Select([]string{"tasks_sync"}, bench.CrossProcess)
//	r, err := rows[0].Run(ctx, bench.Plan{Consul: c.Address()})
//	bench.NewPrinter(os.Stdout, []string{r.Row}).Row(r)
//
// It does not measure between hosts.
package bench
