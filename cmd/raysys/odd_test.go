package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
)

// odd is a name that a client may choose: it clears the screen, and looks like an error of the command.
const odd = "key\x1b[2J\nerror: forged\t\u202e"

// fill sets all strings of a value, and makes one element of each list.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(odd)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte("\"\u009b2J\x7f\""))
			return
		}
		if v.Type() == reflect.TypeFor[[]raysys.Explanation]() { // it has itself in it
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	}
}

func filled[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

// oddCluster has that name everywhere.
type oddCluster struct {
	fakeCluster
	fails bool
}

func (o *oddCluster) bad() error {
	if o.fails {
		return fmt.Errorf("grain %s: %w", odd, errors.Join(errors.New(odd), errors.New("second")))
	}
	return nil
}

func (o *oddCluster) Status(context.Context) (client.Status, error) {
	s := filled[client.Status]()
	s.Nodes[0].Error = "" // else it is not shown in full
	return s, o.bad()
}

func (o *oddCluster) Memory(context.Context, raysys.NodeID, int) (client.Memory, error) {
	return filled[client.Memory](), o.bad()
}

func (o *oddCluster) Get(context.Context, string) (inspect.Found, error) {
	return filled[inspect.Found](), o.bad()
}

func (o *oddCluster) Cancel(context.Context, string) (inspect.Thing, error) {
	return filled[inspect.Thing](), o.bad()
}

func (o *oddCluster) Stack(context.Context, raysys.NodeID) (inspect.Stacks, error) {
	return filled[inspect.Stacks](), o.bad()
}

func (o *oddCluster) Groups(context.Context, int) (inspect.Groups, error) {
	return filled[inspect.Groups](), o.bad()
}

func (o *oddCluster) Streams(context.Context) (inspect.Streams, error) {
	return filled[inspect.Streams](), o.bad()
}

func (o *oddCluster) Schedules(context.Context, string, int) (inspect.Schedules, error) {
	return filled[inspect.Schedules](), o.bad()
}

func (o *oddCluster) Schedule(context.Context, string, string) error { return o.bad() }

func (o *oddCluster) StoredGrains(context.Context, inspect.StoredQuery) (inspect.StoredGrains, error) {
	p := filled[inspect.StoredGrains]()
	p.Next = ""
	return p, o.bad()
}

func (o *oddCluster) Tasks(context.Context, inspect.TaskQuery) (inspect.Tasks, error) {
	return filled[inspect.Tasks](), o.bad()
}

func (o *oddCluster) Grains(context.Context, inspect.GrainQuery) (inspect.Grains, error) {
	return filled[inspect.Grains](), o.bad()
}

func (o *oddCluster) Functions(context.Context, int) (inspect.Functions, error) {
	return filled[inspect.Functions](), o.bad()
}

func (o *oddCluster) Failures(context.Context, int) (inspect.Failures, error) {
	return filled[inspect.Failures](), o.bad()
}

func (o *oddCluster) Waits(context.Context, int) (inspect.Waits, error) {
	return filled[inspect.Waits](), o.bad()
}

func (o *oddCluster) Logs(context.Context, inspect.LogQuery, func(inspect.LogLine)) (inspect.Logs, error) {
	return filled[inspect.Logs](), o.bad()
}

func (o *oddCluster) Timeline(context.Context, inspect.TimelineQuery, io.Writer) (inspect.Timeline, error) {
	return filled[inspect.Timeline](), o.bad()
}

func (o *oddCluster) Drain(_ context.Context, _ raysys.NodeID, _ bool, begun func()) (client.Drain, error) {
	begun()
	return filled[client.Drain](), o.bad()
}

func (o *oddCluster) Start(context.Context, inspect.StartQuery) (inspect.Started, error) {
	return filled[inspect.Started](), o.bad()
}

func (o *oddCluster) Restart(context.Context, raysys.NodeID, bool) (uint64, error) { return 1, o.bad() }

func (o *oddCluster) Left(context.Context, raysys.NodeID, uint64) (client.Drain, error) {
	return filled[client.Drain](), o.bad()
}

// TestOddNames: what programs and their clients call things cannot write on a terminal what it likes.
func TestOddNames(t *testing.T) {
	for _, line := range []string{"status", "get x", "cancel x", "stack x", "logs", "timeline -", "list streams", "list tasks", "list grains", "list objects", "list groups", "list waits", "list functions", "list failures", "list states k", "drain n", "start f"} {
		for _, fails := range []bool{false, true} {
			o := &oddCluster{fails: fails}
			on := cluster{connect: func(context.Context, client.Where) (client.Cluster, error) { return o, nil }}
			out, talk, _ := ask(t, on, strings.Fields(line)...)
			all := out + talk
			if !strings.Contains(all, `key\x1b[2J\nerror: forged\t\u202e`) {
				t.Errorf("%s: the name is not there: %q", line, all)
			}
			if line == "logs" { // whose texts keep their tabs
				all = strings.ReplaceAll(all, "\t", "")
			}
			if strings.ContainsAny(all, "\x1b\t\u202e\u009b\x7f") || strings.Contains(all, "\nerror: forged") {
				t.Errorf("%s: %q", line, all)
			}
			if n := strings.Count("\n"+talk, "\nerror: "); fails != (n == 1) {
				t.Errorf("%s: %d lines begin with error: %q", line, n, talk)
			}
			if line == "drain n" || line == "timeline -" {
				continue // their data is no JSON
			}
			if out, _, _ := ask(t, on, strings.Fields(line+" -o json")...); !fails && (!json.Valid([]byte(out)) || strings.ContainsAny(out, "\x1b\u202e\u009b\x7f")) {
				t.Errorf("%s -o json: %q", line, out)
			}
		}
	}
	out, _, _ := ask(t, cluster{connect: func(context.Context, client.Where) (client.Cluster, error) { return &oddCluster{}, nil }}, "list", "tasks", "-o", "json")
	if !strings.Contains(out, `key\u001b[2J\nerror: forged\t`) {
		t.Errorf("JSON has another name: %q", out)
	}
}
