package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
)

// States that end a command, each with an exit code of its own.
var (
	// ErrUnreachable: neither Consul nor any node answers.
	ErrUnreachable = errors.New("cluster unreachable")
	// ErrTimedOut: it was not over in time; what was begun goes on.
	ErrTimedOut = errors.New("timed out")
	// ErrNotFound: there is no such thing in the cluster.
	ErrNotFound = errors.New("not found")
)

// Where is how to reach a cluster.
type Where struct {
	Consul  string // addresses of agents, host:port or URL, with commas between
	Cluster string
	Cert    string // files; with none of them the connection is plain
	Key     string
	CA      string
	// Insecure allows plain connections to other hosts.
	Insecure bool
}

// Cluster answers an operator.
type Cluster interface {
	// Status asks every node. A node that does not answer is in it with what is known of it.
	Status(ctx context.Context) (Status, error)
	// Memory asks every node, or one, for its object store and up to limit of its objects. A node that does not answer is in it
	// with the reason. ErrNotFound when there is none of that name.
	Memory(ctx context.Context, node raysys.NodeID, limit int) (Memory, error)
	// Drain empties the node. With wait it returns when the node has left, else when it has begun. ErrNotFound when there
	// is none of that name.
	Drain(ctx context.Context, node raysys.NodeID, wait bool) error
	Close() error
}

// Status is a cluster at one moment.
type Status struct {
	Cluster string  `json:"cluster"`
	ID      string  `json:"id"`     // drawn when the cluster was made
	Format  int     `json:"format"` // of the records: a program that knows only older ones cannot join
	Nodes   []Node  `json:"nodes"`
	Shards  []Shard `json:"shards"`
	Grains  []Kind  `json:"grains"`
}

// State is what a node is up to.
type State string

// The states of a node.
const (
	Up        State = "up"
	Suspect   State = "suspect"   // silent; may be evicted
	Suspended State = "suspended" // its lease ran out: it keeps its memory, and takes no new work
	Draining  State = "draining"
	Unknown   State = "unknown" // registered, but it does not answer
)

// Node is one incarnation of a node.
type Node struct {
	Name        raysys.NodeID     `json:"name"`
	Incarnation uint64            `json:"incarnation"`
	Role        string            `json:"role"` // worker, driver or both
	State       State             `json:"state"`
	Address     string            `json:"address"`
	Version     string            `json:"version"`
	PID         int               `json:"pid"` // of its process, on its host
	Up          time.Duration     `json:"up_ns"`
	Total       raysys.Resources  `json:"total"`
	Free        raysys.Resources  `json:"free"`
	Queued      int               `json:"queued"` // its own tasks that wait
	Guests      int               `json:"guests"` // tasks of other nodes, waiting or running
	Grains      int               `json:"grains"`
	Peers       int               `json:"peers"`             // nodes it is connected to
	Relayed     int               `json:"relayed,omitempty"` // of them, through a third node
	Labels      map[string]string `json:"labels,omitempty"`
	Error       string            `json:"error,omitempty"` // why it did not answer
}

// Shard is who leads a shard.
type Shard struct {
	Number int           `json:"number"`
	Leader raysys.NodeID `json:"leader"` // "" has none now
	Epoch  uint64        `json:"epoch"`
}

// Kind is how many grains of a kind are active.
type Kind struct {
	Name   string `json:"name"`
	Active int    `json:"active"`
}

// Sort puts everything into the order in which it is shown.
func (s *Status) Sort() {
	slices.SortFunc(s.Nodes, func(a, b Node) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	slices.SortFunc(s.Shards, func(a, b Shard) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(s.Grains, func(a, b Kind) int { return strings.Compare(a.Name, b.Name) })
}
