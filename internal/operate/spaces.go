package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys/internal/mesh"
)

// spacesPatience bounds the wait for nodes that do not say which program they run: a connection to a healthy one is there within milliseconds, and what
// is asked afterwards has time left.
const spacesPatience = time.Second

// spaces are the namespaces of the programs of the cluster, this node's first, and silent the nodes that cannot be reached, with why. Each member is
// reached as for a question: a connection says which namespace its peer has.
func (o *Operator) spaces(ctx context.Context) (spaces, silent []string) {
	spaces = []string{o.Namespace}
	c := o.Node.Cluster()
	if c == nil {
		return spaces, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, spacesPatience, fmt.Errorf("no answer within %v", spacesPatience))
	defer cancel()
	type answer struct {
		peer *mesh.Peer
		err  error
	}
	asked := map[string]chan answer{}
	for _, m := range o.Members() {
		k, one := mesh.KeyOf(m), make(chan answer, 1)
		if k == o.Self() {
			continue
		}
		asked[string(k.Node)] = one
		c.Mesh.Connect(k, func(p *mesh.Peer, err error) { one <- answer{p, err} })
	}
	for node, one := range asked {
		var a answer
		select {
		case a = <-one:
		case <-ctx.Done():
			select {
			case a = <-one:
			default:
				a.err = context.Cause(ctx)
			}
		}
		if a.err != nil {
			silent = append(silent, fmt.Sprintf("%s: %v", node, a.err))
		} else if !slices.Contains(spaces, a.peer.Namespace()) {
			spaces = append(spaces, a.peer.Namespace())
		}
	}
	slices.Sort(silent)
	return spaces, silent
}
