package protoactor_test

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/system/protoactor"
)

// A visits actor counts the visits to a page, and keeps the number.
type visits struct{ n *protoactor.Saved[int] }

func (v *visits) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *cluster.ClusterInit:
		n, err := protoactor.State[int](c)
		if err != nil {
			panic(err)
		}
		v.n = n
	case *wrapperspb.StringValue:
		v.n.Value++
		if err := v.n.Write(); err != nil {
			c.Logger().Error("the visit is not counted", "error", err)
		}
		c.Respond(wrapperspb.String(fmt.Sprintf("visit %d of %s", v.n.Value, cluster.GetClusterIdentity(c).Identity)))
	}
}

var _ = protoactor.Kinds(cluster.NewKind("visits", actor.PropsFromProducer(func() actor.Actor { return &visits{} })))

// A program for proto.Actor has its cluster from raysys: it starts none. With RAYSYS_CONSUL the same program is one of many nodes.
func Example() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		c := protoactor.Cluster(ctx)
		for range 2 {
			answer, err := c.Request("index.html", "visits", wrapperspb.String("hello"))
			if err != nil {
				return err
			}
			fmt.Println(answer.(*wrapperspb.StringValue).Value)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// visit 1 of index.html
	// visit 2 of index.html
}
