package system

import (
	"context"
	"errors"
)

// Kill ends the node as the end of its process would: the node hands over nothing, does not leave its cluster, and
// tells no other node. Its session ends with its TTL, or when other nodes find that its address refuses them. Once
// nothing is sent any more, the work on the node is cancelled with cause, and Kill waits for it as Close does. It is
// for tests.
func (n *Node) Kill(ctx context.Context, cause error) error {
	c := n.cluster
	joined := c != nil && c.mesh.HasJoined()
	if c != nil {
		c.killed.Store(&cause)
	}
	if joined {
		c.mesh.Break() // first: work that is cancelled here must send no answer
	}
	n.stop(cause)
	if joined {
		c.end(cause)
	}
	return n.Close(ctx)
}

// die is leave for a node that was killed: it sends nothing.
func (c *cluster) die() error {
	c.member.Abandon()
	c.noMoves() // a shard that is being taken would be served by nobody, and never closed
	for n, s := range c.reg.Led() {
		_ = s.Close()
		c.reg.StepDown(n, s)
	}
	c.mesh.Break()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.mesh.Close(over)
	c.runner.Wait()
	err := c.objects.Close()
	if c.ownKV {
		err = errors.Join(err, c.kv.Close())
	}
	return err
}
