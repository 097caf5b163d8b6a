package system

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys"
)

// Streams is how far the subscriptions of all streams are, at one moment.
type Streams struct {
	Cluster string       `json:"cluster"`
	Parts   []StreamPart `json:"parts"`
	Silent  []string     `json:"silent,omitempty"` // nodes that do not answer, and why: the parts that they deliver are missing
}

// StreamPart is one part of a subscription, by the node that delivers it.
type StreamPart struct {
	Node      raysys.NodeID `json:"node"`
	Namespace string        `json:"namespace"` // of the program
	Stream    string        `json:"stream"`
	To        string        `json:"to"` // the kind of grain, and the name of the subscription where it has one
	Part      int           `json:"part"`
	Floor     uint64        `json:"floor"`            // all events up to this number were taken
	Lag       uint64        `json:"lag"`              // events that are stored and were not taken
	Failing   int           `json:"failing"`          // grains whose handler fails at this moment
	Parked    uint64        `json:"parked"`           // events parked from here since it began
	Rate      float64       `json:"rate"`             // events taken in a second, of the last ten
	Stores    int           `json:"stores,omitempty"` // how often NATS came back with a store that lacks events which were taken
	Since     int64         `json:"since,omitempty"`  // the last time that this was so, in seconds of Unix time
	Copies    int           `json:"copies,omitempty"` // servers that have the stream, as part 0 saw within the hour; other parts have none
	Wanted    int           `json:"wanted,omitempty"` // servers that should have it: 3 where the servers are a cluster, else 1
}

// Thin describes the streams with fewer copies than they should have, each once and in order.
func (s Streams) Thin() (list []string) {
	for _, p := range s.Parts {
		if p.Copies < p.Wanted {
			list = append(list, fmt.Sprintf("%s of %s has %d of %d copies", p.Stream, cmp.Or(p.Namespace, "-"), p.Copies, p.Wanted))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Streams asks all nodes for the parts of subscriptions that they deliver, for up to 3 s or as long as ctx lasts.
func (n *Node) Streams(ctx context.Context) (Streams, error) {
	all := Streams{Cluster: n.Cluster(), Parts: []StreamPart{}}
	for k, a := range n.askAll(ctx, n.members(), adminRequest{op: adminList, id: "streams"}) {
		var parts []StreamPart
		err := a.err
		if err == nil && len(a.answer.List) > 0 {
			err = json.Unmarshal(a.answer.List, &parts)
		}
		if err != nil {
			all.Silent = append(all.Silent, fmt.Sprintf("%s: %v", k.Node, err))
		}
		all.Parts = append(all.Parts, parts...)
	}
	slices.Sort(all.Silent)
	slices.SortFunc(all.Parts, func(a, b StreamPart) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Stream, b.Stream), strings.Compare(a.To, b.To), cmp.Compare(a.Part, b.Part))
	})
	if err := ctx.Err(); err != nil {
		return all, fmt.Errorf("streams: %w", context.Cause(ctx))
	}
	return all, nil
}
