package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/listed"
)

// Streams asks all nodes for the parts of subscriptions that they deliver, for up to 3 s or as long as ctx lasts.
func (o *Operator) Streams(ctx context.Context) (all inspect.Streams, err error) {
	all = inspect.Streams{Cluster: o.clusterName(), Parts: []inspect.StreamPart{}}
	all.Silent, err = ask(ctx, o, "", "streams", struct{}{}, func(_ core.NodeKey, parts []inspect.StreamPart) { all.Parts = append(all.Parts, parts...) })
	slices.SortFunc(all.Parts, func(a, b inspect.StreamPart) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Stream, b.Stream), strings.Compare(a.To, b.To), cmp.Compare(a.Part, b.Part))
	})
	return all, err
}

// streams are the parts that this node delivers.
func (o own) streams(context.Context, struct{}) (parts json.RawMessage, err error) {
	if f := listed.Of("streams"); f != nil {
		return json.Marshal(f(o.Listed))
	}
	return json.RawMessage("[]"), nil
}
