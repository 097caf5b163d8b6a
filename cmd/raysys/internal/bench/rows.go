package bench

import "runtime"

// batch is how many operations are in flight in the rows that say 1000.
const batch = 1000

// clients is how many submitters or callers the rows with several have. It does not follow the number of CPUs, so that
// figures of different machines count the same work.
const clients = 4

// Rows lists what can be measured here, in the order of the table.
func Rows() []Row {
	rows, _ := split()
	return rows
}

// Later lists what cannot be measured, with the reason.
func Later() []Pending {
	_, off := split()
	return append(pending(), off...)
}

func split() (rows []Row, off []Pending) {
	for _, r := range catalogue() {
		if r.Name == "node_idle_rss" && runtime.GOOS != "linux" {
			off = append(off, Pending{r.Name, r.Tier, "needs the /proc of Linux"})
			continue
		}
		r.Tier = InProcess
		rows = append(rows, r)
	}
	return rows, off
}

func catalogue() []Row {
	return []Row{
		{
			Name: "tasks_async", Unit: "tasks/s", measure: tasksAsync,
			Operation: "submit 1000 tasks with one Go each, then get 1000 results",
		},
		{
			Name: "tasks_map", Unit: "tasks/s", measure: tasksMap,
			Operation: "one Map over 1000 arguments, then get 1000 results",
		},
		{
			Name: "tasks_sync", Unit: Latency, measure: tasksSync,
			Operation: "submit one task and get its result",
		},
		{
			Name: "tasks_multi_client_async", Unit: "tasks/s", measure: tasksClients,
			Operation: "tasks_async from 4 drivers at the same time",
		},
		{
			Name: "actor_sync", Unit: Latency, measure: actorSync,
			Operation: "call one grain and get the result",
		},
		{
			Name: "actor_async", Unit: "calls/s", measure: actorAsync,
			Operation: "1000 calls to one grain in flight, then get 1000 results",
		},
		{
			Name: "actor_n_n_async", Unit: "calls/s", measure: actorClients,
			Operation: "4 drivers, each with 1000 calls in flight, spread over 4 grains",
		},
		{
			Name: "get_small", Unit: "gets/s", measure: getSmall,
			Operation: "get of an int that was put",
		},
		{
			Name: "put_small", Unit: "puts/s", measure: putSmall,
			Operation: "put of one int",
		},
		{
			Name: "get_10k_refs", Unit: "lists/s", measure: getList,
			Operation: "get a task's result that holds 10,000 refs, then get the value of each",
		},
		{
			Name: "wait_1k", Unit: "runs/s", measure: waitThousand,
			Operation: "submit 1000 tasks, then 1000 times wait for one of those left",
		},
		{
			Name: "queued_1m", Unit: "tasks/s", measure: queuedMillion,
			Operation: "submit 1,000,000 tasks while every CPU is busy, then let them go and get all results",
		},
		{
			Name: "args_10k", Unit: Latency, measure: manyArgs,
			Operation: "put 10,000 ints, submit one task with the 10,000 refs as argument, get their sum",
		},
		{
			Name: "grains_idle", Unit: Bytes, measure: grainsIdle,
			Operation: "live heap after GC for each of 1,000,000 idle grains, beyond the user's struct",
		},
		{
			Name: "node_start", Unit: Latency, measure: nodeStart,
			Operation: "start a process, a node in it, and have the result of its first task",
		},
		{
			Name: "node_idle_rss", Unit: Bytes, measure: nodeIdle,
			Operation: "resident memory of a process with an idle node",
		},
	}
}
