package system_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
)

// unhurried is a grain whose end takes a second in which no other of them ends.
type unhurried struct{}

// oneEnds has room for one of them.
var oneEnds chan struct{}

func (*unhurried) Touch(context.Context) error { return nil }

func (*unhurried) OnDeactivate(context.Context) error {
	oneEnds <- struct{}{}
	<-time.After(time.Second)
	<-oneEnds
	return nil
}

// touchAll activates n grains of a kind.
func touchAll[G any](kind grains.Kind[G], touch grains.Act0[G], n int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for i := range n {
			if _, err := touch.Call(ctx, kind.Get(fmt.Sprint(i))).Get(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestEndWhileGrainsGo: a program's end takes as long as its grains need, while one after another goes; when none goes for ten
// seconds, its end says how many are left.
func TestEndWhileGrainsGo(t *testing.T) {
	tb := raysys.NewTable()
	kind := grains.DefineIn[unhurried](tb, "unhurried")
	touch := grains.Action0(kind, "touch", (*unhurried).Touch)
	synctest.Test(t, func(t *testing.T) {
		oneEnds = make(chan struct{}, 1)
		if err := system.Run(t.Context(), system.Config{Table: tb}, touchAll(kind, touch, 60)); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		oneEnds = make(chan struct{}, 1)
		err := system.Run(t.Context(), system.Config{Table: tb}, func(ctx context.Context) error {
			oneEnds <- struct{}{} // nobody takes it out
			return touchAll(kind, touch, 3)(ctx)
		})
		if err == nil || !strings.Contains(err.Error(), "3 grains are still in a turn: grain unhurried/") || !strings.Contains(err.Error(), "it did not end within 10s") {
			t.Errorf("three grains that do not end: %v", err)
		}
		<-oneEnds
		<-time.After(time.Minute) // then they end
	})
}

// bare hears nothing of its end, heedful does.
type (
	bare    struct{}
	heedful struct{}
)

func (*bare) Touch(context.Context) error           { return nil }
func (*heedful) Touch(context.Context) error        { return nil }
func (*heedful) OnDeactivate(context.Context) error { return nil }

// TestEndOfManyGrains: a program with as many idle grains as it likes ends without an error.
func TestEndOfManyGrains(t *testing.T) {
	n := long.Form(2_000, 500_000)
	tb := raysys.NewTable()
	bares, heedfuls := grains.DefineIn[bare](tb, "bare"), grains.DefineIn[heedful](tb, "heedful")
	touchBare, touchHeedful := grains.Action0(bares, "touch", (*bare).Touch), grains.Action0(heedfuls, "touch", (*heedful).Touch)
	for name, f := range map[string]func(context.Context) error{"bare": touchAll(bares, touchBare, n), "heedful": touchAll(heedfuls, touchHeedful, n)} {
		t.Run(name, func(t *testing.T) {
			if err := system.Run(t.Context(), system.Config{Table: tb}, f); err != nil {
				t.Error(err)
			}
		})
	}
}
