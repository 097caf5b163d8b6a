package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
)

// busyCluster is a Source with work of each kind that waits.
type busyCluster struct {
	*fake
	err error
}

func (b *busyCluster) Status(ctx context.Context) (inspect.Status, error) {
	b.come(ctx)
	return inspect.Status{
		Nodes: []inspect.NodeStatus{
			{Name: "a", State: inspect.NodeActive, Resources: raysys.Resources{CPU: 8, GPU: 2, Memory: 1 << 30}, Free: raysys.Resources{CPU: 2, GPU: 1, Memory: 1 << 29}, Queued: 3, Shaped: 2},
			{Name: "b", State: inspect.NodeUnknown, Resources: raysys.Resources{CPU: 64}, Error: "no answer"},
			{Name: "d", Role: "driver", State: inspect.NodeActive, Queued: 100},
		},
		Demand: []inspect.Demand{
			{Resources: raysys.Resources{CPU: 2, GPU: 1}, Count: 5, Unplaced: true},
			{Resources: raysys.Resources{Custom: map[string]float64{"seat": 0.5}}, Count: 4},
			{Resources: raysys.Resources{CPU: 4}, Count: 1000, Group: "g"}, // it draws from what the group has, or waits for
		},
		Groups: []inspect.GroupDemand{{Group: "g", Bundles: []raysys.Resources{{CPU: 100}, {GPU: 4}, {CPU: 1}}, Held: 1, Count: 2}},
		Shards: []inspect.ShardStatus{{Shard: 0, Node: "a"}, {Shard: 1}},
	}, b.err
}

// TestMetricsOfTheCluster: what the cluster wants is what work holds and what waits asks for, each once. It is asked for as /metrics is, without
// a token, and costs the nodes no more than the page.
func TestMetricsOfTheCluster(t *testing.T) {
	f := &busyCluster{fake: &fake{}}
	s := serving(t, f, func(s *Server) { s.access = access{asks: true} })
	code, body := ask(s, "/metrics/cluster")
	if code != http.StatusOK {
		t.Fatal(code, body)
	}
	for _, want := range []string{
		`raysys_wanted{resource="CPU"} 119`, // 6 held, 1 and 100 queued, 10 of tasks, 2 of bundles
		`raysys_wanted{resource="GPU"} 14`, `raysys_wanted{resource="memory"} 5.36870912e+08`, `raysys_wanted{resource="seat"} 2`,
		`raysys_nodes{state="active"} 2`, `raysys_nodes{state="unknown"} 1`, `raysys_nodes{state="suspect"} 0`, `raysys_shards{state="leaderless"} 1`, `raysys_shards{state="led"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no line %s in\n%s", want, body)
		}
	}
	for range 5 {
		ask(s, "/metrics/cluster")
	}
	if n := f.asked.Load(); n != 1 {
		t.Errorf("the nodes were asked %d times", n)
	}
	if code, _ := ask(s, "/api/status"); code != http.StatusUnauthorized {
		t.Errorf("the API: %d", code)
	}
	r := request("/metrics/cluster")
	r.Method = http.MethodPost
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	failing := serving(t, &busyCluster{fake: &fake{}, err: raysys.ErrClosed})
	if code, body := ask(failing, "/metrics/cluster"); code < 500 || strings.Contains(body, "raysys_wanted") {
		t.Errorf("without a status: %d %s", code, body)
	}
}
