package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	zapobserver "go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/certs"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// paged starts a program without a cluster that serves its page, and returns the URL.
func paged(t *testing.T, page system.PageConfig) (*system.Node, string) {
	t.Helper()
	table := raysys.NewTable()
	work := tasks.DefineIn(table, "page.fails", func(_ context.Context, n int) (int, error) { return 0, errors.New("no such row") })
	kind := grains.DefineIn[struct{}](table, "page.kind")
	touch := grains.Method0(kind, "touch", func(*struct{}, context.Context) (int, error) { return 0, nil })
	core, logs := zapobserver.New(zap.InfoLevel)
	n, err := system.New(system.Config{Table: table, HTTP: "127.0.0.1:0", Page: page, Logger: zap.New(core), Name: "alone"})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(context.Background()) })
	ctx := n.Context(t.Context())
	if _, err := work.Go(ctx, 1).Get(ctx); err == nil {
		t.Fatal("it does not fail")
	}
	if _, err := touch.Call(ctx, kind.Get("a/b")).Get(ctx); err != nil {
		t.Fatal(err)
	}
	for _, e := range logs.All() {
		if url, ok := strings.CutPrefix(e.Message, "page: "); ok {
			return n, url
		}
	}
	t.Fatalf("the program does not say where its page is: %v", logs.All())
	return nil, ""
}

// noCluster is one that no command may ask.
func noCluster(t *testing.T) cluster {
	return cluster{connect: func(context.Context, client.Where) (client.Cluster, error) {
		t.Error("the cluster is asked")
		return nil, errors.New("there is none")
	}}
}

// TestURL: the commands that read ask the page of a program, without a cluster, and their errors are those that they have there.
func TestURL(t *testing.T) {
	_, url := paged(t, system.PageConfig{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String()
	l.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) }))
	defer empty.Close()
	moved := httptest.NewServer(http.RedirectHandler(url, http.StatusFound))
	defer moved.Close()
	for _, c := range []struct {
		args string
		url  string
		code int
		says string
	}{
		{args: "status", says: "\nalone "},
		{args: "status -o json", says: `"shards":[]}` + "\n"},
		{args: "list functions", says: "page.fails       task  1     -       1 "},
		{args: "list failures", says: "no such row"},
		{args: "list tasks --state running --node alone --detached --limit 3", says: "total: 0 tasks\n"},
		{args: "list grains --kind page.kind --key a", says: "page.kind/a/b  alone"},
		{args: "list objects --limit 0", says: "total: 0 objects"},
		{args: "list groups", says: "total: 0 placement groups"},
		{args: "list streams", says: "total: 0 subscriptions"},
		{args: "list waits", says: "total: 0 tasks and turns"},
		{args: "get page.kind/a/b", says: "page.kind/a/b on alone: 0 messages in the mailbox"},
		{args: "logs", says: "alone"},
		{args: "timeline --for 100ms -", says: "0 tasks and calls of 100ms: https://ui.perfetto.dev opens the file"},
		{args: "timeline --for 100ms -", says: `"node alone":"all 0 tasks and calls"`},
		{args: "timeline --for 1h -", code: 2, says: "a timeline of 1h0m0s: give 100ms to 1m0s"},
		{args: "timeline --function nothing -", code: 5, says: "no node has a function nothing: there are page.fails, page.kind.touch"},
		{args: "timeline --for 100ms no/such/folder/file", code: 1, says: "no such file or directory"},
		{args: "timeline", code: 2, says: "the name of the file"},
		{args: "get nothing", code: 5, says: "error: not found: no task or value has an id"},
		{args: "list tasks --function nothing", code: 5, says: "no node has a function nothing: there are page.fails"},
		{args: "list tasks --state asleep", code: 2, says: `tasks are in no state "asleep": there are waiting`},
		{args: "list tasks --node z", code: 5, says: "no such node: raysys status lists the nodes"},
		{args: "status", url: nobody, code: 3, says: "cluster unreachable: Get"},
		{args: "logs -f", url: nobody, code: 3, says: "cluster unreachable: Get"},
		{args: "status", url: other.URL, code: 1, says: "404 Not Found: is it the page of a node?"},
		{args: "status", url: empty.URL, code: 1, says: "/api/ is not the page of a node: another server answers there"},
		{args: "logs -f", url: empty.URL, code: 1, says: "/api/ is not the page of a node: another server answers there"},
		{args: "status", url: moved.URL, code: 1, says: "302 Found: is it the page of a node?"},
		{args: "status", url: "127.0.0.1:8265", code: 2, says: "give the URL of a node's page, such as http://127.0.0.1:8265/"},
		{args: "status", url: "http://me:secret@127.0.0.1:8265", code: 2, says: `--url "http://...@127.0.0.1:8265": give the URL of a node's page`},
		{args: "status", url: "http://me:se cret@127.0.0.1:8265", code: 2, says: "without a user, a password or a query"},
		{args: "status", url: "me:secret@127.0.0.1:8265", code: 2, says: "without a user, a password or a query"},
		{args: "status", url: "http://127.0.0.1:8265/?token=secret", code: 2, says: "without a user, a password or a query"},
		{args: "drain a", code: 2, says: "unknown flag: --url"},
		{args: "cancel a", code: 2, says: "unknown flag: --url"},
	} {
		at := url
		if c.url != "" {
			at = c.url
		}
		out, talk, code := ask(t, noCluster(t), append(strings.Fields(c.args), "--url", at)...)
		if all := out + talk; code != c.code || !strings.Contains(all, c.says) || strings.Contains(all, "cret") {
			t.Errorf("%s --url %s: %d %s\nwant %d %s", c.args, at, code, all, c.code, c.says)
		}
	}
}

// TestNoPasswords: neither errors, nor settings, nor help have a password that was given with an address, where none belongs.
func TestNoPasswords(t *testing.T) {
	for _, variable := range []string{"", "RAYSYS_CONSUL", "CONSUL_HTTP_ADDR", "RAYSYS_URL"} {
		for _, at := range []string{"http://me:secret@127.0.0.1:1", "me:secret@127.0.0.1:1", "http://me:se,cret@127.0.0.1:1"} {
			t.Setenv("RAYSYS_CONSUL", "")
			t.Setenv("CONSUL_HTTP_ADDR", "")
			t.Setenv("RAYSYS_URL", "")
			lines := []string{"status", "status --print-config", "status --print-config -o json", "status --help", "node --app x --name n", "node --print-config"}
			if variable != "RAYSYS_URL" { // which it does not take
				lines = append(lines, "doctor")
			}
			if variable == "" {
				for i := range lines {
					lines[i] += " --consul " + at
				}
				lines = append(lines, "list tasks --url "+at, "list tasks --print-config --url "+at, "logs -f --url "+at)
			} else {
				t.Setenv(variable, at)
			}
			for _, line := range lines {
				out, talk, _ := ask(t, noCluster(t), strings.Fields(line)...)
				if all := out + talk; strings.Contains(all, "secret") || strings.Contains(all, "cret@") || all == "" {
					t.Errorf("%s=%s %s: %s", variable, at, line, all)
				}
			}
		}
	}
}

// TestURLFollow: lines come until the command is interrupted.
func TestURLFollow(t *testing.T) {
	one := `{"node":"a","time":"2026-01-02T03:04:05Z","level":"info","text":"one of many"}` + "\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/api/logs?driver=d&follow=true&function=f&lines=7&node=a" {
			t.Error(r.URL)
		}
		w.Header().Set("Raysys-Asked", "1")
		w.Write([]byte(one))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	out := &firstLine{seen: cancel}
	var talk bytes.Buffer
	code := runOn(ctx, noCluster(t), strings.Fields("logs -f --node a --driver d --function f -n 7 --url "+s.URL), strings.NewReader(""), out, &talk)
	if code != 0 || !strings.Contains(out.text, "one of many") || talk.Len() > 0 {
		t.Errorf("%d %q %q", code, out.text, talk.String())
	}
}

type firstLine struct {
	mu   sync.Mutex
	text string
	seen func()
}

func (f *firstLine) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text += string(b)
	f.seen()
	return len(b), nil
}

// TestURLToken: a command takes the token from a file, and believes who has the certificate of --tls-ca. It sends the token to no one else.
func TestURLToken(t *testing.T) {
	dir := t.TempDir()
	authority, err := certs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.IssueLocal("page")
	if err != nil {
		t.Fatal(err)
	}
	ca := authority.CA
	token, wrong := filepath.Join(dir, "token"), filepath.Join(dir, "wrong")
	for file, text := range map[string]string{token: "0123456789abcdef\n", wrong: "0123456789abcdeF\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, url := paged(t, system.PageConfig{TokenFile: token, Cert: cert, Key: key})
	if !strings.HasPrefix(url, "https://") {
		t.Fatal(url)
	}
	for _, c := range []struct {
		token, args string
		code        int
		says        string
	}{
		{token, "--tls-ca " + ca + " --url " + url, 0, "\nalone "},
		{"", "--tls-ca " + ca + " --url " + url, 1, "a token is needed"},
		{wrong, "--tls-ca " + ca + " --url " + url, 1, "a token is needed"},
		{dir + "/none", "--tls-ca " + ca + " --url " + url, 2, "RAYSYS_HTTP_TOKEN_FILE: open "},
		{token, "--url " + url, 1, "certificate"},
		{token, "--tls-ca " + dir + "/none --url " + url, 2, "--tls-ca: open "},
		{token, "--tls-ca " + token + " --url " + url, 2, "there is no certificate in it"},
		{token, "--url http://192.0.2.1:8265", 2, "give an https URL, or --insecure"},
	} {
		t.Setenv("RAYSYS_HTTP_TOKEN_FILE", c.token)
		out, talk, code := ask(t, noCluster(t), strings.Fields("status "+c.args)...)
		if all := out + talk; code != c.code || !strings.Contains(all, c.says) || strings.Contains(all, "0123456789") {
			t.Errorf("token %s, %s: %d %s\nwant %d %s", c.token, c.args, code, all, c.code, c.says)
		}
	}
}
