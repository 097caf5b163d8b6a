package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/cmd/raysys/internal/doctor"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
)

// fakeCluster has the nodes a and b; draining b takes for ever.
type fakeCluster struct {
	at     client.Where
	opened int
	closed int
	err    error
	runs   uint64 // of a function
	looks  func() // is called when that is asked for
}

func (c *fakeCluster) cluster(connectErr error) cluster {
	return cluster{
		connect: func(_ context.Context, at client.Where) (client.Cluster, error) {
			c.at = at
			if connectErr == nil {
				c.opened++
			}
			return c, connectErr
		},
		examine: func(at client.Where) (*doctor.Doctor, func() error, error) {
			c.at = at
			return &doctor.Doctor{
				Address: at.Consul, Consul: c, Mesh: c, Status: c.Status, Streams: c.Streams, Outboxes: func(context.Context) (inspect.Grains, error) { return inspect.Grains{}, c.err }, Dial: func(context.Context, string) error { return nil },
				Limits: func() (doctor.Limits, error) { return doctor.Limits{Files: 1 << 16}, nil }, Now: time.Now, Version: "v1",
				StoredNATS: func(context.Context) (string, error) { return "", nil },
			}, func() error { return nil }, nil
		},
	}
}

func (c *fakeCluster) Status(context.Context) (client.Status, error) {
	nodes := []client.Node{{Name: "b", Role: "worker", Version: "v1"}, {Name: "a", Role: "worker", Version: "v1"}}
	if c.at.Cluster == "silent" {
		nodes[0].Error, nodes[1].Error = "no answer", "no answer"
	}
	return client.Status{Cluster: c.at.Cluster, Nodes: nodes}, c.err
}

func (c *fakeCluster) Get(_ context.Context, text string) (inspect.Found, error) {
	f := inspect.Found{Cluster: c.at.Cluster}
	e := raysys.Explanation{ID: "abcd", Name: "fill", State: "ready", Size: 1 << 20, Owner: "a", Copies: []raysys.NodeID{"b"}, Submitter: "c", Attempt: 2, Recipe: true}
	e.Inputs = []raysys.Explanation{{ID: "ef", Name: "object", State: "released", NoRecipe: "it is no task's value"}}
	w := raysys.Scheduling{ID: "abcd", Name: "train", Waits: []raysys.Waiting{{
		Node: "a", Stage: core.StageLine, For: "what others hold of this node", Waited: 2 * time.Second, Asks: raysys.Resources{GPU: 2}, Labels: map[string]string{"zone": "west"},
		Short: []string{"GPU 2: 2 asked for, 1 of 8 such devices free"}, Before: 3, First: []string{"fill ef"},
		Nodes: []raysys.NodeFit{{Node: "b", Never: true, Why: "without the labels zone=west"}},
	}}, Placed: []raysys.Placed{{Time: time.Unix(0, 0), By: "c", Node: "a", Reasons: []string{"balanced: only a is left"}}}}
	task := inspect.Thing{Kind: inspect.ThingTask, ID: "abcd", Value: &e, Scheduling: &w, Failure: &inspect.Failure{
		Node: "a", Function: "train", Kind: "task", Panic: true, Last: time.Now(), Text: "panic: boom\n", ID: "cd", Stack: "main.train(0x1)\n\t/main.go:7 +0x1\nmain.\x1bmain()\n",
	}}
	grain := inspect.Thing{Kind: inspect.ThingGrain, ID: "a/b", Grains: []inspect.Grain{{Kind: "a", Key: "b", Node: "n", Mailbox: 2, Turn: "pay", Lasts: 5 * time.Second, Keys: 5000, Forgotten: time.Unix(0, 0), Outbox: 9, OutboxAge: 3 * time.Minute, Receivers: []inspect.Receiver{
		{To: "led/x", Messages: 5, Tries: 12, Why: "away \x1b"}, {To: "unreadable:0c", Messages: 1, Why: "odd"}, {To: "led/y", Messages: 2},
	}}}, Outbox: []inspect.StoredOutbox{{Messages: 3, Receivers: []inspect.Receiver{{To: "led/z", Messages: 3}}, Why: "no kind \x1b"}}, States: []inspect.State{
		{Name: "Money", Bytes: 12, JSON: json.RawMessage(`{"X":1}`)}, {Name: "Odd", Bytes: 9, Why: "it is no JSON", Text: "map[]", Cut: 3},
	}}
	switch text {
	case "ab":
		f.Things = []inspect.Thing{task}
	case "a/b":
		f.Things = []inspect.Thing{grain, {Kind: inspect.ThingJob, ID: "ef", Name: "a/b"}}
		f.Silent = []string{"z: no answer within 3s"}
	default:
		return f, fmt.Errorf("%w: nothing is known of %s", client.ErrNotFound, text)
	}
	f.Count = len(f.Things)
	return f, c.err
}

func (c *fakeCluster) Cancel(ctx context.Context, text string) (inspect.Thing, error) {
	switch text {
	case "training":
		return inspect.Thing{Kind: inspect.ThingGroup, ID: "a1", Name: text}, c.err
	case "ab":
		return inspect.Thing{Kind: inspect.ThingTask, ID: "abcd"}, c.err
	case "a/b":
		return inspect.Thing{}, fmt.Errorf("%w: a/b fits several things, give the id of one: job ef, grain a/b", raysys.ErrBadOption)
	case "slow":
		<-ctx.Done()
		return inspect.Thing{}, ctx.Err()
	}
	return inspect.Thing{}, fmt.Errorf("%w: nothing is known of %s", client.ErrNotFound, text)
}

func (c *fakeCluster) DropMessages(_ context.Context, grain, receiver string) (int, error) {
	switch receiver {
	case "led/x":
		return 6, c.err
	case "led/late":
		return 0, fmt.Errorf("%w: a: no answer within 3s", raysys.ErrUnreachable)
	}
	return 0, fmt.Errorf("%w: no node has a message of %s to %s: there are led/x", raysys.ErrNotFound, grain, receiver)
}

func (c *fakeCluster) HeapProfile(ctx context.Context, node raysys.NodeID) ([]byte, error) {
	s, err := c.Stack(ctx, node)
	return []byte("profile of " + s.Node), err
}

func (c *fakeCluster) Stack(_ context.Context, node raysys.NodeID) (inspect.Stacks, error) {
	switch node {
	case "b":
		return inspect.Stacks{}, fmt.Errorf("%w: b: no answer within 3s", raysys.ErrUnreachable)
	case "c":
		return inspect.Stacks{}, fmt.Errorf("%w: there are a and b", client.ErrNotFound)
	}
	return inspect.Stacks{Node: node, PID: 7, Goroutines: 3, Stacks: []inspect.Stack{{Count: 3, State: "chan receive", Waits: 2, Frames: []string{"main.wait main.go:3"}, By: "main.main"}}}, c.err
}

func (c *fakeCluster) Memory(_ context.Context, node raysys.NodeID, limit int) (client.Memory, error) {
	if node != "" && node != "a" && node != "b" {
		return client.Memory{}, fmt.Errorf("%w: there are a and b", client.ErrNotFound)
	}
	m := client.Memory{Cluster: c.at.Cluster}
	if node != "b" {
		m.Stores = append(m.Stores, client.Store{Node: "a", Objects: 3, Bytes: 3 << 20, Budget: 1 << 30})
		for i := range min(limit, 3) {
			m.Objects = append(m.Objects, client.Object{Node: "a", HeldObject: inspect.HeldObject{ID: fmt.Sprint("object-", i), Size: 1 << 20, Forms: []string{"value"}, Primary: true, Why: "put"}})
		}
	}
	if node != "a" {
		m.Stores = append(m.Stores, client.Store{Node: "b", Error: "no answer within 3s"})
	}
	return m, c.err
}

func (c *fakeCluster) Groups(_ context.Context, limit int) (inspect.Groups, error) {
	g := inspect.Groups{Cluster: c.at.Cluster, Count: 2}
	for _, id := range []string{"a1", "b2"}[:min(limit, 2)] {
		g.Groups = append(g.Groups, inspect.GroupStatus{ID: id, Strategy: "PACK", State: inspect.GroupHeld, Owner: "a"})
	}
	return g, c.err
}

func (c *fakeCluster) Logs(context.Context, inspect.LogQuery, func(inspect.LogLine)) (inspect.Logs, error) {
	return inspect.Logs{}, c.err
}

func (c *fakeCluster) Timeline(_ context.Context, q inspect.TimelineQuery, w io.Writer) (inspect.Timeline, error) {
	_, err := io.WriteString(w, "{}\n")
	return inspect.Timeline{For: q.For, Events: 7, Begun: 9, LeftOut: 2, Silent: []string{"b: no answer within 3s"}}, errors.Join(err, c.err)
}

func (c *fakeCluster) Streams(context.Context) (inspect.Streams, error) {
	return inspect.Streams{Cluster: c.at.Cluster, Parts: []inspect.StreamPart{{Node: "a", Stream: "orders", To: "account", Lag: 7}}}, c.err
}

func (c *fakeCluster) Schedules(_ context.Context, prefix string, limit int) (inspect.Schedules, error) {
	return inspect.Schedules{Cluster: c.at.Cluster, Count: 1, Schedules: []inspect.Schedule{{Name: prefix + "bill", When: "every 24h0m0s", Work: "account/alice.bill", Missed: uint64(limit)}}}, c.err
}

func (c *fakeCluster) StoredGrains(_ context.Context, q inspect.StoredQuery) (inspect.StoredGrains, error) {
	p := inspect.StoredGrains{Cluster: c.at.Cluster}
	switch {
	case q.Kind == "none":
	case q.Kind == "flat" && q.From == "":
		p.Grains, p.Next = []inspect.StoredGrain{{Key: "long/key"}}, "3"
	case q.From == "3":
		p.Grains = []inspect.StoredGrain{{Key: "b"}}
	case q.From == "":
		p.Next = "2"
		p.Grains = []inspect.StoredGrain{{Key: q.Prefix + "1", Turn: 7, Keys: 3, States: []inspect.State{{Name: "Money", Bytes: 12, JSON: json.RawMessage("{\"X\":1}")}, {Name: "Lines", Bytes: 9, Entries: 4, Why: "odd"}}}}
	case q.From == "2":
		p.Grains = []inspect.StoredGrain{{Key: q.Prefix + "2", States: []inspect.State{}, Messages: 5, Why: "it is damaged"}}
	}
	return p, c.err
}

func (c *fakeCluster) Schedule(_ context.Context, verb, name string) error {
	if name != "bill" {
		return fmt.Errorf("%w: no schedule has the name %q", raysys.ErrNotFound, name)
	}
	return c.err
}

func (c *fakeCluster) Tasks(_ context.Context, q inspect.TaskQuery) (inspect.Tasks, error) {
	switch {
	case q.State == "asleep":
		return inspect.Tasks{}, fmt.Errorf("%w: tasks are in no state", raysys.ErrBadOption)
	case q.Node == "z":
		return inspect.Tasks{}, system.ErrNoSuchNode
	case q.Function == "x":
		return inspect.Tasks{}, fmt.Errorf("%w: no node has a function x", client.ErrNotFound)
	}
	return inspect.Tasks{Cluster: c.at.Cluster, Count: 9, Tasks: []inspect.Task{
		{ID: "ab", Function: "train", Node: "a", State: inspect.TaskRunning, Lasts: time.Minute, Attempt: 2, Of: "d"},
	}, Silent: []string{"b: no answer within 3s"}}, c.err
}

func (c *fakeCluster) Grains(_ context.Context, q inspect.GrainQuery) (inspect.Grains, error) {
	return inspect.Grains{Cluster: c.at.Cluster, Count: 1, Grains: []inspect.Grain{{Kind: q.Kind, Key: q.Key + "1", Node: "a", Mailbox: 3, Turn: "pay", Lasts: 5 * time.Second}}}, c.err
}

func (c *fakeCluster) Waits(context.Context, int) (inspect.Waits, error) {
	return inspect.Waits{Cluster: c.at.Cluster, Count: 1, Waits: []inspect.Task{
		{ID: "ab", Function: "train", Node: "a", State: inspect.TaskBlocked, On: []inspect.WaitsOn{{ID: "cd", Name: "step"}}, Open: 1},
	}, Ends: []inspect.Task{{ID: "cd", Function: "step", Node: "b", State: inspect.TaskRunning, Lasts: time.Minute}}}, c.err
}

func (c *fakeCluster) Functions(context.Context, int) (inspect.Functions, error) {
	if c.looks != nil {
		c.looks()
	}
	return inspect.Functions{Cluster: c.at.Cluster, At: time.Now(), Count: 1, Functions: []inspect.Function{{Name: "train", Kind: "task", Runs: c.runs, Errors: 1, P50: 1234567, P99: time.Second, WaitP50: 1000, WaitP99: time.Second, Running: 2, Waiting: 3, Oldest: time.Minute}}}, c.err
}

func (c *fakeCluster) Failures(context.Context, int) (inspect.Failures, error) {
	return inspect.Failures{Cluster: c.at.Cluster, Count: 1, Failures: []inspect.Failure{{Node: "a", Function: "train", Kind: "task", Panic: true, Count: 3, Left: 3147, First: time.Now(), Last: time.Now(), Text: "panic: boom", ID: "ab"}}}, c.err
}

func (c *fakeCluster) Drain(ctx context.Context, node raysys.NodeID, wait bool, begun func()) (d client.Drain, err error) {
	if node == "a" || node == "b" || node == "dead" {
		begun()
	}
	if node == "b" && !wait {
		return d, nil
	}
	switch node {
	case "a":
		return client.Drain{Node: "a", Incarnation: 7, Left: true, Told: true, Took: time.Second, Kept: 3, Lost: 2, Why: "it holds references"}, nil
	case "b":
		<-ctx.Done()
		return d, ctx.Err()
	case "dead":
		return client.Drain{Node: "dead", Left: true}, nil
	}
	return d, fmt.Errorf("%w: there are a and b", client.ErrNotFound)
}

func (c *fakeCluster) Start(context.Context, inspect.StartQuery) (inspect.Started, error) {
	return inspect.Started{}, c.err
}

func (c *fakeCluster) Restart(context.Context, raysys.NodeID, bool) (uint64, error) { return 7, c.err }

func (c *fakeCluster) Left(context.Context, raysys.NodeID, uint64) (client.Drain, error) {
	return client.Drain{Left: true, Told: true}, c.err
}

func (c *fakeCluster) CancelDrain(_ context.Context, node raysys.NodeID) error {
	if node == "a" {
		return errors.New("it has drained, and leaves")
	}
	return nil
}

func (c *fakeCluster) Close() error { c.closed++; return nil }

func (c *fakeCluster) Agent(context.Context) (doctor.Agent, error) {
	return doctor.Agent{Version: "1.20", Leader: "x", ConnsPerClient: 200, Time: time.Now(), Heard: time.Now()}, c.err
}
func (c *fakeCluster) TryWriteAsAnyone(context.Context) error       { return nil }
func (c *fakeCluster) TryWrite(context.Context) error               { return nil }
func (c *fakeCluster) Links(context.Context) ([]doctor.Link, error) { return nil, nil }

func ask(t *testing.T, on cluster, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, talk bytes.Buffer
	code = runOn(t.Context(), on, args, strings.NewReader(""), &out, &talk)
	return out.String(), talk.String(), code
}

func TestClusterCommands(t *testing.T) {
	unreachable := fmt.Errorf("%w: consul at 127.0.0.1:1: connection refused", client.ErrUnreachable)
	for _, c := range []struct {
		args    []string
		connect error
		err     error
		code    int
		out     string // part of standard output
		talk    string // part of standard error
	}{
		{args: []string{"status"}, code: 0, out: "cluster default (-), 2 nodes"},
		{args: []string{"status", "-o", "json", "--cluster", "blue"}, code: 0, out: `{"cluster":"blue","id":"","format":0,"nodes":[{"name":"a",`},
		{args: []string{"status"}, connect: unreachable, code: 3, talk: "error: cluster unreachable: consul at 127.0.0.1:1: connection refused: run raysys doctor\n"},
		{args: []string{"status"}, err: unreachable, code: 3, talk: "read status: cluster unreachable"},
		{args: []string{"status", "--cluster", "silent"}, code: 3, out: "b does not answer: no answer", talk: "error: cluster unreachable: none of 2 nodes answers, a says: no answer: run raysys doctor\n"},
		{args: []string{"status"}, err: errors.New("odd"), code: 1, talk: "read status: odd"},
		{args: []string{"status", "--timeout", "0s"}, code: 2, talk: "--timeout 0s: give a positive duration"},
		{args: []string{"status", "--consul", "x"}, code: 2, talk: "give HOST:PORT"},
		{args: []string{"status", "now"}, code: 2, talk: "takes no argument"},
		{args: []string{"status", "--print-config"}, code: 0, out: "timeout   10s"},
		{args: []string{"list", "objects"}, code: 0, out: "b does not answer: no answer within 3s\n"},
		{args: []string{"list", "objects", "--node", "a", "--limit", "1"}, code: 0, out: "total: 3 objects, 3 MiB; 2 are not listed: raise --limit\n"},
		{args: []string{"list", "objects", "--node", "a", "-o", "json", "--limit", "0"}, code: 0, out: `"objects":[],"total":{"objects":3,"bytes":3145728,"listed":0}}`},
		{args: []string{"list", "objects", "--node", "b"}, code: 3, out: "b does not answer", talk: "error: cluster unreachable: node b: no answer within 3s: run raysys doctor\n"},
		{args: []string{"list", "objects", "--node", "c"}, code: 5, talk: "error: list objects: not found: there are a and b\n"},
		{args: []string{"list", "objects", "a"}, code: 2, talk: "takes no argument"},
		{args: []string{"list", "objects", "--node", "a/b"}, code: 2, talk: `--node "a/b"`},
		{args: []string{"list", "objects", "--limit", "-1"}, code: 2, talk: "--limit -1: give 0 or more"},
		{args: []string{"list", "groups"}, code: 0, out: "total: 2 placement groups\n"},
		{args: []string{"list", "groups", "--limit", "1"}, code: 0, out: "total: 2 placement groups; 1 is not listed: raise --limit\n"},
		{args: []string{"list", "groups", "--limit", "-1"}, code: 2, talk: "--limit -1: give 0 or more"},
		{args: []string{"list", "groups", "-o", "json", "--limit", "1"}, code: 0, out: `{"cluster":"default","count":2,"groups":[{"id":"a1","strategy":"PACK","state":"held","owner":"a","detached":false,"bundles":null}]}`},
		{args: []string{"list", "groups", "training"}, code: 2, talk: "takes no argument"},
		{args: []string{"list", "groups"}, err: errors.New("odd"), code: 1, talk: "list groups: odd"},
		{args: []string{"list", "groups"}, connect: unreachable, code: 3, talk: "cluster unreachable"},
		{args: []string{"list", "objects"}, connect: unreachable, code: 3, talk: "cluster unreachable"},
		{args: []string{"list", "objects"}, err: errors.New("odd"), code: 1, talk: "list objects: odd"},
		{args: []string{"get", "ab"}, code: 0, out: "train abcd\n  on a: what others hold of this node, for 2s\n    asks for GPU 2, label zone=west\n    short: GPU 2: 2 asked for, 1 of 8 such devices free\n    3 before it\n      fill ef\n    b: never, without the labels zone=west\n  placed on a by c at 1970-01-01 00:00:00.000\n    balanced: only a is left\nfill abcd: ready, 1048576 bytes, owned by a, copies on b\n  submitted by c, attempt 2\n  made again when it is lost\n  object ef: released\n    not made again: it is no task's value\nlast failure of train, cd, on a 1s ago: panic: boom\\n\n    main.train(0x1)\n        /main.go:7 +0x1\n    main.\\x1bmain()\n"},
		{args: []string{"get", "ab", "-o", "json"}, code: 0, out: `{"cluster":"default","count":1,"things":[{"kind":"task","id":"abcd","scheduling":{"id":"abcd","name":"train","waits":[{"node":"a","stage":"line",`},
		{args: []string{"get", "a/b"}, code: 0, out: "grain a/b a/b\na/b on n: 2 messages in the mailbox, in pay for 5s at least, 5000 keys of calls, older ones forgotten up to 1970-01-01T00:00:00Z, 9 messages to others have not arrived, the oldest for 3m0s at least\n  5 to led/x, tried 12 times in vain: away \\x1b\n  1 to unreadable:0c: odd\n  2 to led/y\n  and 1 to others, or of turns that are not stored yet\na/b is on no node, and 3 messages to others have not arrived: no kind \\x1b\n  3 to led/z\nState Money, 12 bytes\n  {\"X\":1}\nState Odd, 9 bytes: it is no JSON\n  map[]\n  3 bytes more\n\njob \"a/b\" ef\nz: no answer within 3s: what it knows is missing\n"},
		{args: []string{"get", "x"}, code: 5, talk: "error: not found: nothing is known of x: run raysys list\n"},
		{args: []string{"get"}, code: 2, talk: "raysys get takes the id of a task or a value"},
		{args: []string{"get", "a", "b"}, code: 2, talk: "raysys get takes the id of a task or a value"},
		{args: []string{"get", "ab"}, connect: unreachable, code: 3, talk: "cluster unreachable"},
		{args: []string{"cancel", "training"}, code: 0, talk: "group \"training\" is cancelled\n"},
		{args: []string{"cancel", "ab"}, code: 0, talk: "task abcd is cancelled\n"},
		{args: []string{"cancel", "ab", "-o", "json"}, code: 0, out: `{"kind":"task","id":"abcd"}`},
		{args: []string{"cancel", "a/b"}, code: 2, talk: "a/b fits several things, give the id of one: job ef, grain a/b"},
		{args: []string{"cancel", "x"}, code: 5, talk: "error: cancel x: not found: nothing is known of x: run raysys list\n"},
		{args: []string{"outbox", "drop", "a/b", "--to", "led/x"}, code: 0, talk: "6 messages of a/b to led/x are dropped; one on its way may still arrive\n"},
		{args: []string{"outbox", "drop", "a/b", "--to", "led/z"}, code: 5, talk: "no node has a message of a/b to led/z: there are led/x: run raysys get a/b\n"},
		{args: []string{"outbox", "drop", "a/b", "--to", "led/late"}, code: 3, talk: "a: no answer within 3s: run raysys get a/b\n"},
		{args: []string{"outbox", "drop", "a/b"}, code: 2, talk: "raysys outbox drop takes --to RECEIVER: raysys get a/b shows them"},
		{args: []string{"outbox", "drop", "--to", "led/x"}, code: 2, talk: "raysys outbox drop takes the KIND/KEY of one grain"},
		{args: []string{"outbox"}, code: 2, talk: "raysys outbox takes what to do: there is drop"},
		{args: []string{"cancel"}, code: 2, talk: "raysys cancel takes the name or the id of one job"},
		{args: []string{"cancel", "slow", "--timeout", "1ms"}, code: 4, talk: "timed out after 1ms: cancel slow"},
		{args: []string{"profile", "a", "-"}, code: 0, out: "profile of a"},
		{args: []string{"profile", "b", "-"}, code: 3, talk: "error: cluster unreachable: profile b: "},
		{args: []string{"profile", "c", "/nowhere/x"}, code: 1, talk: "error: profile c: open /nowhere/"},
		{args: []string{"profile", "c", "-"}, code: 5, talk: "error: profile c: not found: there are a and b"},
		{args: []string{"profile", "a"}, code: 2, talk: "takes the name of a node, and of the file"},
		{args: []string{"stack", "a"}, code: 0, out: "node a, process 7: 3 goroutines, 1 stacks\n\n3: chan receive, 2 minutes\n  main.wait main.go:3\n  started by main.main\n"},
		{args: []string{"stack", "a", "-o", "json"}, code: 0, out: `{"node":"a","pid":7,"goroutines":3,"stacks":[{"count":3,`},
		{args: []string{"stack", "b"}, code: 3, talk: "error: cluster unreachable: stack b: "},
		{args: []string{"stack", "c"}, code: 5, talk: "error: stack c: not found: there are a and b: run raysys status\n"},
		{args: []string{"stack"}, code: 2, talk: "takes the name of one node"},
		{args: []string{"list"}, code: 2, talk: "raysys list takes what to list: there are tasks, grains, objects, groups, functions, failures, streams, schedules, waits, states"},
		{args: []string{"list", "schedules", "--prefix", "x/", "--limit", "7"}, code: 0, out: "x/bill  -        every 24h0m0s  account/alice.bill  -     -     7       -\n"},
		{args: []string{"schedule", "pause", "bill"}, code: 0, talk: "schedule \"bill\" is paused\n"},
		{args: []string{"schedule", "resume", "bill"}, code: 0, talk: "schedule \"bill\" goes on\n"},
		{args: []string{"schedule", "run", "bill"}, code: 0, talk: "schedule \"bill\" fires now\n"},
		{args: []string{"schedule", "delete", "bill"}, code: 0, talk: "schedule \"bill\" is deleted\n"},
		{args: []string{"schedule", "delete", "x"}, code: 5, talk: "no schedule has the name \"x\""},
		{args: []string{"schedule", "delete"}, code: 2, talk: "takes the name of one schedule"},
		{args: []string{"schedule"}, code: 2, talk: "there are pause, resume, run, delete"},
		{args: []string{"schedule", "run", "bill"}, err: errors.New("odd"), code: 1, talk: "schedule run bill: odd"},
		{args: []string{"list", "nothing"}, code: 2, talk: "takes what to list: there are tasks"},
		{args: []string{"list", "tasks"}, code: 0, out: "TASK  FUNCTION  NODE  STATE    LASTS  WAITS FOR  ATTEMPT  OF NODE  NAME\nab    train     a     running  1m0s   -          2        d        -\n\nb: no answer within 3s: what is there is missing\ntotal: 9 tasks; 8 are not listed: raise --limit, or give a filter\n"},
		{args: []string{"list", "tasks", "-o", "json"}, code: 0, out: `{"cluster":"default","count":9,"tasks":[{"id":"ab","function":"train","node":"a","of":"d","state":"running","lasts":60000000000,"attempt":2}],"silent":["b: no answer within 3s"]}`},
		{args: []string{"list", "tasks", "--node", "b"}, code: 3, out: "b: no answer within 3s: what is there is missing", talk: "error: cluster unreachable: node b: no answer within 3s: run raysys doctor\n"},
		{args: []string{"list", "tasks", "--state", "asleep"}, code: 2, talk: "list tasks: bad option: tasks are in no state"},
		{args: []string{"list", "tasks", "--function", "x"}, code: 5, talk: "error: list tasks: not found: no node has a function x\n"},
		{args: []string{"list", "tasks", "--node", "z"}, code: 5, talk: "error: list tasks: not found: no node named z is in the cluster: run raysys status\n"},
		{args: []string{"list", "tasks", "--node", "a/b"}, code: 2, talk: `--node "a/b"`},
		{args: []string{"list", "tasks", "--limit", "-1"}, code: 2, talk: "--limit -1: give 0 or more"},
		{args: []string{"list", "tasks"}, err: errors.New("odd"), code: 1, talk: "error: list tasks: odd: run raysys doctor\n"},
		{args: []string{"list", "grains", "--kind", "account", "--key", "7"}, code: 0, out: "GRAIN       NODE  MAILBOX  TURN  LASTS  STATE\naccount/71  a     3        pay   5s     busy\n\ntotal: 1 grain\n"},
		{args: []string{"list", "states", "k", "--prefix", "p/", "--values"}, code: 0, out: "KEY  PROGRAM  TURN  ENTRIES  KEYS  MESSAGES  STATES\np/1  -        7     4        3     0         Money 12 bytes, Lines 9 bytes\n  Money {\"X\":1}\n  Lines: odd\np/2  -  0  0  0  5  -\n  it is damaged\n"},
		{args: []string{"list", "states", "k", "-o", "json"}, code: 0, out: "{\"key\":\"1\",\"namespace\":\"\",\"turn\":7,\"states\":[{\"namespace\":\"\",\"name\":\"Money\",\"bytes\":12,\"value\":{\"X\":1}},{\"namespace\":\"\",\"name\":\"Lines\",\"bytes\":9,\"entries\":4,\"why\":\"odd\"}],\"keys\":3,\"messages\":0}\n{\"key\":\"2\",\"namespace\":\"\",\"turn\":0,\"states\":[],\"keys\":0,\"messages\":5,\"why\":\"it is damaged\"}\n"},
		{args: []string{"list", "states", "flat"}, code: 0, out: "KEY       PROGRAM  TURN  ENTRIES  KEYS  MESSAGES  STATES\nlong/key  -        0     0        0     0         -\nb         -        0     0        0     0         -\n"},
		{args: []string{"list", "states", "none"}, code: 5, talk: "error: list states: not found: nothing is stored of a grain of kind none whose key begins with \"\""},
		{args: []string{"list", "states", "k"}, err: errors.New("odd"), code: 1, talk: "error: list states: odd: run raysys doctor\n"},
		{args: []string{"list", "states"}, code: 2, talk: "raysys list states takes the name of one durable kind"},
		{args: []string{"list", "functions"}, code: 0, out: "FUNCTION  KIND  RUNS  RUNS/S  ERRORS  P50     P99  WAIT P50  WAIT P99  RUNNING  WAITING  OLDEST WAIT\ntrain     task  12    -       1       1.23ms  1s   <1ms      1s        2        3        1m0s\n\ntotal: 1 function\n"},
		{args: []string{"list", "failures"}, code: 0, out: "FUNCTION  NODE  COUNT  FIRST   LAST    LAST ID  TEXT\ntrain     a     3+     1s ago  1s ago  ab       panic: boom\n\ntrain on a: 3,147 more not looked at, since there were more than 20 in a second\ntotal: 1 kind of failure\n"},
		{args: []string{"list", "waits"}, code: 0, out: "train ab on a: blocked\n  step cd on b: running, 1m0s\n\ntotal: 1 task or turn that waits for other work\n"},
		{args: []string{"drain"}, code: 2, talk: "takes the name of one node: run raysys status"},
		{args: []string{"drain", "a/b"}, code: 2, talk: `NODE "a/b"`},
		{args: []string{"drain", "a"}, code: 0, talk: "draining a\n2 objects that others need are lost: no other node has a copy\na has left\n"},
		{args: []string{"drain", "a"}, code: 0, out: "NODE  TOOK  OBJECTS KEPT  LOST  WHY\na     1s    3             2     it holds references\n"},
		{args: []string{"drain", "a", "-o", "json"}, code: 0, out: `{"node":"a","incarnation":7,"left":true,"told":true,"took_ns":1000000000,"kept":3,"lost":2,"why":"it holds references"}`},
		{args: []string{"drain", "dead"}, code: 1, talk: "draining dead\nerror: drain dead: it is gone, and did not say how its drain ended"},
		{args: []string{"drain", "b", "--cancel"}, code: 0, talk: "b stays\n"},
		{args: []string{"drain", "a", "--cancel"}, code: 1, talk: "error: cancel the drain of a: it has drained, and leaves: run raysys status\n"},
		{args: []string{"drain", "b", "--cancel", "--no-wait"}, code: 2, talk: "--cancel and --no-wait"},
		{args: []string{"drain", "b", "--no-wait"}, code: 0, talk: "draining b\n"},
		{args: []string{"drain", "c"}, code: 5, talk: "error: drain c: not found: there are a and b: run raysys status\n"},
		{args: []string{"drain", "b", "--timeout", "1ms"}, code: 4, talk: "error: timed out after 1ms: drain b: context deadline exceeded"},
		{args: []string{"drain", "b"}, connect: unreachable, code: 3, talk: "cluster unreachable"},
		{args: []string{"doctor"}, code: 0, out: "ok       consul"},
		{args: []string{"doctor", "-o", "json"}, code: 0, out: `{"check":"consul","level":"ok",`},
		{args: []string{"doctor"}, err: errors.New("refused"), code: 3, out: "skipped  acl", talk: "error: cluster unreachable: start an agent there"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			f := &fakeCluster{err: c.err, runs: 12}
			out, talk, code := ask(t, f.cluster(c.connect), c.args...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(talk, c.talk) {
				t.Errorf("exit %d, want %d\nout %q, want %q\ntalk %q, want %q", code, c.code, out, c.out, talk, c.talk)
			}
			if code != 0 && strings.Count(talk, "error: ") != 1 {
				t.Errorf("not one error: %q", talk)
			}
			if f.closed != f.opened {
				t.Errorf("connected %d times, closed %d times", f.opened, f.closed)
			}
		})
	}
}

// TestWatch: raysys list functions --watch asks again every 2 s, over one connection, shows the rate since the time before, and ends well when
// it is interrupted, or with the error of a look.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		looks, began := 0, time.Now()
		f := &fakeCluster{runs: 2}
		f.looks = func() {
			f.runs += 10
			if looks++; looks == 4 {
				interrupt()
			}
		}
		var out, talk bytes.Buffer
		code := runOn(ctx, f.cluster(nil), []string{"list", "functions", "--watch", "--timeout", "1s", "-o", "json"}, strings.NewReader(""), &out, &talk)
		if code != 0 || talk.Len() > 0 || time.Since(began) != 3*watchPause || f.opened != 1 || f.closed != 1 {
			t.Errorf("exit %d after %v and %d looks, %d connections were opened and %d closed: %s", code, time.Since(began), looks, f.opened, f.closed, &talk)
		}
		var runs []uint64
		var rates []float64
		for d := json.NewDecoder(&out); d.More(); {
			var all inspect.Functions
			if err := d.Decode(&all); err != nil {
				t.Fatal(err)
			}
			runs, rates = append(runs, all.Functions[0].Runs), append(rates, all.Functions[0].Rate)
		}
		if !slices.Equal(runs, []uint64{12, 22, 32}) || !slices.Equal(rates, []float64{0, 5, 5}) {
			t.Errorf("it shows %v runs, %v in a second", runs, rates)
		}

		f = &fakeCluster{runs: 12}
		f.looks = func() {
			if f.runs += 10; f.runs > 22 {
				f.err = errors.New("odd")
			}
		}
		text, said, code := ask(t, f.cluster(nil), "list", "functions", "--watch")
		if code != 1 || !strings.Contains(said, "error: list functions: odd: run raysys doctor\n") || strings.Count(text, "train") != 1 || strings.Contains(text, "\x1b") || f.closed != 1 {
			t.Errorf("a look that fails: exit %d, %q, %q", code, text, said)
		}
	})
}

// TestWatchRedraws: on a terminal each look takes the place of the one before.
func TestWatchRedraws(t *testing.T) {
	var out bytes.Buffer
	err := watched(t.Context(), &out, true, func(w io.Writer) error {
		fmt.Fprint(w, "rows")
		return errors.New("odd")
	})
	if err == nil || out.String() != "\x1b[H\x1b[2Jrows" {
		t.Errorf("%v, %q", err, &out)
	}
}

// A failed check of another kind than Consul's is the job's failure.
func TestDoctorFails(t *testing.T) {
	f := &fakeCluster{}
	on := f.cluster(nil)
	examine := on.examine
	on.examine = func(at client.Where) (*doctor.Doctor, func() error, error) {
		d, done, err := examine(at)
		d.Limits = func() (doctor.Limits, error) { return doctor.Limits{Files: 64}, nil }
		return d, done, err
	}
	out, talk, code := ask(t, on, "doctor", "-o", "json")
	var findings []doctor.Finding
	if err := json.Unmarshal([]byte(out), &findings); err != nil || len(findings) != 14 {
		t.Errorf("%v: %q", err, out)
	}
	if code != 1 || !strings.Contains(talk, "error: 1 of 14 checks failed, first limits: raise it") {
		t.Errorf("exit %d, %q", code, talk)
	}
}

// The way to the cluster comes from flags and variables.
func TestWhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pem")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RAYSYS_CLUSTER", "blue")
	t.Setenv("RAYSYS_TLS_CA", file)
	t.Setenv("CONSUL_HTTP_ADDR", "https://10.0.0.1:8501")
	f := &fakeCluster{}
	if _, talk, code := ask(t, f.cluster(nil), "status", "--tls-cert", file, "--tls-key", file); code != 0 {
		t.Fatalf("exit %d: %s", code, talk)
	}
	if want := (client.Where{Consul: "https://10.0.0.1:8501", Cluster: "blue", Cert: file, Key: file, CA: file}); f.at != want {
		t.Errorf("got %+v, want %+v", f.at, want)
	}
}
