package system

import (
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
)

// seekSessions dials the hosts whose sessions this node needs to become a host, until it is one
// (internal/member/host.go), and logs what it lacks.
func (c *cluster) seekSessions() {
	pause := c.times.Dial
	for {
		cand, joining := c.member.Candidacy()
		if !joining && c.isHost() {
			return
		}
		for _, n := range cand.Missing {
			if k := mesh.KeyOf(n); k != c.self() {
				c.mesh.Connect(k, func(*mesh.Peer, error) {})
			}
		}
		if !c.runner.Pause(pause) {
			return
		}
		if why := c.whyNoHost(); why != "" {
			c.log.Warn("no host yet: the node leads no shard and has no grains", zap.String("why", why))
		}
		pause = min(2*pause, 3*c.cfg.TTL)
	}
}

// isHost reports whether this node is a host by its own record.
func (c *cluster) isHost() bool {
	n, ok := c.member.View().Node(c.self().Node)
	return ok && !n.Joining
}

// hosted reports whether this incarnation of the node ever was a host.
func (c *cluster) hosted() bool { return c.member != nil && c.isHost() }

// whyNoHost says what keeps an eligible node from being a host; "" when nothing does.
func (c *cluster) whyNoHost() string {
	cand, joining := c.member.Candidacy()
	if !joining {
		return ""
	}
	var b strings.Builder
	fmt.Fprint(&b, cand)
	for i, n := range cand.Missing {
		if i == maxReasons {
			fmt.Fprintf(&b, "; and %d more", len(cand.Missing)-i)
			break
		}
		why := "no session yet"
		if err := c.mesh.Failed(mesh.KeyOf(n)); err != nil {
			why = err.Error()
		}
		fmt.Fprintf(&b, "; %s: %s", n.ID, why)
	}
	return b.String()
}

// maxReasons bounds the nodes that whyNoHost names.
const maxReasons = 4

// dialBack dials a node that joined later than this one, unless it has dialled by then: it may be unable to. One
// connection between two nodes is enough.
func (c *cluster) dialBack(k core.NodeKey) {
	c.runner.After(c.times.Dial, func() { c.mesh.Connect(k, func(*mesh.Peer, error) {}) })
}

// reaches reports whether this node has a session with the node of that name. A shard is handed only to such a node:
// else calls to the grains of the shard would fail here.
func (c *cluster) reaches(v *member.View, id raysys.NodeID) bool {
	n, ok := v.Node(id)
	return ok && c.mesh.Peer(mesh.KeyOf(n)) != nil
}
