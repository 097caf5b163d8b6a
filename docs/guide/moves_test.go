package guide_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

var lobbies = grains.Define[lobby]("guide.moves.lobby", grains.Movable())

type lobby struct {
	Topic  grains.State[string] // goes along
	recent []string             // begins anew
}

// OnDeactivate stores what would begin anew.
func (r *lobby) OnDeactivate(ctx context.Context) error {
	if len(r.recent) == 0 {
		return nil
	}
	r.Topic.Value = r.recent[len(r.recent)-1]
	return r.Topic.Write(ctx)
}

var (
	tellLobby = grains.Action(lobbies, "tell", func(r *lobby, _ context.Context, what string) error { r.recent = append(r.recent, what); return nil })
	lobbyNow  = grains.Method0(lobbies, "now", func(r *lobby, ctx context.Context) (lobbySeen, error) {
		return lobbySeen{r.Topic.Value, len(r.recent)}, nil
	})
)

type lobbySeen struct {
	Topic  string
	Recent int
}

var pollers = grains.Define[poller]("guide.moves.poller", grains.Keep(), grains.Movable())

type poller struct{}

func (*poller) Poll(ctx context.Context) (string, error) {
	return string(system.NodeOf(ctx).Name()), nil
}

var _ = grains.Method0(pollers, "poll", (*poller).Poll)

// TestStandingGrainsMove: pollers that were all placed while one node ran are shared with a node that joins it.
func TestStandingGrainsMove(t *testing.T) {
	table := raysys.NewTable() // of pollers alone
	pollers := grains.DefineIn[poller](table, "poller", grains.Keep(), grains.Movable())
	poll := grains.Method0(pollers, "poll", (*poller).Poll)
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		all := func() (at map[string]int) {
			at = map[string]int{}
			for _, key := range []string{"a", "b", "c", "d"} {
				node, err := poll.Call(ctx, pollers.Get(key)).Get(ctx)
				if err != nil {
					t.Fatal(err)
				}
				at[node]++
			}
			return at
		}
		k.Cluster().Kill(2)
		k.Advance(30 * time.Second)
		if got := all(); got["n1"] != 4 {
			t.Fatal(got)
		}
		k.Cluster().Restart(2)
		k.Advance(2 * time.Minute)
		if got := all(); got["n1"] != 2 || got["n2"] != 2 {
			t.Error(got)
		}
	}, testkit.Nodes(2), testkit.Table(table))
}

// TestRoomForgets: what is in no State begins anew with the next activation, and what OnDeactivate has stored is there.
func TestRoomForgets(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	if _, err := tellLobby.Call(ctx, lobbies.Get("lobby"), "hello").Get(ctx); err != nil {
		t.Fatal(err)
	}
	if err := grains.Unload(ctx, lobbies.Get("lobby")); err != nil {
		t.Fatal(err)
	}
	got, err := lobbyNow.Call(ctx, lobbies.Get("lobby")).Get(ctx)
	if err != nil || got != (lobbySeen{"hello", 0}) {
		t.Error(got, err)
	}
}
