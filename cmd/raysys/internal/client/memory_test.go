package client_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/printable"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func held() client.Memory {
	return client.Memory{
		Cluster: "blue",
		Stores: []client.Store{
			{Node: "b", Objects: 1, Bytes: 3 << 30, Used: 3 << 30, Budget: 7 << 30, Warm: 1 << 20, Received: 3 << 30},
			{Node: "a", Objects: 6, Bytes: 4 << 30, Used: 3 << 29, Budget: 4 << 30, Disk: 5 << 20, Spilled: 2, Restored: 1, Exported: 9, Sent: 3 << 30, Shared: 4},
			{Node: "laptop", Error: "no answer within 3s"},
		},
		Objects: []client.Object{
			{Node: "a", HeldObject: inspect.HeldObject{ID: "02", Size: 100 << 10, Forms: []string{"file"}, Primary: true, Why: "result of train", Since: noon.Add(-90 * time.Second)}},
			{Node: "b", HeldObject: inspect.HeldObject{ID: "01", Size: 3 << 30, Forms: []string{"segment"}, Why: "received", Owner: "a", Refs: 2, Users: 1, Since: noon}},
			{Node: "a", HeldObject: inspect.HeldObject{
				ID: "01", Size: 3 << 30, Forms: []string{"value", "segment"}, Primary: true, Why: "put", Since: noon.Add(-3 * time.Hour),
				Holders: map[raysys.NodeID]int{"c": 1, "b": 2}, Names: []string{"weights"}, Kept: []raysys.NodeID{"c"}, Pins: 1,
			}},
			{Node: "a", HeldObject: inspect.HeldObject{ID: "03", Size: 5 << 20, Forms: []string{}, Why: "reference", Owner: "c", Refs: 1}},
			{Node: "a", HeldObject: inspect.HeldObject{ID: "04", Size: 1 << 20, Forms: []string{"heap"}, Primary: true, Why: "received", KeptFor: "c", Since: noon}},
			{Node: "a", HeldObject: inspect.HeldObject{ID: "05", Size: 70000, Why: "put", Primary: true, Missing: 1, Lost: "checksum", Since: noon}},
			{Node: "a", HeldObject: inspect.HeldObject{ID: "06", Size: 69999, Forms: []string{"heap"}, Why: "received", Since: noon}},
		},
	}
}

func TestMemoryTable(t *testing.T) {
	m := held()
	m.Bound(6)
	var b bytes.Buffer
	if err := client.MemoryTable(&b, m, noon); err != nil {
		t.Fatal(err)
	}
	const want = `NODE  OBJECTS  MEMORY         WARM   DISK   SPILLED  RESTORED  DROPPED  EXPORTED  SENT   RECEIVED  SHARED
a     6        1.5 GiB/4 GiB  0 B    5 MiB  2        1         0        9         3 GiB  0 B       4
b     1        3 GiB/7 GiB    1 MiB  0 B    0        0         0        0         0 B    3 GiB     0
laptop does not answer: no answer within 3s

NODE  OBJECT  SIZE       FORMS          SINCE  WHY                    HELD BY
a     01      3 GiB      value,segment  3h0m   put                    name "weights", b (2), c (1), replicas on c, 1 pin here
b     01      3 GiB      segment        1s     copy of a's, received  2 references here, 1 user here
a     03      5 MiB      -              -      of c, not fetched      1 reference here
a     04      1 MiB      heap           1s     replica for c          its own process
a     02      100 KiB    file           1m30s  result of train        its own process
a     05      68.36 KiB  -              1s     lost: checksum         1 replica missing

total: 7 objects, 7 GiB; 1 is not listed: raise --limit
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	if err := client.MemoryTable(&b, client.Memory{}, noon); err != nil || bytes.Contains(b.Bytes(), []byte("HELD BY")) {
		t.Errorf("nothing is %q, %v", b.String(), err)
	}
	if client.MemoryTable(full{}, m, noon) == nil || writeJSON(full{}, m) == nil {
		t.Error("the writer's error is lost")
	}
}

// writeJSON is what raysys memory -o json does.
func writeJSON(w io.Writer, m client.Memory) error {
	return printable.WriteJSON(w, client.WithoutNull(m))
}

func TestMemoryJSON(t *testing.T) {
	m := held()
	m.Bound(2)
	var b bytes.Buffer
	if err := writeJSON(&b, m); err != nil {
		t.Fatal(err)
	}
	var back client.Memory
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, back); diff != "" {
		t.Error(diff)
	}
	if want := (client.Total{Objects: 7, Bytes: 7 << 30, Listed: 2}); back.Total != want || back.Objects[1].Node != "b" {
		t.Errorf("%+v", back)
	}
	b.Reset()
	if err := writeJSON(&b, client.Memory{}); err != nil || b.String() != `{"cluster":"","stores":[],"objects":[],"total":{"objects":0,"bytes":0,"listed":0}}`+"\n" {
		t.Errorf("nothing is %q, %v", b.String(), err)
	}
}
