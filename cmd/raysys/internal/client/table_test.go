package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func example() client.Status {
	shards := []client.Shard{{Shard: 9, Node: "b", Epoch: 4}, {Shard: 7, Epoch: 2}, {Shard: 8, Node: "b", Epoch: 3}}
	for i := range 6 {
		shards = append(shards, client.Shard{Shard: i, Node: "a", Epoch: 1})
	}
	return client.Status{
		Cluster: "blue", ID: "c0ffee", Format: 1,
		Nodes: []client.Node{
			{
				Name: "b", Incarnation: 12, Role: string(system.Worker), State: inspect.NodeDraining, Address: "10.0.0.2:7400", Version: "v0.2.0", Build: "0badcafe", Up: 26*time.Hour + 5*time.Minute,
				Resources: raysys.Resources{CPU: 8, GPU: 2, Memory: 64 << 30, Custom: map[string]float64{"seat": 0.5, "licence": 3}},
				Free:      raysys.Resources{CPU: 0.5, GPU: 1.75, Memory: 48 << 30, Custom: map[string]float64{"seat": 0.5, "licence": 2}},
				Devices: []inspect.DeviceStatus{
					{UUID: "GPU-b0", Model: "NVIDIA H100 80GB HBM3", Memory: 80 << 30, Total: 1, Free: 0.75, FreeMemory: 60 << 30, Busy: 70, UsedMemory: 31 << 30},
					{UUID: "1", Total: 1, Free: 1, Sick: true, Busy: -1, Cause: "Xid 79: GPU has fallen off the bus"},
				},
				Memory: inspect.MemoryUse{Resident: 52 << 30, Heap: 30 << 30, Limit: 64 << 30},
				Late: []inspect.Grain{
					{Kind: "counter", Key: "7", Turn: "counter.add", Lasts: 90 * time.Second, Late: "past its deadline"},
					{Kind: "policy", Key: "ada; rm *", Turn: "policy.act", Lasts: 6 * time.Second, Late: "given up by its caller"},
				},
				Queued: 120, Inbound: 8, Grains: map[string]int{"policy": 2, "counter": 2998}, Labels: map[string]string{"zone": "west", "disk": "ssd"},
				Balance:    &inspect.GrainBalance{Load: 0.213, Mean: 0.2, Moved: 83, Why: "a joins"},
				NamedTasks: []inspect.NamedTask{{Name: "nightly report", Function: "report", Attempt: 3, State: "runs"}},
			},
			{Name: "a", Incarnation: 7, Role: string(system.Worker), State: inspect.NodeActive, Address: "10.0.0.1:7400", Version: "v0.2.0", Build: "12345678", Up: 59 * time.Second, Memory: inspect.MemoryUse{Resident: 1 << 29, Limit: 8 << 30}, Resources: raysys.Resources{CPU: 4}, Free: raysys.Resources{CPU: 4}},
			{Name: "laptop", Role: string(system.Driver), State: inspect.NodeUnknown, Error: "no answer within 3s"},
		},
		Shards: shards,
		Demand: []inspect.Demand{
			{Resources: raysys.Resources{CPU: 1, GPU: 4}, Labels: map[string]string{"zone": "west"}, Count: 3, Oldest: 2 * time.Minute, Unplaced: true},
			{Resources: raysys.Resources{GPU: 2}, Count: 1, Oldest: 4 * time.Second},
			{Resources: raysys.Resources{CPU: 2}, Group: "training", Count: 5, Oldest: 3 * time.Second},
			{Resources: raysys.Resources{CPU: 1}, Group: "eval", Count: 1, Oldest: 2 * time.Second, Unplaced: true},
		},
		Groups: []inspect.GroupDemand{
			{Group: "eval", Strategy: placement.StrictSpread, Bundles: []raysys.Resources{{CPU: 1}, {CPU: 1}, {GPU: 4}}, Held: 1, Count: 1, Gathering: 1, Oldest: 2 * time.Minute},
			{Group: "c0ffee", Strategy: placement.Pack, Bundles: []raysys.Resources{{CPU: 8}}, Count: 3, Oldest: time.Second},
		},
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := client.Table(&b, example()); err != nil {
		t.Fatal(err)
	}
	const want = `cluster blue (c0ffee), 3 nodes, 9 shards

counter/7 is in counter.add on b for 1m30s, past its deadline: raysys get counter/7
policy/ada; rm * is in policy.act on b for 6s, given up by its caller: raysys list grains --kind policy
b has 81 % of the memory that it may have: raysys profile b heap.pprof

NODE    ROLE    STATE     ADDRESS        VERSION  BUILD     UP    CPU    GPU             MEMORY         ASKED FOR      QUEUED  GUESTS  GRAINS  LABELS
a       worker  up        10.0.0.1:7400  v0.2.0   12345678  59s   0/4    -               0.5/8.0 GiB    -              0       0       0       -
b       worker  draining  10.0.0.2:7400  v0.2.0   0badcafe  1d2h  7.5/8  0.25/1, 1 sick  52.0/64.0 GiB  16.0/64.0 GiB  120     8       3000    disk=ssd,zone=west
laptop  driver  unknown   -              -        -         -     -      -               -              -              0       0       0       -
laptop does not answer: no answer within 3s
b: 83 grains have moved to other nodes; the turns of the rest take 0.21 of each CPU, the mean is 0.2; now none: a joins

NAMED TASK      FUNCTION  ATTEMPT  STATE  OF NODE
nightly report  report    3        runs   b

NODE  DEVICE  MODEL                  USED    MEMORY         BUSY  IN USE    STATE
b     GPU-b0  NVIDIA H100 80GB HBM3  0.25/1  20.0/80.0 GiB  70 %  31.0 GiB  well
b     GPU 1   -                      0/1     -              -     -         sick: Xid 79: GPU has fallen off the bus

NODE  RESOURCE  USED
b     licence   1/3
b     seat      0/0.5

WAITS FOR     LABELS     COUNT  OLDEST  WHERE
CPU 1, GPU 4  zone=west  3      2m0s    no node can take it yet
GPU 2         -          1      4s      on a node that has it
CPU 2         -          5      3s      in a bundle of group "training"
CPU 1         -          1      2s      its bundle of group "eval" has no node yet

GROUP WAITS  STRATEGY       BUNDLES              HELD  COUNT  GATHERING  OLDEST
"eval"       STRICT_SPREAD  2 x (CPU 1) + GPU 4  1/3   1      1          2m0s
"c0ffee"     PACK           CPU 8                0/1   3      0          1s

LEADER  SHARDS  NUMBERS
none    1       7
a       6       0-5
b       2       8-9

GRAIN    ACTIVE
counter  2998
policy   2
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	if err := client.Table(&b, client.Status{Cluster: "new"}); err != nil || strings.Contains(b.String(), "LEADER") || strings.Contains(b.String(), "GRAIN\t") {
		t.Errorf("an empty cluster: %q, %v", b.String(), err)
	}
}

func TestTableOfOneRow(t *testing.T) {
	for want, up := range map[string]time.Duration{"1m5s": 65 * time.Second, "2h3m": 2*time.Hour + 3*time.Minute, "-": 0} {
		var b bytes.Buffer
		s := client.Status{Nodes: []client.Node{{Name: "a", Up: up, Address: "x", Version: "v"}}}
		if err := client.Table(&b, s); err != nil || !strings.Contains(b.String(), " "+want+" ") {
			t.Errorf("up %v: %q, %v; want %s in it", up, b.String(), err, want)
		}
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := client.JSON(&b, example()); err != nil {
		t.Fatal(err)
	}
	var back client.Status
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	want := example()
	client.Sort(&want)
	if diff := cmp.Diff(want, back); diff != "" {
		t.Error(diff)
	}
	if back.Nodes[0].Name != "a" || back.Shards[0].Shard != 0 {
		t.Error("it is not sorted")
	}
	for _, key := range regexp.MustCompile(`"([^"]+)":`).FindAllStringSubmatch(b.String(), -1) {
		if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(key[1]) {
			t.Errorf("key %q is not in the case style of the others, lower case with underscores", key[1])
		}
	}
	// Go programs that encode what Node.Status returns write the same.
	again, err := json.Marshal(want)
	if err != nil || string(again)+"\n" != b.String() {
		t.Errorf("encoding/json writes %s, %v; the command wrote %s", again, err, b.String())
	}
	b.Reset()
	if err := client.JSON(&b, client.Status{}); err != nil || b.String() != `{"cluster":"","id":"","format":0,"nodes":[],"shards":[]}`+"\n" {
		t.Errorf("nothing is %q, %v", b.String(), err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestNobodyReads(t *testing.T) {
	if client.Table(full{}, example()) == nil || client.JSON(full{}, example()) == nil {
		t.Error("the writer's error is lost")
	}
}
