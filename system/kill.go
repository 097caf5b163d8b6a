package system

import (
	"context"
	"errors"
)

// Kill ends the node as the end of its process would: it hands over nothing, leaves no cluster, and tells nobody; its
// session ends with its TTL, or when others find that its address refuses them. What runs here is cancelled with cause,
// once nothing goes out any more, and Kill waits for it as Close does. It is for tests.
func (n *Node) Kill(ctx context.Context, cause error) error {
	c := n.cluster
	joined := c != nil && c.mesh.HasJoined()
	if c != nil {
		c.killed.Store(&cause)
	}
	if joined {
		c.mesh.Break() // first: what is cancelled here must answer nobody
	}
	n.stop(cause)
	if joined {
		c.end(cause)
	}
	return n.Close(ctx)
}

// die is leave without a word.
func (c *cluster) die() error {
	c.member.Abandon()
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
