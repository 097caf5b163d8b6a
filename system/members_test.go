package system_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestMembers: Members lists the nodes, its channel tells that one has died, and the next incarnation is another Member.
func TestMembers(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	c := k.Cluster()
	n := c.Node(1)
	// await waits until the members are such.
	await := func(good func(map[string]system.Member) bool) map[string]system.Member {
		t.Helper()
		for {
			list, changed := n.Members()
			all := map[string]system.Member{}
			for _, m := range list {
				all[string(m.Name)] = m
			}
			if good(all) {
				return all
			}
			select {
			case <-changed:
			case <-t.Context().Done():
				t.Fatal("the members stay", list)
			}
		}
	}
	name := string(c.Name(2))
	all := await(func(all map[string]system.Member) bool { return len(all) == 3 && all[name].State == inspect.NodeActive })
	was := all[name]
	if was.Role != system.Worker || was.Address == "" || was.Resources.CPU == 0 || was.Actors != fmt.Sprintf("%s#%d:0", name, was.Incarnation) {
		t.Fatalf("%+v", was)
	}
	if got := c.Node(2).Actors().Address(); got != was.Actors {
		t.Fatal(got, was.Actors)
	}
	c.Kill(2)
	await(func(all map[string]system.Member) bool { return all[name].Incarnation == 0 })
	c.Restart(2)
	await(func(all map[string]system.Member) bool { return all[name].Incarnation > was.Incarnation })
}

// TestMembersAlone: without a cluster the node is the only member, and operators' questions have answers.
func TestMembersAlone(t *testing.T) {
	n, err := system.New(system.Config{Name: "alone"})
	if err != nil {
		t.Fatal(err)
	}
	if list, _ := n.Members(); list != nil {
		t.Fatal("before Start:", list)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	list, changed := n.Members()
	if len(list) != 1 || list[0].Name != "alone" || list[0].Role != system.Both || list[0].Actors != n.Actors().Address() || changed != nil {
		t.Fatalf("%+v", list)
	}
	st, err := n.Status(t.Context())
	if err != nil || len(st.Nodes) != 1 || len(st.Shards) != 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	if s := st.Nodes[0]; s.Name != "alone" || s.State != inspect.NodeActive || s.Error != "" || s.Free.CPU != s.Resources.CPU || s.Up <= 0 || s.PID == 0 {
		t.Fatalf("%+v", s)
	}
	g, err := n.Groups(t.Context(), "", 10)
	if err != nil || g.Count != 0 || slices.Contains(g.Silent, "alone") {
		t.Fatalf("%+v, %v", g, err)
	}
}
