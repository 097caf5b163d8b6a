package system_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// scroll is a grain with a State that may be large.
type scroll struct{ text grains.State[[]byte] }

// TestLargeStateAlone: without a cluster a State above 128 KiB is a file beside the others of Config.Data; where the States end
// with the process it is in memory.
func TestLargeStateAlone(t *testing.T) {
	for name, opts := range map[string][]grains.Option{"written": nil, "durable": {grains.Durable()}} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			scrolls := grains.DefineIn[scroll](table, "scroll", opts...)
			set := grains.Action(scrolls, "set", func(s *scroll, ctx context.Context, b []byte) error {
				s.text.Value = b
				return s.text.Write(ctx)
			})
			get := grains.Method0(scrolls, "get", func(s *scroll, _ context.Context) ([]byte, error) { return s.text.Value, nil }).ReadOnly()
			quit := grains.Action0(scrolls, "quit", func(_ *scroll, ctx context.Context) error { return grains.Deactivate(ctx) }).ReadOnly()
			start := func(data string) (context.Context, func()) {
				n, err := system.New(system.Config{Table: table, Data: data, Namespace: "test", Objects: system.ObjectConfig{Disk: 1 << 30}})
				if err == nil {
					err = n.Start(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				return n.Context(t.Context()), func() {
					t.Helper()
					if err := n.Close(context.Background()); err != nil {
						t.Error(err)
					}
				}
			}
			has := func(ctx context.Context, when string, b []byte) {
				t.Helper()
				if got, err := get.Call(ctx, scrolls.Get("x")).Get(ctx); err != nil || !bytes.Equal(got, b) {
					t.Errorf("%s: the State has %d bytes, %v; want %d", when, len(got), err, len(b))
				}
			}
			write := func(ctx context.Context, b []byte) {
				t.Helper()
				if _, err := set.Call(ctx, scrolls.Get("x"), b).Get(ctx); err != nil {
					t.Fatal(err)
				}
				if _, err := quit.Call(ctx, scrolls.Get("x")).Get(ctx); err != nil {
					t.Fatal(err)
				}
			}
			data := t.TempDir()
			ctx, end := start(data)
			write(ctx, fill(1<<20, 1))
			has(ctx, "activated again", fill(1<<20, 1))
			write(ctx, fill(2<<20, 2))
			end()
			for range 2 {
				ctx, end = start(data)
				has(ctx, "the process began anew", fill(2<<20, 2))
				end()
			}
			if files := onDiskIn(t, data); len(files) != 1 {
				t.Errorf("%d files for one State", len(files))
			}
			ctx, end = start(data)
			write(ctx, fill(100, 3))
			end()
			ctx, end = start(data)
			has(ctx, "written small", fill(100, 3))
			end()
			if files := onDiskIn(t, data); len(files) != 0 {
				t.Errorf("files of a State that is small now: %q", files)
			}
			ctx, end = start("")
			write(ctx, fill(1<<20, 4))
			has(ctx, "in memory", fill(1<<20, 4))
			end()
		})
	}
}
