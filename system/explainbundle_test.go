package system_test

import (
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
)

var (
	explainMember = grains.DefineIn[explained](table, "explained member")
	explainIn     = grains.Method0(explainMember, "answer", (*explained).Answer)
)

// TestExplainBundles: where tasks and grains in placement groups went is remembered as where others did, with the group, the bundle and
// the node.
func TestExplainBundles(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		b.join("a", system.Worker, twoCPUs)
		b.join("b", system.Worker, twoCPUs)
		driver, ctx := b.join("d", system.Driver)
		<-time.After(time.Second) // of the bubble: the nodes have told their loads
		g, err := groups.Create(ctx, placement.StrictSpread, oneCPUEach(2), groups.Named("training"))
		if err != nil {
			t.Fatal(err)
		}
		at, err := g.Nodes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		placed := func(id, in string, node raysys.NodeID) {
			t.Helper()
			s, err := driver.Explain(ctx, id)
			if err != nil {
				t.Error(err)
				return
			}
			if len(s.Placed) != 1 || s.Placed[0].Node != node || !strings.Contains(s.String(), in) {
				t.Errorf("work that went to node %s in %s is explained by\n%v", node, in, s)
			}
		}
		for i, bundle := range []string{`bundle 0 of group "training"`, `bundle 1 of group "training"`} {
			task := groupWhere.With(g.Bundle(i)).Go(ctx, 0)
			if node, err := task.Get(ctx); node != at[i] || err != nil {
				t.Fatal(node, err)
			}
			placed(task.ID().String(), "in "+bundle+"\n", at[i])
			key := []string{"first", "second"}[i]
			if _, err := explainIn.With(g.Bundle(i)).Call(ctx, explainMember.Get(key)).Get(ctx); err != nil {
				t.Fatal(err)
			}
			placed("explained member/"+key, "in "+bundle+"\n", at[i])

			task = groupWhere.With(g.AnyBundle()).Go(ctx, 0)
			node, err := task.Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if node != at[0] {
				bundle = `bundle 1 of group "training"`
			} else {
				bundle = `bundle 0 of group "training"`
			}
			placed(task.ID().String(), "in "+bundle+", of those that it may be in", node)
		}
	})
}
