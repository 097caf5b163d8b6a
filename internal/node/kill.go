package node

import (
	"context"
	"errors"
)

// Kill ends the node's part in the cluster as the end of its process would: it hands over nothing and tells no other node. Once nothing is
// sent any more, the work on the node is cancelled with cause. Leave still has to be called.
func (c *Cluster) Kill(cause error) {
	joined := c.Mesh.HasJoined()
	c.killed.Store(&cause)
	if joined {
		c.Mesh.Break() // first: work that is cancelled here must send no answer
	}
	c.parts.Stop(cause)
	if joined {
		c.end(cause)
	}
}

// die is Leave for a node that was killed: it sends nothing.
func (c *Cluster) die() error {
	c.Member.Abandon()
	c.Shards.noMoves() // a shard that is being taken would be served by nobody, and never closed
	for n, s := range c.Registry.Led() {
		_ = s.Close()
		c.Registry.StepDown(n, s)
	}
	c.Mesh.Break()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Mesh.Close(over)
	c.Runner.Wait()
	err := c.objects.Close()
	if c.ownKV {
		err = errors.Join(err, c.KV.Close())
	}
	return err
}
