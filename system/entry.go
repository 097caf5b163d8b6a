package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// ErrNotJoined: the node gave up joining its cluster, because the store could not be reached within Cluster.JoinTimeout.
var ErrNotJoined = errors.New("not joined")

// joinLimit ends an attempt to join that takes longer than the node's Config allows.
func (c *cluster) joinLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.cfg.JoinTimeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.cfg.JoinTimeout, fmt.Errorf("%w within %v: start Consul at %s, or raise RAYSYS_JOIN_TIMEOUT", ErrNotJoined, c.cfg.JoinTimeout, c.cfg.Consul))
}

// The first failure to reach the store is logged at once, the next ones with growing pauses.
const (
	attemptPause    = 5 * time.Second
	maxAttemptPause = time.Minute
)

// attempts says when the next failed attempt is worth a line. Only join uses it.
type attempts struct {
	next  time.Time
	pause time.Duration
}

func (c *cluster) attempted(err error) {
	now := time.Now()
	if now.Before(c.attempts.next) {
		return
	}
	c.attempts.pause = min(max(2*c.attempts.pause, attemptPause), maxAttemptPause)
	c.attempts.next = now.Add(c.attempts.pause)
	c.log.Warn("cannot reach the store; trying again", zap.String("consul", c.cfg.Consul), zap.String("error", shortly(err)))
}

// shortly shortens an error for a log line: to the operating system's error about a connection, without the attempts around it;
// of another error to the first line.
func shortly(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Error()
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// sameWire refuses to join a cluster whose nodes speak TLS with a node that does not, and the reverse: no other member could
// connect to it. A record has the fingerprint of its node's key exactly if the node speaks TLS.
func (c *cluster) sameWire(ctx context.Context, print string) error {
	if c.cfg.parts.Network != nil {
		return nil
	}
	pairs, _, err := c.kv.List(ctx, shardlog.NodesPrefix, store.Consistent)
	if err != nil {
		return err
	}
	other := ""
	for _, p := range pairs {
		var info member.Info
		if p.Session == "" || json.Unmarshal(p.Value, &info) != nil || info.Observer {
			continue
		}
		if (info.KeyPrint != "") == (print != "") {
			return nil
		}
		other = strings.TrimPrefix(p.Key, shardlog.NodesPrefix)
	}
	switch {
	case other == "":
		return nil
	case print == "":
		return configError{fmt.Errorf("the nodes of cluster %s speak TLS (%s does) and this one has no certificate: set RAYSYS_TLS_CERT, RAYSYS_TLS_KEY and RAYSYS_TLS_CA", c.cfg.Name, other)}
	}
	return configError{fmt.Errorf("the nodes of cluster %s do not speak TLS (%s does not) and this one does: leave out RAYSYS_TLS_CERT, RAYSYS_TLS_KEY and RAYSYS_TLS_CA, or give all nodes certificates", c.cfg.Name, other)}
}

// whereabouts says in one line where a driver's work runs.
func (n *Node) whereabouts() string {
	if n.cluster == nil {
		return fmt.Sprintf("raysys: alone in this process, %s", count(n.Resources().CPU, "CPU"))
	}
	workers, cpus := n.cluster.capacity()
	if workers == 0 {
		return fmt.Sprintf("raysys: joined %s: no worker yet", n.cluster.cfg.Name)
	}
	return fmt.Sprintf("raysys: joined %s: %s, %s", n.cluster.cfg.Name, count(float64(workers), "worker"), count(cpus, "CPU"))
}

// capacity returns how many nodes run work, and how many CPUs they offer.
func (c *cluster) capacity() (workers int, cpus float64) {
	for _, m := range c.member.View().Nodes() {
		if m.Eligible() {
			workers++
			cpus += m.Info.Resources.CPU
		}
	}
	return workers, cpus
}

func count(n float64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%g %s", n, what)
}
