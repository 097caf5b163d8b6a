package system_test

import (
	"context"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// album is a durable grain with nothing but a Map.
type album struct{ pages grains.Map[int, string] }

// TestMapAlone: without a cluster the entries of a Map are in Config.Data, and the next process has them; get counts them.
func TestMapAlone(t *testing.T) {
	table := raysys.NewTable()
	albums := grains.DefineIn[album](table, "album", grains.Durable())
	set := grains.Method(albums, "set", func(a *album, _ context.Context, n int) (int, error) {
		for i := range 100 {
			a.pages.Set(100*n+i, strings.Repeat("p", 1000))
		}
		a.pages.Delete(100 * n)
		return a.pages.Len(), nil
	})
	data := t.TempDir()
	for process := range 3 {
		n, err := system.New(system.Config{Table: table, Data: data, Namespace: "test"})
		if err == nil {
			err = n.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx := n.Context(t.Context())
		for i := range 4 { // in all more than a page of what is restored
			if got, err := set.Call(ctx, albums.Get("x"), 4*process+i).Get(ctx); err != nil || got != 99*(4*process+i+1) {
				t.Errorf("process %d: %d entries, %v", process, got, err)
			}
		}
		states := one(t, n, "album/x").States
		if want := 99 * 4 * (process + 1); len(states) != 1 || states[0].Name != "pages" || states[0].Entries != want || states[0].Bytes < 1000*want || states[0].Why != "" {
			t.Errorf("get shows %+v, want %d entries", states, want)
		}
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
