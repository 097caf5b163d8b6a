package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/metrics"
)

// cluster answers /metrics/cluster, from the answer to /api/status that is kept for a second.
func (s *Server) cluster(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, r, http.StatusMethodNotAllowed, "give GET")
		return
	}
	if err := s.ready(); err != nil {
		fail(w, r, codeOf(err), err.Error())
		return
	}
	a, err := s.answers.get(r.Context(), readerOf(r.RemoteAddr), "status?", func(ctx context.Context) (any, error) {
		return kinds["status"].ask(ctx, s.Source, nil)
	})
	if err != nil {
		fail(w, r, codeOf(err), err.Error())
		return
	}
	var st inspect.Status
	z, err := gzip.NewReader(bytes.NewReader(a.body))
	if err == nil && a.code == http.StatusOK {
		err = json.NewDecoder(z).Decode(&st)
	}
	if err != nil || a.code != http.StatusOK {
		fail(w, r, max(a.code, http.StatusInternalServerError), fmt.Sprintf("no status of the cluster: %v", err))
		return
	}
	wantedOf(&st).ServeHTTP(w, r)
}

// wantedOf adds up what the nodes hold and what waits. Work in bundles is not counted: it asks for a part of them.
func wantedOf(st *inspect.Status) *metrics.Cluster {
	c := &metrics.Cluster{Wanted: map[string]float64{"CPU": 0}, Nodes: map[string]int{}}
	c.Shards = map[string]int{"led": 0, "leaderless": 0}
	add := func(r raysys.Resources, n float64) {
		of := map[string]float64{"CPU": r.CPU, "GPU": r.GPU, "memory": float64(r.Memory)}
		for name, v := range r.Custom {
			of[name] += v
		}
		for name, v := range of {
			if v != 0 {
				c.Wanted[name] += v * n
			}
		}
	}
	for _, state := range []string{
		inspect.NodeActive, inspect.NodeSuspect, inspect.NodeSuspended,
		inspect.NodeDraining, inspect.NodeJoining, inspect.NodeUnknown,
	} {
		c.Nodes[state] = 0
	}
	for i := range st.Nodes {
		n := &st.Nodes[i]
		c.Nodes[n.State]++
		if n.State == inspect.NodeUnknown {
			continue // what it holds it has not said
		}
		add(n.Resources, 1)
		add(n.Free, -1)
		c.Wanted["CPU"] += float64(max(n.Queued-n.Shaped, 0))
	}
	for i := range st.Demand {
		if d := &st.Demand[i]; d.Group == "" {
			add(d.Resources, float64(d.Count))
		}
	}
	for i := range st.Groups {
		g := &st.Groups[i]
		for _, b := range g.Bundles[min(g.Held, len(g.Bundles)):] {
			add(b, float64(g.Count))
		}
	}
	for _, sh := range st.Shards {
		if sh.Node == "" {
			c.Shards["leaderless"]++
		} else {
			c.Shards["led"]++
		}
	}
	return c
}
