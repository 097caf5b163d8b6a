package process_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/process"
)

const limit = 1 << 20 // of frames in these tests

func sample() process.Message {
	return process.Message{Method: "fit", Values: []byte(`{"rate":0.5}`), Tensors: []process.Described{
		process.Describe("a", process.Of([]uint8{1, 2, 3})), process.Describe("b", process.Of([]float64{4, 5}, 2, 1)), process.Describe("c", process.Of([]bool{})),
	}}
}

// frame is what m is on the descriptor.
func frame(t testing.TB, m process.Message) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b, process.CallFrame, limit); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// parts are what of a message can be compared.
func parts(m process.Message) any {
	p := []any{m.Method, string(m.Values)}
	for _, d := range m.Tensors {
		p = append(p, d.Name, d.Tensor())
	}
	return p
}

func TestFrames(t *testing.T) {
	b := frame(t, sample())
	kind, body, err := process.ReadFrame(bytes.NewReader(b), limit)
	if err != nil || kind != process.CallFrame {
		t.Fatal(kind, err)
	}
	m, err := process.Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(parts(sample()), parts(m)); d != "" {
		t.Error(d)
	}
	if len(body)%8 != 0 || !bytes.HasSuffix(body, append([]byte{1, 2, 3, 0, 0, 0, 0, 0}, process.Of([]float64{4, 5}).Data...)) {
		t.Errorf("the tensors do not begin at multiples of 8: %q", body)
	}
	for n := range b {
		if _, _, err := process.ReadFrame(bytes.NewReader(b[:n]), limit); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	m.Tensors = m.Tensors[:2]
	body = frame(t, m)[5:]
	for n := range body {
		if _, err := process.Decode(body[:n]); !errors.Is(err, process.ErrProtocol) {
			t.Fatalf("a body of %d of %d bytes: %v", n, len(body), err)
		}
	}
}

func TestFramesThatAreNone(t *testing.T) {
	for what, head := range map[string][]byte{
		"empty": {0, 0, 0, 0, 1}, "kind 0": {9, 0, 0, 0, 0}, "kind 9": {9, 0, 0, 0, 9}, "text": []byte("Hello"),
	} {
		if _, _, err := process.ReadFrame(bytes.NewReader(append(head, make([]byte, 20)...)), limit); !errors.Is(err, process.ErrProtocol) {
			t.Errorf("%s: %v", what, err)
		}
	}
	large := binary.LittleEndian.AppendUint32(nil, limit+1)
	if _, _, err := process.ReadFrame(bytes.NewReader(append(large, 2)), limit); !errors.Is(err, raysys.ErrTooLarge) {
		t.Error(err)
	}
	var sent bytes.Buffer
	m := process.Message{Tensors: []process.Described{process.Describe("x", process.Of(make([]uint8, limit)))}}
	if err := m.Write(&sent, process.CallFrame, limit); !errors.Is(err, raysys.ErrTooLarge) || sent.Len() > 0 {
		t.Errorf("%v, and %d bytes were sent", err, sent.Len())
	}
}

// TestText: a text is what it was on the other side, or it is refused.
func TestText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", `\`, `"`, "u", "fffd", "d800", "\xff", "\xed\xa0\x80", "\ufffd", "é", "\U0001f600", "\n", "\u2028"})).Draw(t, "text"), "")
		values, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		m := process.Message{Values: values}
		var sent bytes.Buffer
		err = m.Write(&sent, process.CallFrame, limit)
		if !utf8.ValidString(s) {
			if !errors.Is(err, process.ErrValue) {
				t.Fatalf("%q was sent: %v", s, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		back, err := process.Decode(sent.Bytes()[5:])
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(back.Values, &got); err != nil || got[s] != s {
			t.Fatalf("%q came as %q, %v", s, got, err)
		}
	})
	for text, kept := range map[string]bool{
		`"\ufffd"`: true, `"\ud83d\ude00"`: true, `"\\ud800"`: true, `"\ud800"`: false, `"\ud83d\ud83d\ude00"`: false, `"\ude00\ud83d"`: false, "\"\xff\"": false, `"\\\uDFFF"`: false,
	} {
		if near := process.Changed([]byte(text)); (near == "") != kept {
			t.Errorf("%s: %s", text, near)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(frame(f, sample())[5:])
	f.Add([]byte("\x02\x00\x00\x00{}"))
	f.Add([]byte("\x48\x00\x00\x00" + `{"tensors":[{"name":"x","dtype":"float64","shape":[99999999,99999999]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := process.Decode(body)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := m.Write(&b, process.ResultFrame, 1<<30); errors.Is(err, process.ErrValue) {
			return // text that is no UTF-8
		} else if err != nil {
			t.Fatal(err)
		}
		_, again, err := process.ReadFrame(&b, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := process.Decode(again); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOutput(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 4096))
	for _, c := range []struct {
		pieces, lines []string
	}{
		{[]string{"one\ntwo\n"}, []string{"one", "two"}},
		{[]string{"o", "ne\n\ntw", "o"}, []string{"one", "two"}},
		{[]string{" 1%\r 2%\r\n"}, []string{" 1%", " 2%"}},
		{[]string{"\x00\xff\x1b[31mred\nä\tb\n"}, []string{`"\x00\xff\x1b[31mred"`, "ä\tb"}},
		{[]string{long + "yz\n"}, []string{long, "yz"}},
		{[]string{long[:4095], "x", "\n"}, []string{long}},
	} {
		if lines, _ := process.Lines(c.pieces...); !cmp.Equal(lines, c.lines) {
			t.Errorf("%.50q: %.200q", c.pieces, lines)
		}
	}
	if _, kept := process.Lines("first\n" + string(bytes.Repeat([]byte("more\n"), 19)) + "last\n"); len(kept) != 20 || kept[0] != "more" || kept[19] != "last" {
		t.Errorf("%q", kept)
	}
}

// TestSharedFrames: tensors are what the header says of shared memory, which a child cannot lie about.
func TestSharedFrames(t *testing.T) {
	m := sample()
	memory := frame(t, m)[5:]
	memory = memory[4+binary.LittleEndian.Uint32(memory):]
	header := func(m process.Message) []byte {
		b := frame(t, m)[5:]
		return b[:4+binary.LittleEndian.Uint32(b)]
	}
	decode := process.Decoder(bytes.NewReader(memory))
	for range 2 {
		got, err := decode(header(m), process.SharedFrame)
		if d := cmp.Diff(parts(m), parts(got)); d != "" || err != nil {
			t.Error(d, err)
		}
		got.Tensors[1].Shape[0] = 9 // the caller's: the next frame has a header of its own
	}
	if _, err := process.Decode(header(m)); !errors.Is(err, process.ErrProtocol) {
		t.Error(err)
	}
	if _, err := process.Decoder(nil)(header(m), process.SharedFrame); !errors.Is(err, process.ErrProtocol) || !strings.Contains(err.Error(), "which this child has not") {
		t.Error(err)
	}
	if _, err := process.Decoder(bytes.NewReader(memory[:len(memory)-1]))(header(m), process.SharedFrame); !errors.Is(err, process.ErrProtocol) || !strings.Contains(err.Error(), "24 bytes in shared memory") {
		t.Error(err)
	}
	for shape, want := range map[string]error{"[1048577]": raysys.ErrTooLarge, "[2147483647,2]": process.ErrProtocol, "[-8]": process.ErrProtocol} {
		lie := `{"tensors":[{"name":"x","dtype":"uint8","shape":` + shape + `}]}`
		body := append(binary.LittleEndian.AppendUint32(nil, uint32(len(lie))), lie...)
		if _, err := decode(body, process.SharedFrame); !errors.Is(err, want) {
			t.Errorf("%s: %v", shape, err)
		}
	}
}
