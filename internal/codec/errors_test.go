package codec_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
)

func TestEncodeErrors(t *testing.T) {
	deep := group{}
	for range codec.MaxDepth + 1 {
		deep = group{[]shape{deep}}
	}
	far := time.Date(2024, 1, 1, 0, 0, 0, 0, time.FixedZone("far", 1<<30)) // an offset MarshalBinary has no room for
	for _, tt := range []struct {
		name string
		v    box[[]shape]
		path string
		text string
	}{
		{"unregistered", box[[]shape]{[]shape{nil, stranger{}}}, ".Item[1]", "raysys.Register[codec_test.stranger]"},
		{"ref", box[[]shape]{[]shape{bearer{}}}, ".Item[0]", "does not wait for inside an interface"},
		{"bad type", box[[]shape]{[]shape{group{[]shape{broken{}}}}}, ".Item[0].(codec_test.group).Members[0]", "channel"},
		{"deep", box[[]shape]{[]shape{deep}}, "", "is there a cycle"},
	} {
		_, err := codec.Append(nil, &tt.v, nil)
		var bad *codec.EncodeError
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if tt.path != "" && bad.Path != tt.path || !strings.Contains(err.Error(), tt.text) || bad.Type != reflect.TypeFor[box[[]shape]]() {
			t.Errorf("%s: path %q, text %q", tt.name, bad.Path, err)
		}
		if !errors.Is(err, raysys.ErrEncode) {
			t.Errorf("%s: does not match ErrEncode", tt.name)
		}
	}
	times := map[string]time.Time{"x": far}
	_, err := codec.Append(nil, &times, nil)
	if want := `encode map[string]time.Time (["x"]): its own method failed: `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s...", err, want)
	}
}

// Interface values nest as deep on the way in as on the way out, and not deeper.
func TestDepth(t *testing.T) {
	deepest := shape(circle{1})
	for range codec.MaxDepth - 1 {
		deepest = group{[]shape{deepest}}
	}
	wide := make([]shape, 3*codec.MaxDepth) // siblings are not deep
	for i := range wide {
		wide[i] = circle{float64(i)}
	}
	data := encode(t, deepest) // compared by its bytes: cmp.Diff takes time exponential in the depth of slices
	if again := encode(t, decode[shape](t, data)); !bytes.Equal(data, again) {
		t.Errorf("%x became %x", data, again)
	}
	roundTrip(t, wide)

	level, err := hex.DecodeString("8265" + hex.EncodeToString([]byte("group")) + "a167" + hex.EncodeToString([]byte("Members")) + "81")
	if err != nil {
		t.Fatal(err)
	}
	data = append([]byte{1, 5}, bytes.Repeat(level, 10_000)...)
	var v shape
	var bad *codec.DecodeError
	if err := codec.Decode(append(data, 0xf6), &v, nil); !errors.As(err, &bad) || !strings.Contains(bad.Reason, "nest more than") {
		t.Errorf("10,000 levels: %v", bad)
	}
}

type touchy struct{ N int }

func (touchy) MarshalBinary() ([]byte, error)       { return []byte{1}, nil }
func (t *touchy) UnmarshalBinary(data []byte) error { t.N = int(data[7]); return nil }

func TestDecodeErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		target any
		data   string // hex
		path   string
		offset int
		reason string
	}{
		{"empty", new(int), "", "", 0, "no value"},
		{"version", new(int), "020500", "", 0, "upgrade this node"},
		{"form", new(int), "0101400000000000", "", 1, "another type under this name"},
		{"cut", new(int), "010519ff", "", 2, "ends inside"},
		{"long head", new(int), "01051800", "", 2, "shortest"},
		{"reserved head", new(int), "01051c", "", 2, "begins no value"},
		{"endless", new([]string), "01059fff", "", 2, "begins no value"},
		{"trailing", new(int), "01050000", "", 3, "1 bytes follow"},
		{"int8 range", new(int8), "01051880", "", 2, "does not fit int8"},
		{"int8 negative range", new(int8), "01053880", "", 2, "does not fit int8"},
		{"uint8 range", new(uint8), "0105190100", "", 2, "does not fit uint8"},
		{"uint negative", new(uint), "010520", "", 2, "does not fit uint"},
		{"int64 range", new(int64), "01051b8000000000000000", "", 2, "does not fit int64"},
		{"int from text", new(int), "01056130", "", 2, "not text"},
		{"bool", new(bool), "010501", "", 2, "a bool was expected"},
		{"float narrowing", new(float32), "0105fb3ff0000000000000", "", 2, "32 bits"},
		{"half float", new(float64), "0105f93c00", "", 2, "64 bits"},
		{"complex", new(complex64), "010583", "", 2, "a list of 2"},
		{"bytes not marked", new(string), "01054161", "", 2, "UTF-8"},
		{"text not UTF-8", new(string), "010561ff", "", 2, "UTF-8"},
		{"list too long", new([]string), "0105" + "9b7fffffffffffffff", "", 2, "cannot be in the 0 bytes that follow"},
		{"list item", new([]string), "0105826161" + "01", "[1]", 5, "text was expected"},
		{"array length", new([2]string), "0105816161", "", 2, "a list of 2"},
		{"raw code", new([]float32), "0101560000000000", "", 2, "code 85"},
		{"raw pad", new([]float32), "0101550000000001", "", 2, "code 85"},
		{"raw size", new([]float32), "0101550000000000000000", "", 8, "no whole number"},
		{"raw short", new([]float32), "01015500", "", 2, "6 bytes are announced"},
		{"raw as cbor", new([]float32), "0105d85540", "", 1, "form 5"},
		{"bools", new([]bool), "010140000000000002", "", 8, "0 or 1"},
		{"segment code", new(small), "0105a16143d85640", "C", 5, "code 85"},
		{"segment size", new(small), "0105a16143d8554100", "C", 8, "no whole number"},
		{"segment length", new(small), "0105a16143d8555b7fffffffffffffff", "C", 16, "are left"},
		{"array segment", new([2]uint16), "0105d845420100", "", 5, "array of 2"},
		{"field order", new(small), "0105a2614260614100", "", 7, "out of order"},
		{"field twice", new(small), "0105a2614100614100", "", 7, "out of order"},
		{"field type", new(small), "0105a1614160", "A", 5, "a number was expected"},
		{"field in list", new([]small), "010581a1614160", "[0].A", 6, "a number was expected"},
		{"map order", new(map[int]int), "0105a201010001", "", 5, "out of order"},
		{"map twice", new(map[int]int), "0105a200010001", "", 5, "comes twice"},
		{"map value", new(map[string]int), "0105a1616160", `["a"]`, 5, "a number was expected"},
		{"map key", new(map[int]int), "0105a16001", "[key]", 3, "a number was expected"},
		{"map too long", new(map[int]int), "0105bb7fffffffffffffff", "", 2, "cannot be in"},
		{"unknown too long", new(small), "0105a1617a9b7fffffffffffffff", "z", 14, "more items"},
		{"unknown map too long", new(small), "0105a1617abbffffffffffffffff", "z", 14, "more items"},
		{"unknown cut", new(small), "0105a1617a43", "z", 6, "are left"},
		{"name", new(shape), "0105826178" + "00", "", 3, "no type registered"},
		{"name of an interface", new(shape), "0105" + "8270" + hex.EncodeToString([]byte("codec_test.shape")) + "00", "", 3, "no type registered"},
		{"name of a bad type", new(shape), "0105" + "8266" + hex.EncodeToString([]byte("bearer")) + "00", "", 3, "cannot travel"},
		{"union value", new(shape), "0105" + "8266" + hex.EncodeToString([]byte("circle")) + "00", ".(codec_test.circle)", 10, "a struct was expected"},
		{"refusal", new(time.Time), "010263", "", 2, "refused"},
		{"refusal inside", new([]time.Time), "0105814163", "[0]", 4, "refused"},
		{"panic", new(touchy), "010201", "", 2, "panicked"},
		{"leaf form", new(time.Time), "010361", "", 1, "form 3"},
		{"pointer to nil", new(**int), "010580", "", 2, "a list of 1"},
	} {
		data, err := hex.DecodeString(tt.data)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		v := reflect.ValueOf(tt.target).Elem()
		plan, err := codec.PlanOf(v.Type())
		if err != nil {
			t.Fatal(err)
		}
		err = plan.Decode(data, v, nil)
		var bad *codec.DecodeError
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if strings.TrimPrefix(bad.Path, ".") != strings.TrimPrefix(tt.path, ".") || bad.Offset != tt.offset || !strings.Contains(bad.Reason, tt.reason) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if bad.Type != v.Type() || !v.IsZero() {
			t.Errorf("%s: type %v, value %v", tt.name, bad.Type, v)
		}
	}
}

// A length is only a claim. Memory taken for input of some bytes is bounded by those bytes and the size of the types.
func TestHostileLengthsTakeNoMemory(t *testing.T) {
	pad := strings.Repeat("00", 80)
	for _, tt := range []struct {
		name   string
		target any
		data   string
	}{
		{"list", new([]string), "01059a7fffffff" + pad},
		{"list of what is left", new([]rich), "01059850" + pad},
		{"nested lists", new([][][][]string), "0105984f984e984d984c" + pad},
		{"map", new(map[string]int), "0105ba7fffffff" + pad},
		{"text", new(string), "01057a7fffffff" + pad},
		{"segment", new([][]float64), "010581d8565b0fffffffffffffff" + pad},
		{"arrays", new([][1 << 20]int32), "01059850" + pad},
		{"arrays in a map", new(map[string][2][1 << 20]string), "0105b828" + pad},
		{"struct", new(rich), "0105ba7fffffff" + pad},
		{"unknown", new(small), "0105a1617a9a7fffffff" + pad},
	} {
		data, err := hex.DecodeString(tt.data)
		if err != nil {
			t.Fatal(err)
		}
		v := reflect.ValueOf(tt.target).Elem()
		plan, err := codec.PlanOf(v.Type())
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err = plan.Decode(data, v, nil)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: decoded", tt.name)
		}
		limit := uint64(len(data))*uint64(reflect.TypeFor[rich]().Size()) + 32<<10
		if got := after.TotalAlloc - before.TotalAlloc; got > limit {
			t.Errorf("%s: %d bytes of input took %d bytes of memory, want at most %d", tt.name, len(data), got, limit)
		}
	}
}
