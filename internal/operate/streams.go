package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys/inspect"
)

// Streams asks all nodes for the parts of subscriptions that they deliver, for up to 3 s or as long as ctx lasts.
func (o *Operator) Streams(ctx context.Context) (inspect.Streams, error) {
	all := inspect.Streams{Cluster: o.clusterName(), Parts: []inspect.StreamPart{}}
	for k, a := range o.askAll(ctx, o.Members(), adminRequest{op: adminList, id: "streams"}) {
		var parts []inspect.StreamPart
		err := a.err
		if err == nil && len(a.answer.List) > 0 {
			err = json.Unmarshal(a.answer.List, &parts)
		}
		if err != nil {
			all.Silent = append(all.Silent, fmt.Sprintf("%s: %v", k.Node, err))
		}
		all.Parts = append(all.Parts, parts...)
	}
	slices.Sort(all.Silent)
	slices.SortFunc(all.Parts, func(a, b inspect.StreamPart) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Stream, b.Stream), strings.Compare(a.To, b.To), cmp.Compare(a.Part, b.Part))
	})
	if err := ctx.Err(); err != nil {
		return all, fmt.Errorf("streams: %w", context.Cause(ctx))
	}
	return all, nil
}
