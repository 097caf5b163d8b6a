package member

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
)

// VoteText is who was voted out, and why.
func VoteText(value []byte) string {
	v := decodeVote(value)
	return fmt.Sprintf("%s: %s", v.Node, v.Why)
}

// Evict votes a node out without a vote.
func Evict(ctx context.Context, m *Member, victim Node) (bool, error) {
	_, written, err := m.evict(ctx, victim, vote{Why: "by a test"})
	return written, err
}

// ErrHalf is what Evict answers when it would be too many.
var ErrHalf = errHalf

// Leavers is who leaves because of broken pairs.
func Leavers(members int, broken [][2]uint64) []uint64 {
	var pairs []pair
	for _, p := range broken {
		pairs = append(pairs, pairOf(p[0], p[1]))
	}
	ids := map[uint64]bool{}
	for _, p := range pairs {
		ids[p.a], ids[p.b] = true, true
	}
	for id := uint64(1000); len(ids) < members; id++ {
		ids[id] = true
	}
	var nodes []Node
	for id := range ids {
		nodes = append(nodes, Node{Incarnation: id})
	}
	return leavers(nodes, pairs)
}

// Winner, Ring and Successors are what views are made with.
func Winner(ids []raysys.NodeID, shard int) raysys.NodeID { return winner(ids, shard) }

// Rank has the winner first, then the one that would win without it, and so on.
func Rank(ids []raysys.NodeID, shard int) []raysys.NodeID {
	return slices.SortedFunc(slices.Values(ids), func(a, b raysys.NodeID) int {
		return cmp.Or(cmp.Compare(weight(b, shard), weight(a, shard)), cmp.Compare(a, b))
	})
}

func Successors(ids []raysys.NodeID, id raysys.NodeID) []raysys.NodeID {
	return successors(ring(ids), id)
}

func Predecessors(ids []raysys.NodeID, id raysys.NodeID) []raysys.NodeID {
	return predecessors(ring(ids), id)
}

func Quorum(monitors int) int { return quorum(monitors) }

// Encode and Decode are the form of nodes/<node>.
func Encode(i Info, unheard []uint64) ([]byte, error) {
	return record{Info: i, Unheard: unheard}.encode()
}

func Decode(p store.Pair) (Node, []uint64, error) {
	n, err := decodeNode(p)
	return n, n.unheard, err
}

// Leaders returns who leads, by shard; a shard without a leader is not among them. It is the view's own: do not change it.
func (v *View) Leaders() []Leader { return v.leaders }

// Mine returns the shards that this member should lead.
func (v *View) Mine() []int {
	var mine []int
	for shard, id := range v.preferred {
		if id != "" && id == v.self {
			mine = append(mine, shard)
		}
	}
	return mine
}

// WriteVote writes a verdict by hand.
func WriteVote(ctx context.Context, m *Member, victim Node, promised bool) error {
	_, _, err := m.evict(ctx, victim, vote{Why: "by a test", Promised: promised})
	return err
}

// DecodeGuard is what a guard names.
func DecodeGuard(value []byte) ([]uint64, error) {
	v, err := decodeGuard(store.Pair{Key: "guards/1", Value: value, Create: 1})
	return v.Electors, err
}

// PromiseOf reads a record, and how long pongs of its node hold.
func PromiseOf(value []byte) (Node, time.Duration, error) {
	n, err := decodeNode(store.Pair{Key: "nodes/a", Value: value, Create: 1})
	return n, n.promise, err
}
