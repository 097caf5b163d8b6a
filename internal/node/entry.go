package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// ErrNotJoined: the node gave up joining its cluster, because the store could not be reached within Cluster.JoinTimeout.
var ErrNotJoined = errors.New("not joined")

// ErrConfig: a node was not made, or does not join, because its configuration is invalid.
var ErrConfig = errors.New("bad configuration")

// configError matches ErrConfig; its text is that of the error alone.
type configError struct{ error }

// Refused makes an error match ErrConfig.
func Refused(err error) error { return configError{err} }

// Is has the error match ErrConfig.
func (e configError) Is(target error) bool { return target == ErrConfig }
func (e configError) Unwrap() error        { return e.error }

// entry is how a node finds its cluster in the store. Only Join uses it. The first failure to reach the store is logged
// at once, the next ones with growing pauses.
type entry struct {
	cfg   *Config
	log   *zap.Logger
	next  time.Time // from then on a failed attempt is worth a line
	pause backoff.Doubling
}

// limit ends an attempt to join that takes longer than the node's Config allows.
func (e *entry) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.cfg.JoinTimeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, e.cfg.JoinTimeout, fmt.Errorf("%w within %v: start Consul at %s, or raise RAYSYS_JOIN_TIMEOUT", ErrNotJoined, e.cfg.JoinTimeout, e.cfg.Consul))
}

// failed is called after an attempt to reach the store that failed.
func (e *entry) failed(err error) {
	now := time.Now()
	if now.Before(e.next) {
		return
	}
	e.next = now.Add(e.pause.Next())
	e.log.Warn("cannot reach the store; trying again", zap.String("consul", e.cfg.Consul), zap.String("error", shortly(err)))
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

// layout reads the layout of the cluster's store, or makes it.
func (e *entry) layout(ctx context.Context, kv store.KV) (shardlog.Layout, error) {
	pause := backoff.Doubling{First: 100 * time.Millisecond, Longest: 5 * time.Second}
	for {
		conf, err := shardlog.OpenLayout(ctx, kv, e.cfg.Cluster, 0)
		if err == nil || !errors.Is(err, store.ErrUnavailable) {
			return conf, err
		}
		if e.failed(err); !pause.Wait(ctx) {
			return conf, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// sameWire refuses to join a cluster whose nodes speak TLS with a node that does not, and the reverse: no other member could
// connect to it. A record has the fingerprint of its node's key exactly if the node speaks TLS.
func (e *entry) sameWire(ctx context.Context, kv store.KV, print string) error {
	if e.cfg.Parts.Network != nil {
		return nil
	}
	pairs, _, err := kv.List(ctx, shardlog.NodesPrefix, store.Consistent)
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
		return configError{fmt.Errorf("the nodes of cluster %s speak TLS (%s does) and this one has no certificate: set RAYSYS_TLS_CERT, RAYSYS_TLS_KEY and RAYSYS_TLS_CA", e.cfg.Cluster, other)}
	}
	return configError{fmt.Errorf("the nodes of cluster %s do not speak TLS (%s does not) and this one does: leave out RAYSYS_TLS_CERT, RAYSYS_TLS_KEY and RAYSYS_TLS_CA, or give all nodes certificates", e.cfg.Cluster, other)}
}

// Whereabouts says in one line where a driver's work runs; c is nil without a cluster, where this process has so many CPUs.
func Whereabouts(c *Cluster, alone float64) string {
	if c == nil {
		return fmt.Sprintf("raysys: alone in this process, %s", count(alone, "CPU"))
	}
	workers, cpus := c.capacity()
	if workers == 0 {
		return fmt.Sprintf("raysys: joined %s: no worker yet", c.cfg.Cluster)
	}
	return fmt.Sprintf("raysys: joined %s: %s, %s", c.cfg.Cluster, count(float64(workers), "worker"), count(cpus, "CPU"))
}

// capacity returns how many nodes run work, and how many CPUs they offer.
func (c *Cluster) capacity() (workers int, cpus float64) {
	for _, m := range c.Member.View().Nodes() {
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
