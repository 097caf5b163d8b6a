// Package bench measures raysys in rows, each beside its raw limit: the same work done with nothing but the language, in
// the same run, round by round in turn.
//
// A Row is one operation. Run gives its Result, which the table and the JSON form show.
//
//	Select ─> Row ── Run(ctx, Plan) ──> Result ─> Table, JSON
//	           │  round: operation, raw limit
//	           │  round: operation, raw limit
//	           └─ ...                          (medians of the rounds)
//
// Rules: a figure stands beside a limit of the same run or it is not shown; a row that cannot be measured yet is
// listed, never made up; what must not disturb others (memory of a node, start of a process) runs in a process of its own,
// the same binary again (Child).
//
//	rows, err := bench.Select([]string{"tasks_sync"}, bench.InProcess)
//	r, err := rows[0].Run(ctx, bench.Plan{})
//	bench.Table(os.Stdout, []bench.Result{r})
//
// It does not measure across processes: that comes with the cluster.
package bench
