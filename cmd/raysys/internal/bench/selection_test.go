package bench_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys/cmd/raysys/internal/bench"
)

func TestSelect(t *testing.T) {
	all := bench.Names(bench.Rows())
	for _, c := range []struct {
		names []string
		tier  bench.Tier
		want  []string
		err   string // part of the error
	}{
		{nil, bench.InProcess, all, ""},
		{[]string{"actor_sync", " tasks_sync"}, bench.InProcess, []string{"tasks_sync", "actor_sync"}, ""},
		{[]string{"tasks_sync", "tasks_sync"}, bench.InProcess, []string{"tasks_sync"}, ""},
		{[]string{"task_sync"}, bench.InProcess, nil, `row "task_sync" does not exist: use --row with tasks_async, `},
		{[]string{""}, bench.InProcess, nil, `row "" does not exist`},
		{[]string{"tasks_sync", "failover"}, bench.InProcess, nil, "row failover cannot be measured yet: it comes with the cluster"},
		{[]string{"put_gigabytes"}, bench.InProcess, nil, "it comes with the object store"},
		{nil, bench.CrossProcess, nil, "tier cross-process is not there yet, it comes with the cluster: use --tier in-process"},
		{nil, "here", nil, `tier "here" does not exist: use --tier in-process`},
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

// Every row has a name of its own, and is either there or listed with what it waits for.
func TestEveryRowIsThereOnce(t *testing.T) {
	want := []string{
		"tasks_async", "tasks_map", "tasks_sync", "tasks_multi_client_async", "actor_sync", "actor_async", "actor_n_n_async",
		"get_small", "put_small", "put_gigabytes", "transfer", "get_10k_refs", "wait_1k", "queued_1m", "args_10k", "returns_3k",
		"grain_activate", "grains_idle", "placement_group", "node_start", "node_idle_rss", "node_join", "node_rss_3_peers",
		"failover", "lineage",
	}
	got := bench.Names(bench.Rows())
	for _, r := range bench.Rows() {
		if r.Operation == "" || r.Unit == "" || r.Tier != bench.InProcess {
			t.Errorf("row %s is not described: %+v", r.Name, r)
		}
	}
	for _, l := range bench.Later() {
		if got = append(got, l.Name); l.Why == "" {
			t.Errorf("%s is listed without a reason", l.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("rows are\n%q, want\n%q", got, want)
	}
}
