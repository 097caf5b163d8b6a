package bench_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys/cmd/raysys-lab/internal/bench"
)

// named are the rows that take minutes.
var named = []string{"failover_silence", "locality", "always_activate", "durable_calls", "schedules_due", "schedules_stored", "tasks_50m"}

func TestSelect(t *testing.T) {
	all := bench.Names(bench.Rows(bench.InProcess))
	across := slices.DeleteFunc(bench.Names(bench.Rows(bench.CrossProcess)), func(n string) bool { return slices.Contains(named, n) })
	for _, c := range []struct {
		names []string
		tier  bench.Tier
		want  []string
		err   string // part of the error
	}{
		{nil, bench.InProcess, all, ""},
		{nil, bench.CrossProcess, across, ""},
		{[]string{"actor_sync", " tasks_sync"}, bench.InProcess, []string{"tasks_sync", "actor_sync"}, ""},
		{[]string{"tasks_sync", "tasks_sync"}, bench.InProcess, []string{"tasks_sync"}, ""},
		{[]string{"failover", "tasks_sync"}, bench.CrossProcess, []string{"tasks_sync", "failover"}, ""},
		{[]string{"failover_silence"}, bench.CrossProcess, []string{"failover_silence"}, ""},
		{[]string{"task_sync"}, bench.InProcess, nil, `row "task_sync" does not exist: use --row with tasks_async, `},
		{[]string{""}, bench.InProcess, nil, `row "" does not exist`},
		{[]string{"tasks_sync", "failover"}, bench.InProcess, nil, "row failover is measured in another tier: use --tier cross-process"},
		{[]string{"get_small"}, bench.CrossProcess, nil, "row get_small is measured in another tier: use --tier in-process"},
		{[]string{"locality"}, bench.InProcess, nil, "row locality is measured in another tier: use --tier cross-process"},
		{[]string{"returns_3k"}, bench.InProcess, nil, "row returns_3k cannot be measured yet: it is not written yet"},
		{[]string{"returns_3k"}, bench.CrossProcess, nil, "it is not written yet"},
		{[]string{"transfer"}, bench.InProcess, nil, "row transfer is measured in another tier: use --tier cross-process"},
		{nil, "here", nil, `tier "here" does not exist: use --tier in-process or --tier cross-process`},
	} {
		rows, err := bench.Select(c.names, c.tier)
		if c.err == "" {
			if err != nil || !slices.Equal(bench.Names(rows), c.want) {
				t.Errorf("Select(%q, %s) = %q, %v; want %q", c.names, c.tier, bench.Names(rows), err, c.want)
			}
			continue
		}
		var selection *bench.SelectionError
		if !errors.As(err, &selection) || !strings.Contains(err.Error(), c.err) {
			t.Errorf("Select(%q, %s): %v; want a SelectionError with %q", c.names, c.tier, err, c.err)
		}
	}
}

// Every row has a name of its own in its tier, and is either there or listed with what it waits for.
func TestEveryRowIsThereOnce(t *testing.T) {
	for tier, want := range map[bench.Tier][]string{
		bench.InProcess: {
			"tasks_async", "tasks_map", "tasks_sync", "tasks_multi_client_async", "actor_sync", "actor_async", "actor_n_n_async", "ticks", "generator_items", "queue_items",
			"get_small", "put_small", "put_gigabytes", "get_10k_refs", "wait_1k", "queued_1m", "args_10k", "returns_3k",
			"grains_idle", "placement_group", "node_start", "node_idle_rss", "tasks_recorded", "tasks_watched", "calls_recorded",
		},
		bench.CrossProcess: {
			"tasks_async", "tasks_map", "tasks_sync", "tasks_multi_client_async", "actor_sync", "actor_async", "actor_n_n_async",
			"generator_items", "queue_items", "wait_1k", "put_small", "transfer", "share", "broadcast", "bulk_p99", "results_by_size", "allreduce_small", "grain_activate", "always_activate", "durable_calls", "schedules_due", "schedules_stored", "groups", "node_join", "node_rss_3_peers", "failover", "failover_silence", "locality", "tasks_50m",
		},
	} {
		got := bench.Names(bench.Rows(tier))
		for _, r := range bench.Rows(tier) {
			if r.Operation == "" || r.Unit == "" || r.Tier != tier || r.Named != slices.Contains(named, r.Name) {
				t.Errorf("row %s is not described: %+v", r.Name, r)
			}
		}
		for _, l := range bench.Later(tier) {
			if got = append(got, l.Name); l.Why == "" || l.Tier != tier {
				t.Errorf("%s of %s is listed as %+v", l.Name, tier, l)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("rows of %s are\n%q, want\n%q", tier, got, want)
		}
	}
}
