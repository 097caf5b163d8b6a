package member_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
)

var whole = member.Info{
	ID: "a", Address: "10.0.0.1:7000", Role: member.Driver, Serves: true, Draining: true,
	Resources: raysys.Resources{CPU: 8, GPU: 0.5, Memory: 1 << 34, Custom: map[string]float64{"licence": 2}},
	Labels:    map[string]string{"zone": "x"}, Version: "v0.3.0", Functions: "9f86d081", KeyPrint: "SHA256:abc",
	Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
}

// TestRecordIsFixed: the record of this version is in testdata and must be read for ever; a later version's fields are skipped
// (C4).
func TestRecordIsFixed(t *testing.T) {
	const file = "testdata/node.v1.json"
	data, err := member.Encode(whole, []uint64{7, 9})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), string(data)+"\n"); diff != "" {
		t.Errorf("the record changed (-kept +now):\n%s", diff)
	}
	later := `{"v":2,"later":{"x":[1]},` + string(kept[len(`{"v":1,`):])
	for _, value := range []string{string(kept), later} {
		n, unheard, err := member.Decode(store.Pair{Key: "nodes/a", Value: []byte(value), Create: 17, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(member.Node{Info: whole, Incarnation: 17}, n, cmpopts.IgnoreUnexported(member.Node{})); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]uint64{7, 9}, unheard); diff != "" {
			t.Errorf("unheard (-want +got):\n%s", diff)
		}
	}
	for _, bad := range []string{"", "{", "null", "[]", `{"v":0}`, `"v"`} {
		if n, _, err := member.Decode(store.Pair{Key: "nodes/a", Value: []byte(bad)}); err == nil {
			t.Errorf("%q is read as %+v", bad, n)
		}
	}
}

// TestImpossibleRecords: what no node can have is not believed, whoever wrote it: a member would send its work there.
func TestImpossibleRecords(t *testing.T) {
	for name, change := range map[string]func(*member.Info){
		"CPUs without end":      func(i *member.Info) { i.Resources.CPU = 1e300 },
		"fewer than no CPUs":    func(i *member.Info) { i.Resources.CPU = -1 },
		"negative memory":       func(i *member.Info) { i.Resources.Memory = -1 },
		"a negative resource":   func(i *member.Info) { i.Resources.Custom = map[string]float64{"licence": -2} },
		"a device without name": func(i *member.Info) { i.Devices = []raysys.Device{{Share: 0.5}} },
		"one device twice":      func(i *member.Info) { i.Devices = []raysys.Device{{UUID: "a"}, {UUID: "a"}} },
		"a share above 1":       func(i *member.Info) { i.Devices = []raysys.Device{{UUID: "a", Share: 1e9}} },
		"a negative share":      func(i *member.Info) { i.Devices = []raysys.Device{{UUID: "a", Share: -1}} },
		"negative bytes":        func(i *member.Info) { i.Devices = []raysys.Device{{UUID: "a", Memory: -1}} },
		"a thousand devices": func(i *member.Info) {
			for n := range 1000 {
				i.Devices = append(i.Devices, raysys.Device{UUID: fmt.Sprint(n)})
			}
		},
		"GPUs beyond its devices": func(i *member.Info) { i.Resources.GPU, i.Devices = 200, []raysys.Device{{UUID: "a"}} },
	} {
		info := whole
		change(&info)
		data, err := member.Encode(info, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, _, err := member.Decode(store.Pair{Key: "nodes/a", Value: data, Session: "s"}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s is read: %v", name, err)
		}
		if err := info.Validate(); !errors.Is(err, raysys.ErrBadOption) {
			t.Errorf("%s is written: %v", name, err)
		}
	}
}

// FuzzRecord: whatever lies under nodes/ is read or refused.
func FuzzRecord(f *testing.F) {
	kept, err := os.ReadFile("testdata/node.v1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(kept)
	f.Add([]byte(`{"v":1,"unheard":[18446744073709551615,0]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, unheard, err := member.Decode(store.Pair{Key: "nodes/a", Value: data, Create: 1})
		if err != nil {
			return
		}
		again, err := member.Encode(n.Info, unheard)
		if err != nil {
			return // too large, or a time that JSON does not know
		}
		if _, _, err := member.Decode(store.Pair{Key: "nodes/a", Value: again, Create: 1}); err != nil {
			t.Errorf("%q became %q, which cannot be read: %v", data, again, err)
		}
	})
}

// TestRoles: who may lead and host (C14).
func TestRoles(t *testing.T) {
	for _, c := range []struct {
		info member.Info
		want bool
	}{
		{member.Info{}, true},
		{member.Info{Role: member.Worker}, true},
		{member.Info{Role: member.Worker, Draining: true}, false},
		{member.Info{Role: member.Driver}, false},
		{member.Info{Role: member.Driver, Serves: true}, true},
		{member.Info{Role: member.Driver, Serves: true, Draining: true}, false},
	} {
		if got := c.info.Eligible(); got != c.want {
			t.Errorf("%+v hosts: %v", c.info, got)
		}
	}
}
