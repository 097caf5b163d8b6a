package grains_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

type cell struct{ n int }

func nothing(*cell, context.Context) error { return nil }

// definition is a bad one, and what system.New must say of it.
type definition struct {
	define func(tb *raysys.Table, k grains.Kind[cell])
	says   string
}

var badDefinitions = map[string]definition{
	"empty kind": {func(tb *raysys.Table, _ grains.Kind[cell]) { grains.DefineIn[cell](tb, "") }, "name is empty"},
	"kind twice": {func(tb *raysys.Table, _ grains.Kind[cell]) { grains.DefineIn[cell](tb, "good") }, `taken by the definition at .*define_test.go:\d+`},
	"nil method": {func(_ *raysys.Table, k grains.Kind[cell]) {
		grains.Method[cell, int, int](k, "m1", nil)
	}, `good.m1 .*function is nil`},
	"nil method0": {func(_ *raysys.Table, k grains.Kind[cell]) { grains.Method0[cell, int](k, "m2", nil) }, `good.m2 .*function is nil`},
	"nil action":  {func(_ *raysys.Table, k grains.Kind[cell]) { grains.Action[cell, int](k, "m3", nil) }, `good.m3 .*function is nil`},
	"nil action0": {func(_ *raysys.Table, k grains.Kind[cell]) { grains.Action0[cell](k, "m4", nil) }, `good.m4 .*function is nil`},
	"nil later method": {func(_ *raysys.Table, k grains.Kind[cell]) {
		grains.LaterMethod[cell, int, int](k, "m5", nil)
	}, `good.m5 .*function is nil`},
	"later method of a durable kind": {func(tb *raysys.Table, _ grains.Kind[cell]) {
		type stored struct{ N grains.State[int] }
		k := grains.DefineIn[stored](tb, "stored", grains.Durable())
		grains.LaterMethod(k, "m6", func(*stored, context.Context, int, *grains.Later[int]) error { return nil })
	}, `stored.m6 .*LaterMethod and option Durable`},
	"later method of a worker": {func(tb *raysys.Table, _ grains.Kind[cell]) {
		k := grains.DefineIn[cell](tb, "worker", grains.StatelessWorker(1))
		grains.LaterMethod(k, "m7", func(*cell, context.Context, int, *grains.Later[int]) error { return nil })
	}, `worker.m7 .*LaterMethod and option StatelessWorker`},
	"empty method": {func(_ *raysys.Table, k grains.Kind[cell]) {
		grains.Action0(k, "", nothing)
	}, "method name is empty"},
	"method twice": {func(_ *raysys.Table, k grains.Kind[cell]) {
		grains.Action0(k, "twice", nothing)
		grains.Action0(k, "twice", nothing)
	}, `good.twice .*taken by the definition at .*define_test.go:\d+`},
	"argument": {func(_ *raysys.Table, k grains.Kind[cell]) {
		type deep struct{ C chan int }
		type arg struct{ In []deep }
		grains.Action(k, "arg", func(*cell, context.Context, arg) error { return nil })
	}, `argument: .*In\S*C`},
	"result": {func(_ *raysys.Table, k grains.Kind[cell]) {
		type res struct{ F func() }
		grains.Method0(k, "res", func(*cell, context.Context) (res, error) { return res{}, nil })
	}, `result: .*F`},
	"workers": {func(tb *raysys.Table, _ grains.Kind[cell]) {
		grains.DefineIn[cell](tb, "w", grains.StatelessWorker(-1))
	}, `StatelessWorker\(-1\)`},
	"idle":    {func(tb *raysys.Table, _ grains.Kind[cell]) { grains.DefineIn[cell](tb, "i", grains.IdleAfter(0)) }, `IdleAfter\(0s\)`},
	"mailbox": {func(tb *raysys.Table, _ grains.Kind[cell]) { grains.DefineIn[cell](tb, "x", grains.Mailbox(0)) }, `Mailbox\(0\)`},
	"nil option": {func(tb *raysys.Table, _ grains.Kind[cell]) {
		grains.DefineIn[cell](tb, "n", nil, grains.IdleAfter(-time.Second))
	}, `nil Option[\s\S]*IdleAfter\(-1s\)`},
}

func TestBadDefinition(t *testing.T) {
	place := regexp.MustCompile(`define_test.go:\d+`)
	for name, d := range badDefinitions {
		t.Run(name, func(t *testing.T) {
			tb := raysys.NewTable()
			k := grains.DefineIn[cell](tb, "good")
			d.define(tb, k)
			_, err := system.New(system.Config{Table: tb})
			if !errors.Is(err, raysys.ErrBadDefinition) {
				t.Fatalf("New says %v", err)
			}
			if !regexp.MustCompile(d.says).MatchString(err.Error()) {
				t.Errorf("%q does not match %q", err, d.says)
			}
			if !place.MatchString(err.Error()) {
				t.Errorf("%q does not say where", err)
			}
		})
	}
}

func TestBadDefinitionsAreReportedTogether(t *testing.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[cell](tb, "good")
	for _, d := range badDefinitions {
		d.define(tb, k)
	}
	_, err := system.New(system.Config{Table: tb, QueueTasks: -1})
	if err == nil {
		t.Fatal("New accepts them")
	}
	for name, d := range badDefinitions {
		if !regexp.MustCompile(d.says).MatchString(err.Error()) {
			t.Errorf("%s is not reported", name)
		}
	}
	if !strings.Contains(err.Error(), "QueueTasks") {
		t.Error("the bad Config is not reported beside them")
	}
}

// TestDefinitionSite: the line that is named is the one of the bad definition, for every verb.
func TestDefinitionSite(t *testing.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[cell](tb, "k")
	grains.Method(k, "a", func(*cell, context.Context, int) (int, error) { return 0, nil })
	grains.Method0(k, "b", func(*cell, context.Context) (int, error) { return 0, nil })
	grains.Action(k, "c", func(*cell, context.Context, int) error { return nil })
	grains.Action0(k, "d", nothing)
	grains.LaterMethod(k, "e", func(*cell, context.Context, int, *grains.Later[int]) error { return nil })
	var last string
	for _, e := range tb.Entries() {
		if !regexp.MustCompile(`grains/define_test.go:\d+$`).MatchString(e.Site) {
			t.Errorf("%s is said to be at %s", e, e.Site)
		}
		if e.Site == last {
			t.Errorf("%s has the line of the one before", e)
		}
		last = e.Site
	}
}

func TestZeroKind(t *testing.T) {
	var k grains.Kind[cell]
	if k.Name() != "" || k.Get("a").ID().Kind != "" {
		t.Error(k.Name(), k.Get("a"))
	}
	if _, ok := k.Self(context.Background()); ok {
		t.Error("nobody is of no kind")
	}
}

// TestLateDefinition: the table is frozen by the first New, and the next one says so.
func TestLateDefinition(t *testing.T) {
	tb := raysys.NewTable()
	grains.DefineIn[cell](tb, "early")
	if _, err := system.New(system.Config{Table: tb}); err != nil {
		t.Fatal(err)
	}
	grains.DefineIn[cell](tb, "late")
	if _, err := system.New(system.Config{Table: tb}); !errors.Is(err, raysys.ErrBadDefinition) || !strings.Contains(err.Error(), "after system.New") {
		t.Error(err)
	}
}
