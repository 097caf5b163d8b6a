package codec_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/codec"
)

// One type in three versions.
type (
	jobV1 struct {
		Name string
		Size int32
	}
	jobV2 struct { // fields added, of every shape, and moved
		Labels map[string][]string
		Size   int64
		Data   []float64
		Name   string
		Inner  *jobV1
		Shape  shape
		Score  float64
	}
	jobV3 struct { // Name removed, Score widened before
		Score float64
		Zone  []string
		Size  int64
	}
)

func TestEvolution(t *testing.T) {
	old := jobV1{"n", 7}
	full := jobV2{
		Labels: map[string][]string{"a": {"b", "c"}, "": nil}, Size: 1 << 20, Data: []float64{1, 2}, Name: "m",
		Inner: &jobV1{"i", 1}, Shape: circle{1}, Score: 2.5,
	}
	if diff := cmp.Diff(jobV2{Name: "n", Size: 7}, decode[jobV2](t, encode(t, old))); diff != "" {
		t.Error("fields added:", diff)
	}
	if diff := cmp.Diff(jobV1{"m", 1 << 20}, decode[jobV1](t, encode(t, full))); diff != "" {
		t.Error("unknown fields:", diff)
	}
	if diff := cmp.Diff(jobV3{Size: 1 << 20, Score: 2.5}, decode[jobV3](t, encode(t, full))); diff != "" {
		t.Error("field removed, field added:", diff)
	}
	if diff := cmp.Diff(struct{}{}, decode[struct{}](t, encode(t, full))); diff != "" {
		t.Error("all fields removed:", diff)
	}
	full.Size = 1 << 40
	var bad *codec.DecodeError
	if err := codec.Decode(encode(t, full), new(jobV1), nil); !errors.As(err, &bad) || bad.Path != ".Size" {
		t.Errorf("a number too wide for the old version: %v", err)
	}
	narrow := struct{ Score float32 }{1.25}
	if got := decode[jobV3](t, encode(t, narrow)).Score; got != 1.25 {
		t.Errorf("a widened float became %v", got)
	}
}

// Decoding replaces a value, it does not merge into it.
func TestDecodeReplaces(t *testing.T) {
	v := jobV2{Name: "left over", Labels: map[string][]string{"left": {"over"}}, Data: []float64{1}}
	if err := codec.Decode(encode(t, jobV1{"n", 7}), &v, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(jobV2{Name: "n", Size: 7}, v); diff != "" {
		t.Error(diff)
	}
}

// Fields with the tag omitzero are left out while they are zero, and only then; types without the tag read them, and the reverse.
func TestOmitZero(t *testing.T) {
	type full struct {
		Name   string
		Limit  int64
		Zones  []string
		Labels map[string]string
		Inner  struct{ A, B int8 }
		Last   bool
	}
	type spare struct {
		Name   string
		Limit  int64               `raysys:"omitzero"`
		Zones  []string            `raysys:"omitzero"`
		Labels map[string]string   `raysys:"omitzero"`
		Inner  struct{ A, B int8 } `raysys:"omitzero"`
		Last   bool                `raysys:"omitzero"`
	}
	if got, want := encode(t, spare{}), encode(t, struct{ Name string }{}); !bytes.Equal(got, want) {
		t.Errorf("zero fields take % x, want % x", got, want)
	}
	if planOf[spare](t).Fingerprint() != planOf[full](t).Fingerprint() {
		t.Error("the tag changes the fingerprint, though either type reads the other")
	}
	for name, v := range map[string]full{
		"zero":       {},
		"a name":     {Name: "n"},
		"number":     {Limit: -1},
		"empty":      {Zones: []string{}, Labels: map[string]string{}},
		"one of two": {Inner: struct{ A, B int8 }{B: 1}},
		"all":        {"n", 1 << 40, []string{"z"}, map[string]string{"k": "v"}, struct{ A, B int8 }{1, 2}, true},
	} {
		if diff := cmp.Diff(v, decode[full](t, encode(t, spare(v)))); diff != "" {
			t.Errorf("%s, read without the tag: %s", name, diff)
		}
		if diff := cmp.Diff(spare(v), decode[spare](t, encode(t, v))); diff != "" {
			t.Errorf("%s, written without the tag: %s", name, diff)
		}
	}
}

func TestFingerprintSeesChanges(t *testing.T) {
	moved := planOf[struct {
		Size int32
		Name string
	}](t).Fingerprint()
	if v1 := planOf[jobV1](t).Fingerprint(); v1 != moved {
		t.Errorf("moving a field changed the fingerprint from %x to %x", v1, moved)
	}
	seen := map[uint64]string{}
	for _, p := range []*codec.Plan{planOf[jobV1](t), planOf[*jobV1](t), planOf[[]jobV1](t), planOf[jobV2](t), planOf[jobV3](t), planOf[int](t), planOf[int64](t)} {
		if other, ok := seen[p.Fingerprint()]; ok {
			t.Errorf("%s and %s have one fingerprint", p.Schema(), other)
		}
		seen[p.Fingerprint()] = p.Schema()
	}
}
