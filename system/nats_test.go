package system_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/certs"
	"github.com/raysys/raysys/internal/natskey"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestNATSOfCluster: the node reads the key of the store anew each time, and its own Config wins.
func TestNATSOfCluster(t *testing.T) {
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	own := system.NATS{Creds: "user.creds", CA: "ca.pem"}
	n := newNode(t, system.Config{Table: table, NATS: own, Cluster: &system.ClusterConfig{Store: kv, Role: system.Worker}})
	if got, err := n.NATS(t.Context()); !errors.Is(err, raysys.ErrClosed) {
		t.Errorf("before Start: %+v, %v", got, err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(t.Context()) })
	if got, err := n.NATS(t.Context()); err != nil || got != (system.NATS{}) {
		t.Errorf("without the key: %+v, %v", got, err)
	}
	want := own
	want.URL, want.Token = "nats://a:1,memory:", "secret"
	if err := natskey.Write(t.Context(), kv, natskey.Record{URL: want.URL, Token: want.Token}); err != nil {
		t.Fatal(err)
	}
	if got, err := n.NATS(t.Context()); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for value, says := range map[string]string{"nats://a:1": "read the key nats", `{"url":"a,"}`: "a URL is empty", `{"token":"x"}`: "a URL is empty"} {
		if _, err := kv.Txn(t.Context(), []store.Op{store.Set(natskey.Key, []byte(value))}); err != nil {
			t.Fatal(err)
		}
		if got, err := n.NATS(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the key is %s: %+v, %v", value, got, err)
		}
	}
	if err := natskey.Write(t.Context(), kv, natskey.Record{Token: "x"}); err == nil {
		t.Error("a record without a URL is written")
	}
}

// TestNATSOfConfig: a URL of the Config is taken as it is, with and without a cluster.
func TestNATSOfConfig(t *testing.T) {
	want := system.NATS{URL: "memory:", Token: "t"}
	if got, err := newNode(t, system.Config{Table: table, NATS: want}).NATS(t.Context()); err != nil || got != want {
		t.Errorf("alone: %+v, %v", got, err)
	}
	k := testkit.New(t, testkit.Nodes(1), testkit.Config(system.Config{NATS: want}))
	if got, err := k.Node().NATS(t.Context()); err != nil || got != want {
		t.Errorf("in a cluster: %+v, %v", got, err)
	}
	if got, err := newNode(t, system.Config{Table: table}).NATS(t.Context()); err != nil || got != (system.NATS{}) {
		t.Errorf("none: %+v, %v", got, err)
	}
	if _, err := system.New(system.Config{Table: table, NATS: system.NATS{URL: "nats://a:1, "}}); err == nil || !strings.Contains(err.Error(), "Config.NATS: a URL is empty") {
		t.Error(err)
	}
}

func TestNATSFromEnv(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const pem = `-----BEGIN CERTIFICATE-----
MIIBSzCB8qADAgECAgEBMAoGCCqGSM49BAMCMAsxCTAHBgNVBAMTADAeFw0yNjAx
-----END CERTIFICATE-----
`
	creds, odd, empty := file("user.creds", "-----BEGIN NATS USER JWT-----"), file("odd.pem", pem), file("empty", "")
	set := func(url, creds, ca string) (system.NATS, error) {
		t.Setenv("RAYSYS_NATS", url)
		t.Setenv("RAYSYS_NATS_CREDS", creds)
		t.Setenv("RAYSYS_NATS_CA", ca)
		cfg, err := system.FromEnv()
		return cfg.NATS, err
	}
	authority, err := certs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	ca := authority.CA
	want := system.NATS{URL: "tls://u:secret@a:4222,b", Creds: creds, CA: ca}
	if got, err := set(want.URL, creds, ca); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := set("", "", ""); err != nil || got != (system.NATS{}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []struct{ url, creds, ca, says string }{
		{"nats://u:secret@a,,b", "", "", "RAYSYS_NATS: a URL is empty"},
		{" ", "", "", "RAYSYS_NATS: a URL is empty"},
		{"a", filepath.Join(dir, "none"), "", `RAYSYS_NATS_CREDS="` + filepath.Join(dir, "none") + `": give a file with a user's credentials (no such file`},
		{"a", empty, "", "RAYSYS_NATS_CREDS="},
		{"a", dir, "", "RAYSYS_NATS_CREDS="},
		{"a", "", odd, "RAYSYS_NATS_CA="},
		{"a", "", creds, "RAYSYS_NATS_CA="},
	} {
		if _, err := set(c.url, c.creds, c.ca); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
