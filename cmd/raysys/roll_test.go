//go:build unix

package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
)

// rolling is a cluster in which nodes have a state.
type rolling struct {
	client.Cluster
	states map[raysys.NodeID]string
}

func (r rolling) Status(context.Context) (s client.Status, err error) {
	for name, state := range r.states {
		n := client.Node{Name: name, Role: "worker", State: state, Incarnation: 2, Up: time.Hour, Grace: time.Minute}
		s.Nodes = append(s.Nodes, n)
	}
	return s, nil
}

// TestRollStopsForAnother: a worker that came back and has died since ends the roll, for the next would as well.
func TestRollStopsForAnother(t *testing.T) {
	c := rolling{states: map[raysys.NodeID]string{"n1": inspect.NodeActive, "n2": inspect.NodeActive}}
	r := roll{Cluster: c, wait: time.Millisecond, talk: io.Discard}
	if _, err := r.begin(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	was := &client.Node{Name: "n2", Incarnation: 1}
	if _, err := r.back(t.Context(), was, &restarted{}); err != nil {
		t.Fatal(err)
	}
	delete(c.states, "n1")
	_, err := r.back(t.Context(), was, &restarted{})
	if err == nil {
		t.Fatal("n1 is away, and the roll goes on")
	}
	expect(t, err.Error(), "worker n1 is away")
}
