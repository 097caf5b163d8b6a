package system

import (
	"context"
	"errors"
)

// Kill ends the node as the end of its process would: it hands over nothing, leaves no cluster, and tells nobody; its
// session ends with its TTL, or when others find that its address refuses them. What runs here is cancelled with cause,
// and Kill waits for it as Close does. It is for the testkit, which also sees to it that nothing goes out any more.
func (n *Node) Kill(ctx context.Context, cause error) error {
	if n.others != nil {
		n.others.killed.Store(true)
	}
	n.stop(cause)
	if n.others != nil && n.others.mesh.HasJoined() {
		n.others.end(cause)
	}
	return n.Close(ctx)
}

// die is leave without a word.
func (c *cluster) die() error {
	c.member.Abandon()
	for n, s := range c.reg.leads() {
		_ = s.Close()
		c.reg.unlead(n, s)
	}
	c.mesh.Break()
	c.runner.Wait()
	err := c.objects.close()
	if c.ownKV {
		err = errors.Join(err, c.kv.Close())
	}
	return err
}
