package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
)

// States that end a command, each with an exit code of its own.
var (
	// ErrUnreachable: neither Consul nor any node answers.
	ErrUnreachable = errors.New("cluster unreachable")
	// ErrTimedOut: it was not over in time; what was begun goes on.
	ErrTimedOut = errors.New("timed out")
	// ErrNotFound: there is no such thing in the cluster.
	ErrNotFound = raysys.ErrNotFound
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
	URL      string // of the page of a node, which is asked in place of a node of this command's own; "" for none
	Token    string // the file with the page's token; "" for none
}

// Reader says what a cluster has.
type Reader interface {
	// Status asks every node. A node that does not answer is listed with the fields that are known.
	Status(ctx context.Context) (Status, error)
	// Memory asks every node, or one, for its object store and up to limit of its objects. A node that does not answer is in it
	// with the reason. ErrNotFound when there is none of that name.
	Memory(ctx context.Context, node raysys.NodeID, limit int) (Memory, error)
	// Get says all that the nodes know of an id, a grain or a name. ErrNotFound when that is nothing.
	Get(ctx context.Context, text string) (inspect.Found, error)
	// Groups asks the leaders of shards for the placement groups of the cluster, the limit oldest. Leaders that do not answer are in it.
	Groups(ctx context.Context, limit int) (inspect.Groups, error)
	// Tasks asks all nodes, or one, for tasks, Grains for grains in memory, and Waits for what waits for other work, the limit longest.
	// Nodes that do not answer are in the answers. The errors say what there is where something unknown is asked for.
	Tasks(ctx context.Context, q inspect.TaskQuery) (inspect.Tasks, error)
	Grains(ctx context.Context, q inspect.GrainQuery) (inspect.Grains, error)
	Waits(ctx context.Context, limit int) (inspect.Waits, error)
	// Functions asks all nodes what they have counted of their functions, Failures what failed there.
	Functions(ctx context.Context, limit int) (inspect.Functions, error)
	Failures(ctx context.Context, limit int) (inspect.Failures, error)
	// Streams asks all nodes how far the subscriptions are that they deliver. Nodes that do not answer are in it.
	Streams(ctx context.Context) (inspect.Streams, error)
	// Schedules asks the leaders of shards for the schedules whose names begin with a prefix, the limit soonest. Shards without an answer are in it.
	Schedules(ctx context.Context, prefix string, limit int) (inspect.Schedules, error)
	// StoredGrains asks the leaders of shards for a page of what is stored of grains.
	StoredGrains(ctx context.Context, q inspect.StoredQuery) (inspect.StoredGrains, error)
	// Logs asks all nodes, or one, for the last lines that their programs wrote. Nodes that have none to give are in it. ErrNotFound when there
	// is none of that name.
	// With follow it goes on until ctx ends, and calls follow with these lines and those that come.
	Logs(ctx context.Context, q inspect.LogQuery, follow func(inspect.LogLine)) (inspect.Logs, error)
	// Timeline has all nodes record what runs for some time, and writes that to w as a trace in JSON.
	Timeline(ctx context.Context, q inspect.TimelineQuery, w io.Writer) (inspect.Timeline, error)
	Close() error
}

// Cluster also does what an operator asks for.
type Cluster interface {
	Reader
	// Cancel ends what has the id or the name. ErrNotFound when there is no such thing that has not ended.
	Cancel(ctx context.Context, text string) (inspect.Thing, error)
	// DropMessages removes the messages of a grain to a receiver. ErrNotFound when there are none.
	DropMessages(ctx context.Context, grain, receiver string) (int, error)
	// Schedule pauses, resumes, runs or deletes the schedule with the name, by that verb. ErrNotFound when there is none.
	Schedule(ctx context.Context, verb, name string) error
	// Start has a worker submit a task by a name. ErrNotFound when none has its function, ErrBadOption when its
	// argument does not fit.
	Start(ctx context.Context, q inspect.StartQuery) (inspect.Started, error)
	// Stack asks a node for the stacks of its goroutines. ErrNotFound when there is none of that name.
	Stack(ctx context.Context, node raysys.NodeID) (inspect.Stacks, error)
	// HeapProfile asks a node for what is on its process's heap, as pprof. ErrNotFound when there is none of that name.
	HeapProfile(ctx context.Context, node raysys.NodeID) ([]byte, error)
	// Drain empties the node, and calls begun once that has begun. With wait it returns when the node has left, else at once. ErrNotFound when there
	// is none of that name. When ctx ends first the error says what keeps the node.
	Drain(ctx context.Context, node raysys.NodeID, wait bool, begun func()) (Drain, error)
	// Restart drains a worker whose program is started again then; named tasks hold it only with keepJobs. It
	// returns when that has begun,
	// and Left when this incarnation has left, or with what keeps it.
	Restart(ctx context.Context, node raysys.NodeID, keepJobs bool) (incarnation uint64, err error)
	Left(ctx context.Context, node raysys.NodeID, incarnation uint64) (Drain, error)
	// CancelDrain takes a drain back, and returns when the node is active again.
	CancelDrain(ctx context.Context, node raysys.NodeID) error
}

// Status is a cluster at one moment: what system.Node.Status returns, and -o json writes it as encoding/json does.
type Status = inspect.Status

// Node is one incarnation of a node.
type Node = inspect.NodeStatus

// Shard is a shard and its leader.
type Shard = inspect.ShardStatus

// Sort puts everything into the order in which it is shown.
func Sort(s *Status) {
	slices.SortFunc(s.Nodes, func(a, b Node) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	slices.SortFunc(s.Shards, func(a, b Shard) int { return cmp.Compare(a.Shard, b.Shard) })
}

// Silent returns ErrUnreachable when there are nodes and none of them answered.
func Silent(s Status) error {
	if len(s.Nodes) == 0 {
		return nil
	}
	for _, n := range s.Nodes {
		if n.Error == "" {
			return nil
		}
	}
	return fmt.Errorf("%w: none of %d nodes answers, %s says: %s", ErrUnreachable, len(s.Nodes), s.Nodes[0].Name, s.Nodes[0].Error)
}
