package member_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/member"
)

func someNodes(n int) []raysys.NodeID {
	var ids []raysys.NodeID
	for i := range n {
		ids = append(ids, raysys.NodeID(fmt.Sprintf("node-%d", i)))
	}
	return ids
}

// TestRendezvousIsFixed: nodes of all versions must agree on who leads; another hash is another version.
func TestRendezvousIsFixed(t *testing.T) {
	var got []raysys.NodeID
	for shard := range 12 {
		got = append(got, member.Winner([]raysys.NodeID{"alpha", "beta", "gamma", "delta"}, shard))
	}
	want := []raysys.NodeID{"delta", "gamma", "gamma", "delta", "beta", "alpha", "gamma", "gamma", "alpha", "alpha", "beta", "delta"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("winners (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]raysys.NodeID{"beta", "delta", "alpha"}, member.Successors([]raysys.NodeID{"alpha", "beta", "gamma", "delta", "epsilon"}, "gamma")); diff != "" {
		t.Errorf("monitors (-want +got):\n%s", diff)
	}
}

// TestRendezvousMovesLittle: a join moves only what the new node wins, a leave only what it had; whatever the order of names.
func TestRendezvousMovesLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := someNodes(rapid.IntRange(1, 12).Draw(t, "nodes"))
		shard := rapid.IntRange(0, 4095).Draw(t, "shard")
		before := member.Winner(ids, shard)
		more := append(slices.Clone(ids), "joined")
		after := member.Winner(more, shard)
		if after != before && after != "joined" {
			t.Fatalf("shard %d moved from %s to %s when another node joined", shard, before, after)
		}
		rank := member.Rank(more, shard)
		if rank[0] != after || len(rank) != len(more) {
			t.Fatalf("the winner is %s, the rank %v", after, rank)
		}
		if without := slices.DeleteFunc(slices.Clone(more), func(id raysys.NodeID) bool { return id == after }); len(without) > 0 && member.Winner(without, shard) != rank[1] {
			t.Fatalf("without %s it is %s, the rank is %v", after, member.Winner(without, shard), rank)
		}
		slices.Reverse(more)
		if member.Winner(more, shard) != after {
			t.Fatal("the order of names counts")
		}
	})
}

func TestRendezvousIsFair(t *testing.T) {
	const shards = 30_000
	won := map[raysys.NodeID]int{}
	for shard := range shards {
		won[member.Winner(someNodes(5), shard)]++
	}
	for id, n := range won {
		if n < shards/5*95/100 || n > shards/5*105/100 {
			t.Errorf("%s wins %d of %d", id, n, shards)
		}
	}
}

// TestMonitors: up to three others watch each node, nobody itself, and who watches and who is watched agree.
func TestMonitors(t *testing.T) {
	for n := 1; n <= 9; n++ {
		ids := someNodes(n)
		watched := 0
		for _, id := range ids {
			monitors := member.Successors(ids, id)
			if want := min(3, n-1); len(monitors) != want || slices.Contains(monitors, id) || len(slices.Compact(slices.Sorted(slices.Values(monitors)))) != want {
				t.Errorf("of %d, %s has monitors %v", n, id, monitors)
			}
			for _, m := range monitors {
				if !slices.Contains(member.Predecessors(ids, m), id) {
					t.Errorf("of %d, %s watches %s and does not know", n, m, id)
				}
			}
			watched += len(member.Predecessors(ids, id))
		}
		if want := n * min(3, n-1); watched != want {
			t.Errorf("%d watch %d, want %d", n, watched, want)
		}
	}
	if got := member.Successors(someNodes(3), "stranger"); got != nil {
		t.Errorf("a stranger has monitors %v", got)
	}
	for monitors, want := range []int{0, 1, 2, 2} { // a majority of three, all of fewer
		if got := member.Quorum(monitors); got != want {
			t.Errorf("of %d monitors %d must agree, want %d", monitors, got, want)
		}
	}
}
