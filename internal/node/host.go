package node

import (
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/mesh"
)

// seekSessions dials the hosts whose sessions this node needs to become a host, until it is one
// (internal/member/member.go), and logs what it lacks.
func (c *Cluster) seekSessions() {
	pause := backoff.Doubling{First: c.times.Dial, Longest: 3 * c.cfg.TTL}
	for {
		cand, joining := c.Member.Candidacy()
		if !joining && c.isHost() {
			return
		}
		for _, n := range cand.Missing {
			if k := mesh.KeyOf(n); k != c.Self() {
				c.Mesh.Connect(k, func(*mesh.Peer, error) {})
			}
		}
		if !pause.Wait(c.ctx) {
			return
		}
		if why := c.WhyNoHost(); why != "" {
			c.Log.Warn("no host yet: the node leads no shard and has no grains", zap.String("why", why))
		}
	}
}

// isHost reports whether this node is a host by its own record.
func (c *Cluster) isHost() bool {
	n, ok := c.Member.View().Node(c.Self().Node)
	return ok && !n.Joining
}

// Hosted reports whether this incarnation of the node ever was a host.
func (c *Cluster) Hosted() bool { return c.Member != nil && c.isHost() }

// WhyNoHost says what keeps an eligible node from being a host; "" when nothing does.
func (c *Cluster) WhyNoHost() string {
	cand, joining := c.Member.Candidacy()
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
		if err := c.Mesh.Failed(mesh.KeyOf(n)); err != nil {
			why = err.Error()
		}
		fmt.Fprintf(&b, "; %s: %s", n.ID, why)
	}
	return b.String()
}

// maxReasons bounds the nodes that WhyNoHost names.
const maxReasons = 4
