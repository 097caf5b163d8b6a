package link_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// What this version says, field by field.
var (
	someHello = link.Hello{
		Identity: link.Identity{
			Cluster: "prod", Node: "n1", Incarnation: 1 << 60, Address: "10.0.0.1:7000", Role: "worker", Version: "v0.2.0", Namespace: "example.com/app",
			Functions: []link.Function{{Kind: "task", Name: "square", Fingerprint: 0x0102030405060708}, {Kind: "grain", Name: "counter", Fingerprint: 1<<64 - 1}},
		},
		Min: 1, Max: 1, To: "n2", Session: 0xfeedfacecafebeef, Gone: 77, Order: 5, Window: [3]uint64{1 << 20, 4 << 20, 4 << 20}, Frame: 1 << 20, Bulk: 4<<20 + 64<<10,
	}
	someBulk      = link.BulkHello{Cluster: "prod", From: "n1", To: "n2", Incarnation: 1 << 60, Session: 0xfeedfacecafebeef}
	someChallenge = link.Proof{Incarnation: 1 << 60, Nonce: "0123456789abcdef", MAC: "0123456789abcdef0123456789abcdef"}
	someProof     = link.Proof{MAC: "fedcba9876543210fedcba9876543210"}
	someFrames    = []link.Frame{
		{Kind: 1, Class: wire.Control, Payload: "\x00\x01\x02\x03\x04\x05\x06\x07"},
		{Kind: 2, Class: wire.Control, Payload: "\x01\x02\x03\x04\x05\x06\x07\x08"},
		{Kind: 3, Class: wire.Control, Payload: "\x02\x00\x00\x10\x00"},
		{Kind: 4, Class: wire.Control, Payload: "the node closed its link"},
		{Kind: 5, Class: wire.Control},
		{Kind: 40, Class: wire.Requests, Payload: "a request"},
		{Kind: 41, Class: wire.Replies, Payload: ""},
		{Kind: 255, Class: wire.Control, Flags: 0x8001, Payload: "flags of a later version"},
	}
)

// TestFormatStays: what is in testdata reads, and is what this version writes (rule C4).
func TestFormatStays(t *testing.T) {
	message := func(kind uint8, body []byte) []byte {
		var b bytes.Buffer
		link.WriteMessage(&b, kind, body)
		return b.Bytes()
	}
	var frames []byte
	for _, f := range someFrames {
		frames = f.Append(frames)
	}
	files := map[string][]byte{
		"hello":     message(1, someHello.Append(nil)),
		"rejection": message(2, link.NewRejection(link.CodeDuplicate, "there is one", 99).Append(nil)),
		"confirm":   message(3, link.AppendConfirm(nil, 12)),
		"bulk":      message(4, someBulk.Append(nil)),
		"proving":   message(1, link.Hello{Nonce: "0123456789abcdef"}.Append(nil)),
		"challenge": message(5, someChallenge.Append(nil)),
		"proof":     message(6, someProof.Append(nil)),
		"frames":    frames,
		"counts":    append(link.CountsFrame(1, 1<<40, 3), link.BulkCountFrame(300)...),
		"bodies":    append(link.BodyFrame(91, "a head", "and a body"), link.BodyFrame(91, "", "")...),
	}
	for name, now := range files {
		if then := golden.Bytes(t, "v1/"+name, now); !bytes.Equal(then, now) {
			t.Errorf("%s is written differently now:\n%q\n%q", name, then, now)
		}
	}
	body := func(name string, kind uint8) []byte {
		k, b, err := link.ReadMessage(bytes.NewReader(golden.Bytes(t, "v1/"+name, nil)))
		if err != nil || k != kind {
			t.Fatal(name, k, err)
		}
		return b
	}
	check := func(got, want any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(link.Rejection{})); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	h, err := link.ReadHello(body("hello", 1))
	check(h, someHello, err)
	r, session, err := link.ReadRejection(body("rejection", 2))
	check(r, &link.Rejection{Code: link.CodeDuplicate, Text: "there is one", Remote: true}, err)
	check(session, uint64(99), nil)
	order, err := link.ReadConfirm(body("confirm", 3))
	check(order, uint64(12), err)
	bulk, err := link.ReadBulkHello(body("bulk", 4))
	check(bulk, someBulk, err)
	h, err = link.ReadHello(body("proving", 1))
	check(h, link.Hello{Nonce: "0123456789abcdef"}, err)
	challenge, err := link.ReadProof(body("challenge", 5))
	check(challenge, someChallenge, err)
	answer, err := link.ReadProof(body("proof", 6))
	check(answer, someProof, err)
	got, taken, err := link.Split(golden.Bytes(t, "v1/frames", nil), 1<<20)
	check(got, someFrames, err)
	check(taken, len(frames), nil)
	if _, err := link.Feed(frames[:8+8+8+8+8+5]); err != nil {
		t.Error("the link's own frames are not understood:", err)
	}
	if _, err := link.Feed(golden.Bytes(t, "v1/counts", nil)[:8+24]); err != nil {
		t.Error("counts are not understood:", err)
	}
}

// TestOwnFrames: what the link says by itself reads back.
func TestOwnFrames(t *testing.T) {
	frames, _, err := link.Split(link.Owed(time.Hour), 1<<20)
	if err != nil || len(frames) != 6 {
		t.Fatal(frames, err)
	}
	want := []link.Frame{
		{Kind: 3, Payload: "\x00\xe8\x03\x00\x00"},
		{Kind: 3, Payload: "\x02\x00\x00\x10\x00"},
		{Kind: 2, Payload: "\x01\x02\x03\x04\x05\x06\x07\x08"},
		{Kind: 1, Payload: frames[3].Payload},
		{Kind: 6, Payload: strings.Repeat("\x00", 24)},
		{Kind: 5},
	}
	if diff := cmp.Diff(want, frames); diff != "" || len(frames[3].Payload) != 8 {
		t.Error(diff)
	}
}

// TestUnknownFields of later versions are skipped, wherever they stand.
func TestUnknownFields(t *testing.T) {
	later := someHello
	later.UnknownField = true
	h, err := link.ReadHello(later.Append(nil))
	if diff := cmp.Diff(someHello, h); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestProtocol(t *testing.T) {
	for _, c := range []struct{ ownMin, ownMax, min, max, want uint64 }{
		{1, 1, 1, 1, 1},
		{1, 3, 2, 5, 3},
		{2, 5, 1, 3, 3},
		{1, 2, 3, 4, 0},
		{3, 4, 1, 2, 0},
		{1, 1, 0, 0, 0},
		{1, 1, 9, 3, 0},
	} {
		v, err := link.Protocol(c.ownMin, c.ownMax, c.min, c.max)
		if v != c.want || (err == nil) != (c.want != 0) || err != nil && !errors.Is(err, link.CodeProtocol) {
			t.Errorf("%+v: %d, %v", c, v, err)
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add(someHello.Append(nil))
	f.Add([]byte{8, 3, 3, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := link.ReadHello(b)
		if err != nil {
			if !errors.Is(err, link.ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		again, err := link.ReadHello(h.Append(nil))
		if diff := cmp.Diff(h, again); diff != "" || err != nil {
			t.Error(err, diff)
		}
	})
}

func FuzzRejection(f *testing.F) {
	f.Add(link.NewRejection(link.CodeDuplicate, "there is one", 99).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, session, err := link.ReadRejection(b)
		if err != nil {
			return
		}
		again, s, err := link.ReadRejection(link.NewRejection(r.Code, r.Text, session).Append(nil))
		if err != nil || again.Text != r.Text || again.Code != r.Code || s != session {
			t.Error(r, again, err)
		}
		_ = r.Error()
	})
}

func FuzzBulkHello(f *testing.F) {
	f.Add(someBulk.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := link.ReadBulkHello(b)
		if err != nil {
			return
		}
		if again, err := link.ReadBulkHello(h.Append(nil)); err != nil || again != h {
			t.Error(h, again, err)
		}
	})
}

func FuzzConfirm(f *testing.F) {
	f.Add(link.AppendConfirm(nil, 12))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := link.ReadConfirm(b); err == nil {
			if again, err := link.ReadConfirm(link.AppendConfirm(nil, n)); err != nil || again != n {
				t.Error(n, again, err)
			}
		}
	})
}

func FuzzMessage(f *testing.F) {
	var b bytes.Buffer
	link.WriteMessage(&b, 1, someHello.Append(nil))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		kind, body, err := link.ReadMessage(r)
		if err != nil {
			return
		}
		var w bytes.Buffer
		link.WriteMessage(&w, kind, body)
		if read := b[:len(b)-r.Len()]; !bytes.Equal(w.Bytes(), read) {
			t.Errorf("%q reads as %q", read, w.Bytes())
		}
	})
}

// FuzzFrames: whatever comes, a session takes whole frames or ends with a reason.
func FuzzFrames(f *testing.F) {
	var all []byte
	for _, s := range someFrames {
		all = s.Append(all)
	}
	f.Add(all)
	f.Add(link.Frame{Kind: wire.FirstKind, Class: wire.Requests, Payload: "sent back"}.Append(nil))
	f.Add([]byte{255, 255, 255, 255, 40, 2, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, taken, err := link.Split(b, 1<<20)
		if err != nil && !errors.Is(err, link.ErrCorrupt) {
			t.Error(err)
		}
		var again []byte
		for _, s := range frames {
			again = s.Append(again)
		}
		if !bytes.Equal(again, b[:taken]) {
			t.Errorf("%q reads as %q", b[:taken], again)
		}
		if _, err := link.Feed(b); err != nil && !errors.Is(err, link.ErrCorrupt) && !errors.Is(err, link.ErrLeft) {
			t.Error(err)
		}
	})
}

func FuzzName(f *testing.F) {
	f.Add("raysys://test/a?role=worker")
	f.Fuzz(func(t *testing.T, s string) {
		name, err := link.NameOf(certificateWith(s))
		if err == nil && (name.Cluster == "" || name.Node == "" || !strings.HasPrefix(strings.ToLower(s), "raysys:")) {
			t.Errorf("%q is %+v", s, name)
		}
	})
}

func certificateWith(uri string) *x509.Certificate {
	u, err := url.Parse(uri)
	if err != nil {
		return nil
	}
	return &x509.Certificate{URIs: []*url.URL{u}}
}
