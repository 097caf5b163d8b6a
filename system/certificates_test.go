package system_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/certs"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/system"
)

const day = 24 * time.Hour

// authority signs the certificates of a cluster's nodes.
type authority struct {
	*certs.Authority
	t testing.TB
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a, err := certs.NewUntil(t.TempDir(), time.Now().Add(400*day))
	if err != nil {
		t.Fatal(err)
	}
	return &authority{a, t}
}

// issue returns the files of a certificate with a new key.
func (a *authority) issue(node string, valid time.Duration) system.TLSFiles {
	a.t.Helper()
	cert, key, err := a.Issue("next", time.Now().Add(-time.Hour), time.Now().Add(valid), "raysys://default/"+node)
	if err != nil {
		a.t.Fatal(err)
	}
	return system.TLSFiles{Cert: cert, Key: key, CA: a.CA}
}

// files are those that one node reads.
type files struct {
	t    testing.TB
	node string
	system.TLSFiles
}

func (a *authority) files(node string, valid time.Duration) *files {
	dir := a.t.TempDir()
	f := &files{a.t, node, system.TLSFiles{Cert: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca")}}
	f.certify(a, valid)
	f.trust(a)
	return f
}

// certify gives the node a certificate with a new key.
func (f *files) certify(a *authority, valid time.Duration) {
	f.t.Helper()
	next := a.issue(f.node, valid)
	f.copy(f.Cert, next.Cert)
	f.copy(f.Key, next.Key)
}

// trust has the node trust these authorities, and no other.
func (f *files) trust(all ...*authority) {
	f.t.Helper()
	var from []string
	for _, a := range all {
		from = append(from, a.CA)
	}
	f.copy(f.CA, from...)
}

func (f *files) copy(to string, from ...string) {
	f.t.Helper()
	var all bytes.Buffer
	for _, name := range from {
		data, err := os.ReadFile(name)
		if err != nil {
			f.t.Fatal(err)
		}
		all.Write(data)
	}
	if err := os.WriteFile(to, all.Bytes(), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *files) load() *link.TLS {
	f.t.Helper()
	t, err := link.LoadTLS(f.Cert, f.Key, f.CA)
	if err != nil {
		f.t.Fatal(err)
	}
	return t
}

// print is the fingerprint of the key in the file.
func (f *files) print() string { return link.KeyFingerprint(f.load().Credentials().Certificate()) }

// logged returns a node's settings with a log that a test reads.
func logged(f *files) (func(*system.Config), *observer.ObservedLogs) {
	core, lines := observer.New(zap.WarnLevel)
	return func(cfg *system.Config) { cfg.Cluster.TLS, cfg.Logger = f.TLSFiles, zap.New(core) }, lines
}

// texts returns the lines that begin so.
func texts(lines *observer.ObservedLogs, begin string) (found []string) {
	for _, e := range lines.All() {
		if strings.HasPrefix(e.Message, begin) {
			found = append(found, fmt.Sprint(e.Message, " ", e.ContextMap()))
		}
	}
	return found
}

// addressOf is where a node takes connections.
func addressOf(t testing.TB, n *system.Node, of string) string {
	t.Helper()
	st, err := n.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(st.Nodes, func(s inspect.NodeStatus) bool { return string(s.Name) == of })
	return st.Nodes[i].Address
}

// TestNewCertificates: certificates with new keys, and then those of a new CA, replace the old ones on one node after the
// other while calls run. No call fails, no session ends, and each node shows and verifies what its files hold.
func TestNewCertificates(t *testing.T) {
	old, next := newAuthority(t), newAuthority(t)
	f := newFleet(t)
	names := []string{"w1", "w2", "w3", "d"}
	var all []*files
	var nodes []*system.Node
	var logs []*observer.ObservedLogs
	var driver context.Context
	for _, name := range names {
		role := system.Worker
		if name == "d" {
			role = system.Driver
		}
		own := old.files(name, 200*day)
		with, lines := logged(own)
		n, ctx := f.join(raysys.NodeID(name), role, with)
		all, nodes, logs, driver = append(all, own), append(nodes, n), append(logs, lines), ctx
	}
	addresses := map[string]string{}
	for _, name := range names {
		addresses[name] = addressOf(t, nodes[3], name)
	}
	stop := make(chan struct{})
	var calling sync.WaitGroup
	var made atomic.Int64
	for i := range 4 {
		calling.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				g := accounts.Get(fmt.Sprint("certificates", i, n%8))
				if _, err := deposit.Call(driver, g, 1).Get(driver); err != nil {
					t.Error("a call failed: ", err)
					return
				}
				if _, err := where.Go(driver, n).Get(driver); err != nil {
					t.Error("a task failed: ", err)
					return
				}
				made.Add(1)
			}
		})
	}
	// step has one node read its new files while calls run, and a look of all others.
	step := func(what string, change func(*files)) {
		for i, n := range nodes {
			change(all[i])
			system.LookAtCertificates(n)
			for _, o := range nodes {
				system.LookAtCertificates(o)
			}
			for j := range all {
				chain, err := all[i].load().Ask(t.Context(), addresses[names[j]], "default", raysys.NodeID(names[j]))
				if err != nil {
					t.Fatalf("%s of %s: %s refuses %s, or the reverse: %v", what, names[i], names[j], names[i], err)
				}
				if link.KeyFingerprint(chain[0]) != all[j].print() {
					t.Fatalf("%s of %s: %s does not show the certificate in its file", what, names[i], names[j])
				}
			}
			at := made.Load()
			eventually(t, "calls go on", func() bool { return made.Load() > at+3 || t.Failed() })
		}
	}
	step("a new key", func(f *files) { f.certify(old, 200*day) })
	step("another CA beside the first", func(f *files) { f.trust(old, next) })
	step("a certificate of the other CA", func(f *files) { f.certify(next, 200*day) })
	step("the first CA taken out", func(f *files) { f.trust(next) })
	// A node that joins now has sessions with all others by their new keys.
	with, lines := logged(next.files("late", 200*day))
	late, _ := f.join("late", system.Worker, with)
	logs = append(logs, lines)
	for _, name := range names {
		eventually(t, "late is connected to "+name, func() bool { return system.ConnectedTo(late, raysys.NodeID(name)) })
	}
	close(stop)
	calling.Wait()
	t.Logf("%d calls and tasks", 2*made.Load())
	for _, lines := range logs {
		for _, begin := range []string{"session ended", "new TLS files are not used", "a peer"} {
			if found := texts(lines, begin); found != nil {
				t.Error(found)
			}
		}
	}
}

// TestCATakenOut: the sessions of a node end when its CA is taken out of the files of the others, and it gets no new ones.
func TestCATakenOut(t *testing.T) {
	old, next := newAuthority(t), newAuthority(t)
	f := newFleet(t)
	all := map[string]*files{"w1": next.files("w1", 200*day), "w2": next.files("w2", 200*day), "left": old.files("left", 200*day)}
	nodes, logs := map[string]*system.Node{}, map[string]*observer.ObservedLogs{}
	for _, name := range []string{"w1", "w2", "left"} {
		all[name].trust(next, old)
		var with func(*system.Config)
		with, logs[name] = logged(all[name])
		nodes[name], _ = f.join(raysys.NodeID(name), system.Worker, with)
	}
	for _, name := range []string{"w1", "w2"} {
		eventually(t, name+" is connected to left", func() bool { return system.ConnectedTo(nodes[name], "left") })
		system.LookAtCertificates(nodes[name])
		if !system.ConnectedTo(nodes[name], "left") {
			t.Error("the session ended while the file had its CA")
		}
	}
	for _, name := range []string{"w1", "w2"} {
		all[name].trust(next)
		system.LookAtCertificates(nodes[name])
		eventually(t, name+" has no session with left", func() bool { return !system.ConnectedTo(nodes[name], "left") })
		if found := texts(logs[name], "session ended: the CA file no longer verifies"); len(found) != 1 {
			t.Errorf("%s says %v", name, found)
		}
	}
	if !system.ConnectedTo(nodes["w1"], "w2") || system.ConnectedTo(nodes["left"], "w1") && system.ConnectedTo(nodes["w1"], "left") {
		t.Error("another session ended, or the node came back")
	}
	if _, err := all["w1"].load().Ask(t.Context(), addressOf(t, nodes["w1"], "left"), "default", "left"); err == nil {
		t.Error("its certificate is verified")
	}
	eventually(t, "the node hears why", func() bool { return texts(logs["left"], "a peer refuses this node's certificate") != nil })
}

// TestKeyOfAnOlderView: a node whose view does not have another's new key asks the store before it refuses the key, and
// refuses one that the store does not have.
func TestKeyOfAnOlderView(t *testing.T) {
	ca := newAuthority(t)
	f := newFleet(t)
	one, two := ca.files("w1", day), ca.files("w2", day)
	with, _ := logged(one)
	var kv *flaky.KV
	w1, _ := f.join("w1", system.Worker, with, func(cfg *system.Config) { kv = cfg.Cluster.Store.(*flaky.KV) })
	with, lines := logged(two)
	w2, _ := f.join("w2", system.Worker, with)
	eventually(t, "w1 is connected to w2", func() bool { return system.ConnectedTo(w1, "w2") })
	var refused atomic.Int64
	kv.Hook(func(c flaky.Call) flaky.Fault { // w1 sees no change of a record any more
		if c.Verb == "Watch" || c.Verb == "List" {
			if strings.HasPrefix(c.Key, "nodes") {
				refused.Add(1)
			}
			return flaky.Refuse
		}
		return flaky.None
	})
	eventually(t, "the watch under way ends", func() bool {
		kv.Down(true)
		kv.Down(false)
		return refused.Load() > 0
	})
	before := two.print()
	impostor := ca.files("w2", day)
	two.certify(ca, day)
	system.LookAtCertificates(w2)
	if found := texts(lines, "new TLS files"); found != nil {
		t.Fatal(found)
	}
	if system.KeyInView(w1, "w2") != before {
		t.Fatal("the view of w1 has the new key")
	}
	_, incarnation := system.KeyOf(w2)
	connect := func(f *files) error {
		l, err := link.New(link.Config{
			Self:      func() link.Identity { return link.Identity{Cluster: "default", Node: "w2", Incarnation: incarnation} },
			Transport: f.load(), Listen: "127.0.0.1:0",
		})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = l.Connect(t.Context(), "w1", system.AddressOf(w1))
		return err
	}
	if err := connect(impostor); !errors.Is(err, link.CodeNotAllowed) || !strings.Contains(err.Error(), "another key") {
		t.Errorf("a key that the store does not have: %v", err)
	}
	if err := connect(two); errors.Is(err, link.CodeNotAllowed) {
		t.Errorf("the key of the store: %v", err)
	}
}

// TestExpiredPeer: it is a warn line of the node that refuses it.
func TestExpiredPeer(t *testing.T) {
	ca := newAuthority(t)
	f := newFleet(t)
	with, lines := logged(ca.files("w1", day))
	w1, _ := f.join("w1", system.Worker, with)
	expired := ca.issue("w2", -time.Minute)
	pair, err := tls.LoadX509KeyPair(expired.Cert, expired.Key)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		conn, err := tls.Dial("tcp", system.AddressOf(w1), &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "expired certificate") {
			t.Errorf("it is not refused: %v", err)
		}
	}
	eventually(t, "a warn line", func() bool { return texts(lines, "a peer's certificate has expired") != nil })
	if found := texts(lines, "a peer's certificate has expired"); len(found) != 1 || !strings.Contains(found[0], "node:w2") {
		t.Errorf("want one line a minute, with the node: %v", found)
	}
}

// TestExpiryIsAnnounced: one line 30, 7 and 1 days before, and one when it has expired; none after it was replaced.
func TestExpiryIsAnnounced(t *testing.T) {
	for name, c := range map[string]struct {
		valid, replaced time.Duration
		want            []string // when, since the start
	}{
		"never replaced":    {40 * day, 0, []string{"10 days", "33 days", "39 days", "40 days"}},
		"replaced":          {40 * day, 34 * day, []string{"10 days", "33 days"}},
		"late at the start": {5 * day, 0, []string{"0 days", "4 days", "5 days"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ca := newAuthority(t)
				own := ca.files("a", c.valid)
				core, lines := observer.New(zap.WarnLevel)
				start := time.Now()
				system.LookAtFiles(own.load(), own.TLSFiles, zap.New(core), func(string) error { return nil }, func(time.Duration) bool {
					if c.replaced != 0 && time.Since(start) == c.replaced {
						own.certify(ca, 300*day)
					}
					<-time.After(6 * time.Hour)
					return time.Since(start) < 45*day
				})
				var got []string
				for _, e := range lines.All() {
					got = append(got, fmt.Sprintf("%.0f days", e.Time.Sub(start).Hours()/24))
					if !strings.Contains(e.Message, "certificate") || e.ContextMap()["file"] != own.Cert || e.ContextMap()["fix"] == "" {
						t.Errorf("the line does not say what and where: %v %v", e.Message, e.ContextMap())
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("lines after %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestLooks: files are looked at each minute. A new key is shown only when the record has it, which is tried again soon.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		own := ca.files("a", 300*day)
		transport := own.load()
		shown := func() string { return link.KeyFingerprint(transport.Credentials().Certificate()) }
		before, fails := shown(), 2
		var recorded, said []string
		core, lines := observer.New(zap.WarnLevel)
		start := time.Now()
		system.LookAtFiles(transport, own.TLSFiles, zap.New(core), func(print string) error {
			if shown() != before {
				t.Error("a new key is shown before the record has it")
			}
			if fails > 0 {
				fails--
				return errors.New("the store is away")
			}
			recorded = append(recorded, print)
			return nil
		}, func(d time.Duration) bool {
			<-time.After(d)
			said = append(said, fmt.Sprint(time.Since(start)))
			switch len(said) {
			case 2:
				own.certify(ca, 300*day)
			case 5:
				if shown() != own.print() || !slices.Equal(recorded, []string{own.print()}) {
					t.Errorf("the node shows %s, the record had %v, the file has %s", shown(), recorded, own.print())
				}
				before = shown()
				own.copy(own.Cert, own.Key) // half of a change
			}
			return len(said) < 8
		})
		if want := []string{"1m0s", "2m0s", "2m1s", "2m2s", "3m2s", "4m2s", "5m2s", "6m2s"}; !slices.Equal(said, want) {
			t.Errorf("looks at %v, want %v", said, want)
		}
		if found := texts(lines, "new TLS files are not used"); len(found) != 2 {
			t.Errorf("each error has one line: %v", found)
		}
		if shown() != before {
			t.Error("half of a change is used")
		}
	})
}
