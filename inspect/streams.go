package inspect

import (
	"cmp"
	"fmt"
	"slices"

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
	Floor     uint64        `json:"floor"`             // all events up to this number were taken
	Lag       uint64        `json:"lag"`               // events that are stored and were not taken
	Failing   int           `json:"failing"`           // grains whose handler fails at this moment
	Parked    uint64        `json:"parked"`            // events parked from here since it began
	Dropped   uint64        `json:"dropped,omitempty"` // events that were given up since it began: after the last attempt, or as Keep was over
	Rate      float64       `json:"rate"`              // events taken in a second, of the last ten
	Stores    int           `json:"stores,omitempty"`  // how often NATS came back with a store that lacks events which were taken
	Since     int64         `json:"since,omitempty"`   // the last time that this was so, in seconds of Unix time
	Copies    int           `json:"copies,omitempty"`  // servers that have the stream, as part 0 saw within the hour; other parts have none
	Wanted    int           `json:"wanted,omitempty"`  // servers that should have it: 3 where the servers are a cluster, else 1
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
