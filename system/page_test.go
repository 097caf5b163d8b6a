package system_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/listed"
	"github.com/raysys/raysys/system"
)

// tome is a grain with a large State.
type tome struct{ Text grains.State[string] }

func (s *tome) Write(ctx context.Context, n int) (int, error) {
	s.Text.Value = strings.Repeat("é", n/2)
	return 0, s.Text.Write(ctx)
}

var (
	tomeKind  = grains.DefineIn[tome](table, "tome")
	tomeWrite = grains.Method(tomeKind, "write", (*tome).Write)
)

// TestPage: any node answers for the whole cluster, with the JSON of what its methods return, whatever is in a key; and twenty readers cost
// the nodes what one does.
func TestPage(t *testing.T) {
	f := newFleet(t)
	serve, at := served(t)
	disk := func(c *system.Config) { c.Objects.Spill, c.Objects.Disk = t.TempDir(), 1<<30 }
	f.join("w1", system.Worker, disk)
	f.join("w2", system.Worker, disk)
	n, ctx := f.join("d", system.Driver, serve)
	api := "http://" + at() + "/api/"
	for _, node := range []string{"w1", "w2"} {
		if _, err := where.With(raysys.OnNode(raysys.NodeID(node))).Go(ctx, 1).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	const key = `<script>alert("%2F/..//é%")</script>?#&`
	if _, err := add.Call(ctx, counters.Get(key), 1).Get(ctx); err != nil {
		t.Fatal(err)
	}
	read := func(path string, v any) {
		t.Helper()
		code, body := fetch(t, api+path, "")
		if err := json.Unmarshal([]byte(body), v); code != http.StatusOK || err != nil || strings.ContainsAny(body, "<>&") {
			t.Errorf("%s: %d %v %.300s", path, code, err, body)
		}
	}
	var status inspect.Status
	read("status", &status)
	if len(status.Nodes) != 3 || len(status.Shards) != 32 || status.Nodes[1].PID == 0 {
		t.Errorf("%+v", status)
	}
	var functions inspect.Functions
	read("functions?limit=1000", &functions)
	var list inspect.Grains
	read("grains?key="+url.QueryEscape(key), &list)
	if list.Count != 1 || list.Grains[0].Key != key {
		t.Errorf("%+v", list)
	}
	var found inspect.Found
	for _, path := range []string{url.PathEscape("counter/" + key), "counter/" + url.PathEscape(key)} {
		if read("get/"+path, &found); found.Count != 1 || found.Things[0].ID != "counter/"+key {
			t.Errorf("%s: %+v", path, found)
		}
	}
	if code, body := fetch(t, api+"tasks?function="+strings.Repeat("f", 10<<10), ""); code != http.StatusNotFound || !strings.Contains(body, "no node has a function fff") {
		t.Errorf("a name of 10 KB: %d %.100s", code, body)
	}

	// 64 MiB of State are shown as far as 64 KiB go.
	if _, err := tomeWrite.Call(ctx, tomeKind.Get("long"), 64<<20-1024).Get(ctx); err != nil {
		t.Fatal(err)
	}
	code, body := fetch(t, api+"get/tome/long", "")
	if err := json.Unmarshal([]byte(body), &found); err != nil || code != http.StatusOK || len(body) > 1<<20 || found.Count != 1 || len(found.Things[0].States) != 1 || found.Things[0].States[0].Bytes < 64<<20-1024 && found.Things[0].States[0].Object == "" {
		t.Errorf("a State of 64 MiB: %d, %d bytes, %v %.500s", code, len(body), err, body)
	}

	// The nodes count what they are asked.
	var asked atomic.Int64
	listed.Register("streams", func(any) any { asked.Add(1); return []inspect.StreamPart{} })
	defer listed.Register("streams", func(any) any { return nil })
	began := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 50 {
				if code, body := fetch(t, api+"streams", ""); code != http.StatusOK {
					t.Errorf("%d %s", code, body)
					return
				}
			}
		})
	}
	all.Wait()
	if most := 3 * (int64(time.Since(began)/time.Second) + 2); asked.Load() > most || asked.Load() < 3 {
		t.Errorf("the nodes were asked %d times by 1,000 requests in %v; want %d at most", asked.Load(), time.Since(began), most)
	}
	if err := n.Close(within(t, 30*time.Second)); err != nil {
		t.Error(err)
	}
}

// TestPageToken: beyond loopback a node draws a token, says it once, on standard error and in no log, and asks for it.
func TestPageToken(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	said := func(part string) (list []string) {
		for _, e := range logs.All() {
			if strings.Contains(e.Message, part) {
				list = append(list, e.Message)
			}
		}
		return list
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = write
	t.Cleanup(func() { os.Stderr = stderr })
	t.Setenv("RAYSYS_LOG_MARK", "M") // below raysys node
	for range 2 {                    // as one that joins again
		n, err := system.New(system.Config{Table: table, HTTP: "0.0.0.0:0", Page: system.PageConfig{Insecure: true}, Logger: zap.New(core)})
		if err == nil {
			err = n.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close(context.Background())
	}
	os.Stderr = stderr
	write.Close()
	printed, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	pages := said("page: http://")
	before, token, ok := strings.Cut(strings.TrimSuffix(string(printed), "\n"), " asks for the token ")
	if len(pages) != 2 || !ok || before != "\x1e\x1eraysys M !"+pages[0] || strings.Contains(token, "\n") {
		t.Fatalf("%q, %q", pages, printed)
	}
	if len(said(token)) > 0 {
		t.Errorf("the log has the token: %q", said(token))
	}
	for _, page := range pages {
		u, err := url.Parse(strings.Fields(page)[1])
		if err != nil {
			t.Fatal(err)
		}
		for give, want := range map[string]int{token: http.StatusOK, token + "x": http.StatusUnauthorized, "": http.StatusUnauthorized} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%s/api/status", u.Port()), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+give)
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(&bytes.Buffer{}, a.Body)
			if a.Body.Close(); a.StatusCode != want {
				t.Errorf("the token %q: %s, want %d", give, a.Status, want)
			}
		}
	}

	n, err := system.New(system.Config{Table: table, HTTP: "0.0.0.0:0", Logger: zap.New(core)})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	if off := said("no page is served"); len(off) != 1 {
		t.Errorf("without TLS: %q", off)
	}
	if _, err := system.New(system.Config{Table: table, Page: system.PageConfig{Cert: "c"}}); err == nil || !strings.Contains(err.Error(), "RAYSYS_HTTP_TLS_KEY): give both") {
		t.Errorf("a certificate without its key: %v", err)
	}
}
