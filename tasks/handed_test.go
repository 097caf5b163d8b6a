package tasks_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// places is an inspector that notes where arguments were handed over.
type places struct {
	mu   sync.Mutex // guards list
	list []string
}

func (p *places) HandOver(place string, at any) error {
	if strings.HasPrefix(place, "argument of") {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.list = append(p.list, place[strings.LastIndex(place, "/")+1:])
	}
	return nil
}

func (p *places) Lend(_ string, at any) (func(), error) { return func() {}, nil }
func (p *places) Fail(err error) error                  { return err }

// In strict mode an argument has the place of the program's line that submits it, in every form that takes a value.
func TestPlaceOfAnArgument(t *testing.T) {
	table := raysys.NewTable()
	t0 := tasks.Define0In(table, "t0", func(context.Context) (int, error) { return 0, nil })
	t1 := tasks.DefineIn(table, "t1", func(_ context.Context, a int) (int, error) { return a, nil })
	t2 := tasks.Define2In(table, "t2", func(_ context.Context, a, b int) (int, error) { return a + b, nil })
	t3 := tasks.Define3In(table, "t3", func(_ context.Context, a, b, c int) (int, error) { return a + b + c, nil })
	p := &places{}
	cfg := system.Config{Table: table, Resources: raysys.Resources{CPU: 1}}
	*standins.Inspector(&cfg) = p
	_, ctx := nodetest.Start(t, cfg)
	// The submissions stand one per line, so that each line's number is known.
	first := line()
	t0.Go(ctx)
	t1.Go(ctx, 1)
	t1.Map(ctx, []int{1})
	t2.Go(ctx, 1, 2)
	t3.Go(ctx, 1, 2, 3)
	file, start := first[strings.LastIndex(first, "/")+1:], 0
	file, number, _ := strings.Cut(file, ":")
	fmt.Sscan(number, &start)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, place := range p.list {
		_, p.list[i], _ = strings.Cut(place, file)
	}
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprintf(":%d", start+1+i))
	}
	if diff := cmp.Diff(want, p.list); diff != "" {
		t.Errorf("the lines that arguments were handed over in (-want +got):\n%s", diff)
	}
}
