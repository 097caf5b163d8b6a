package bench_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/cmd/raysys-lab/internal/bench"
	"github.com/raysys/raysys/internal/golden"
)

func at(v float64) *float64 { return &v }

// fixed are results as a run might give, of each kind of unit and of each size that is shown in another way.
var fixed = []bench.Result{
	{
		Row: "tasks_async", Tier: bench.InProcess, Value: 9_123_000, Unit: "tasks/s", P50: at(105.2), P99: at(1210), Max: at(2_500_000),
		Limit: "goroutine pool", LimitValue: 18_250_000, Ratio: 0.4999,
		Detail: map[string]any{"operation": "submit & get <1000>", "rounds": []float64{9e6, 9_123_000}},
	},
	{
		Row: "tasks_sync", Tier: bench.InProcess, Value: 0.4512, Unit: bench.Latency, P50: at(0.4512), P99: at(1.2), Max: at(88.1),
		Limit: "ping-pong", LimitValue: 0.231, Ratio: 1.953, Detail: map[string]any{},
	},
	{
		Row: "wait_1k", Tier: bench.InProcess, Value: 4021, Unit: "runs/s", P50: at(240), P99: at(300), Max: at(900),
		Limit: "pool", LimitValue: 20_100, Ratio: 0.2, Detail: map[string]any{},
	},
	{
		Row: "grains_idle", Tier: bench.InProcess, Value: 615, Unit: bench.Bytes,
		Limit: "sketch", LimitValue: 624, Ratio: 0.9856, Detail: map[string]any{"rss_mib": 802.2},
	},
	{
		Row: "node_idle_rss", Tier: bench.InProcess, Value: 14_400_000, Unit: bench.Bytes,
		Limit: "nothing", LimitValue: 20_000, Ratio: 720, Detail: map[string]any{},
	},
}

// same compares with a golden file.
func same(t *testing.T, name string, got []byte) {
	t.Helper()
	if d := cmp.Diff(string(golden.Bytes(t, name, got)), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func TestTableForm(t *testing.T) {
	var b bytes.Buffer
	names := make([]string, len(fixed))
	for i, r := range fixed {
		names[i] = r.Row
	}
	p := bench.NewPrinter(&b, names)
	err := p.Head()
	for _, r := range fixed {
		err = errors.Join(err, p.Row(r))
	}
	if err != nil {
		t.Fatal(err)
	}
	same(t, "table.txt", b.Bytes())
}

func TestJSONForm(t *testing.T) {
	var b bytes.Buffer
	if err := bench.JSON(&b, fixed); err != nil {
		t.Fatal(err)
	}
	same(t, "results.json", b.Bytes())
	b.Reset()
	if err := bench.JSON(&b, nil); err != nil || b.String() != "[]\n" {
		t.Errorf("no results are %q, %v: want an empty list", b.String(), err)
	}
}
