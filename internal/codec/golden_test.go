package codec_test

import (
	"bytes"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/golden"
)

func goldenBytes[T any](t *testing.T, name string, v T) {
	t.Run(name, func(t *testing.T) {
		data := encode(t, v)
		want := golden.Hex(t, "v1/"+name+".hex", data)
		if diff := cmp.Diff(v, decode[T](t, want), same); diff != "" {
			t.Errorf("version 1 is read differently (-want +got):\n%s", diff)
		}
		// This build writes version 1: its bytes are the golden ones.
		if !bytes.Equal(data, want) {
			t.Errorf("version 1 is written differently:\ngot  %x\nwant %x", data, want)
		}
	})
}

// portable is sample with numbers that fit 32-bit machines.
func portable() rich {
	v := sample()
	v.Int, v.Uint, v.Ints = -1<<31, 1<<32-1, []int{-1, 1<<31 - 1}
	return v
}

func TestGoldenBytes(t *testing.T) {
	goldenBytes(t, "rich", portable())
	goldenBytes(t, "zero", rich{})
	goldenBytes(t, "small", small{-300, "text", []float32{1, -2.5}})
	goldenBytes(t, "bytes", []byte("bytes"))
	goldenBytes(t, "float32s", []float32{0, 1.5, -2})
	goldenBytes(t, "ints", []int{-1, 0, 1})
	goldenBytes(t, "bools", []bool{true, false})
	goldenBytes(t, "complex", []complex128{1 + 2i})
	goldenBytes(t, "nil", []float64(nil))
	goldenBytes(t, "time", time.Date(2024, 2, 29, 12, 0, 0, 1, time.UTC))
	goldenBytes(t, "big", big.NewInt(-12345))
	goldenBytes(t, "addr", netip.MustParseAddr("10.1.2.3"))
	goldenBytes(t, "proto", durationpb.New(time.Minute))
	goldenBytes(t, "union", []shape{nil, circle{1}, &label{"l"}})
	goldenBytes(t, "maps", map[string]map[int]bool{"": nil, "b": {}, "aa": {1: true, -1: false, 24: true}})
}

func TestGoldenRefs(t *testing.T) {
	v, order := newPipeline()
	var refs []*core.Future
	data, err := codec.Append(nil, &v, &refs)
	if err != nil {
		t.Fatal(err)
	}
	want := golden.Hex(t, "v1/refs.hex", data)
	var got pipeline
	if err := codec.Decode(want, &got, refs); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(order, visited(t, &got), cores); diff != "" {
		t.Error(diff)
	}
	if string(data) != string(want) {
		t.Errorf("version 1 is written differently:\ngot  %x\nwant %x", data, want)
	}
}

func TestGoldenFingerprints(t *testing.T) {
	var got strings.Builder
	for _, p := range []*codec.Plan{
		planOf[bool](t), planOf[int](t), planOf[[]float32](t), planOf[[3][]byte](t), planOf[*map[string][]uint8](t), planOf[small](t),
		planOf[rich](t), planOf[time.Time](t), planOf[*big.Int](t), planOf[*durationpb.Duration](t), planOf[box[shape]](t),
		planOf[pipeline](t), planOf[forest](t), planOf[[]forest](t), planOf[raysys.Handle[chan int]](t), planOf[jobV1](t), planOf[jobV2](t), planOf[struct{}](t),
	} {
		fmt.Fprintf(&got, "%016x %s\n", p.Fingerprint(), p.Schema())
	}
	if diff := cmp.Diff(string(golden.Bytes(t, "fingerprints.txt", []byte(got.String()))), got.String()); diff != "" {
		t.Error("fingerprints changed, so that no node of this build would work with one of the last (-want +got):", diff)
	}
}

// An implementation that shares no code with this one must agree that the bytes are deterministic CBOR, and on what
// they say.
func TestForeignReader(t *testing.T) {
	strict, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden}.DecMode()
	if err != nil {
		t.Fatal(err)
	}
	data := encode(t, sample())
	if err := strict.Wellformed(data[2:]); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Bool   bool
		Int8   int8
		Text   string
		Bytes  []byte
		Names  []string
		ByName map[string]struct{ A int }
		Floats cbor.Tag
	}
	if err := strict.Unmarshal(data[2:], &got); err != nil {
		t.Fatal(err)
	}
	if !got.Bool || got.Int8 != -128 || got.Text != "héllo" || string(got.Bytes) != "\x00\xff" || got.Names == nil || got.ByName["aa"].A != 2 {
		t.Errorf("got %+v", got)
	}
	if got.Floats.Number != 85 || len(got.Floats.Content.([]byte)) != 12 {
		t.Errorf("floats are %+v", got.Floats)
	}
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]map[int]uint64{"": nil, "b": {}, "aa": {1: 1, -1: 1 << 40, 24: 24, -300: 0, 70000: 1 << 20}}
	want, err := mode.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	if got := encode(t, plain)[2:]; string(got) != string(want) {
		t.Errorf("deterministic CBOR is %x, not %x", want, got)
	}
}
