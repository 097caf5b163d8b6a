package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/system"
)

var (
	pictures = flag.String("pictures", "", "folder for pictures of the pages")
	long     = flag.Bool("long", false, "look at the heap of a tab for ten minutes")
)

// tab is a tab of the browser, and what it should not have done.
type tab struct {
	*testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	bad      []string
	requests int
}

// chromium is the browser; without one the test is skipped.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium here: apt-get install chromium")
	return ""
}

func open(t *testing.T, url string) *tab {
	t.Helper()
	program := chromium(t)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WindowSize(1400, 900),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	alloc, end := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(end)
	b := &tab{T: t, ctx: ctx, url: url}
	for _, on := range []func() error{
		func() error { return chromedp.Do(ctx) }, // opens the tab
		func() error { _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); return err },
		func() error { _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); return err },
		func() error { _, err := chromedp.Call(ctx, page.Enable, page.EnableParams{}); return err },
		func() error { return chromedp.Listen(ctx, b.event) },
	} {
		if err := on(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.bad {
			t.Error(s)
		}
	})
	return b
}

func (b *tab) event(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		b.bad = append(b.bad, fmt.Sprintf("an exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.bad = append(b.bad, fmt.Sprintf("the console has %s: %s", e.Type, e.Args[0].Value))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "status of 401") {
			b.bad = append(b.bad, "the log has an error: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		b.bad = append(b.bad, "a key ran as a script: "+e.Message)
	case *network.EventRequestWillBeSent:
		b.requests++
		if !strings.HasPrefix(e.Request.URL, b.url+"/") {
			b.bad = append(b.bad, "a request to another host: "+e.Request.URL)
		}
	}
}

func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// eval is what an expression comes to in the tab.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

// to goes to a page.
func (b *tab) to(hash string) {
	b.Helper()
	b.run(chromedp.Navigate(b.url + "/#/" + hash))
}

// hash is where the tab is.
func (b *tab) hash() string {
	b.Helper()
	at := eval[string](b, `location.href`)
	_, h, _ := strings.Cut(at, "#/")
	return h
}

func (b *tab) text(of string) string {
	b.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", of))
}

// shows waits until the page has all these texts.
func (b *tab) shows(texts ...string) string {
	b.Helper()
	var all string
	limit := time.Now().Add(20 * time.Second)
	for time.Now().Before(limit) {
		all = b.text("body")
		missing := false
		for _, s := range texts {
			missing = missing || !strings.Contains(all, s)
		}
		if !missing {
			return all
		}
		<-time.After(50 * time.Millisecond)
	}
	b.Fatalf("%s does not show %q but\n%s", b.hash(), texts, all)
	return ""
}

// row is the cells of the first row that has the text in its first cell.
func (b *tab) row(first string) []string {
	b.Helper()
	return eval[[]string](b, fmt.Sprintf(`[...([...document.querySelectorAll('tbody tr')].find(r => r.cells[0].innerText.trim() === %q)?.cells ?? [])].map(c => c.innerText.trim())`, first))
}

func (b *tab) rows() int {
	b.Helper()
	return eval[int](b, `document.querySelectorAll('tbody tr').length`)
}

// slash presses the key that goes to the filter, and types there. As in a browser of people, the key that a page takes for itself writes nothing.
func (b *tab) slash(text string) {
	b.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
		if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "/", Code: "Slash"}); err != nil {
			b.Fatal(err)
		}
	}
	b.run(chromedp.KeyEvent(text))
}

// choose sets a filter that is a choice.
func (b *tab) choose(label, value string) {
	b.Helper()
	eval[bool](b, fmt.Sprintf(`(() => { const s = [...document.querySelectorAll('label')].find(l => l.innerText.trim().startsWith(%q)).querySelector('select'); s.value = %q; s.dispatchEvent(new Event('change', { bubbles: true })); return true; })()`, label, value))
}

func (b *tab) click(text string) {
	b.Helper()
	quote := "'"
	if strings.Contains(text, quote) {
		quote = `"`
	}
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	click := chromedp.Click(chromedp.Search("//*[self::a or self::button][normalize-space(.)=" + quote + text + quote + "]"))
	err := chromedp.Do(ctx, click)
	for err != nil && strings.Contains(err.Error(), "Could not find node") { // the page has drawn it anew in between
		err = chromedp.Do(ctx, click)
	}
	if err != nil {
		b.Fatalf("click %s: %v", text, err)
	}
}

// page goes to a page by its link, and waits until the tab shows it.
func (b *tab) page(name string) {
	b.Helper()
	b.click(name)
	b.until(name+" is the page", func() bool { return b.text("header a.on") == name })
}

// until waits for what nothing announces.
func (b *tab) until(what string, holds func() bool) {
	b.Helper()
	limit := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(limit) {
			b.Fatalf("not: %s at %s: %s", what, b.hash(), b.text("main"))
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (b *tab) picture(name string) {
	b.Helper()
	if *pictures == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}

// commas is a number as the page shows it.
func commas(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// TestPages: each page shows what the commands have, its filters and links do what they say, and nothing that a program names is HTML.
func TestPages(t *testing.T) {
	c := start(t, system.PageConfig{})
	b := open(t, c.url)
	c.work(t)
	ctx := context.Background()

	b.to("overview")
	b.shows("w1", "w2", "w3", "driver", "1 kind of failure in the last minute", "no waiting tasks")
	status, err := c.w1.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range status.Nodes {
		row := b.row(string(n.Name))
		if len(row) != 12 || row[1] != "up" || row[2] != n.Role || row[3] != n.Build || row[10] != commas(n.Grains["account"]) {
			t.Errorf("node %s is shown as %q", n.Name, row)
		}
	}
	if *pictures != "" {
		end := c.busy()
		<-time.After(50 * time.Second) // for charts with something in them
		b.picture("overview")
		end()
	}

	functions, err := c.w1.Functions(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.page("Functions")
	b.shows("square", commas(int(functions.Functions[0].Runs)))
	if n := functions.Functions[0].Runs; n < manyTasks {
		t.Errorf("%d runs", n)
	}
	for _, f := range functions.Functions {
		// What the nodes count in groups comes a moment later.
		b.until(f.Name, func() bool { row := b.row(f.Name); return len(row) == 10 && row[2] == commas(int(f.Runs)) })
		if row := b.row(f.Name); len(row) != 10 || row[1] != f.Kind || row[2] != commas(int(f.Runs)) || row[4] != commas(int(f.Errors)) || row[7] != commas(f.Running) {
			t.Errorf("%+v is shown as %q", f, row)
		}
	}
	b.picture("functions")
	// The keyboard, a filter, an order, and a link.
	b.slash("pars")
	if b.shows("parse"); b.rows() != 1 || b.hash() != "functions?q=pars" {
		t.Errorf("a filter: %d rows at %s", b.rows(), b.hash())
	}
	b.run(chromedp.KeyEvent(kb.Escape))
	b.to("functions")
	b.shows("square")
	b.click("errors")
	if first := eval[string](b, `document.querySelector('tbody td').innerText`); first != "parse" || b.hash() != "functions?sort=-errors" {
		t.Errorf("by errors %q is first, at %s", first, b.hash())
	}
	b.click("parse")
	b.shows("Its failures", "in <table>", "raysys list tasks --function parse")
	if b.hash() != "functions?f=parse" {
		t.Errorf("a function is at %s", b.hash())
	}

	failures, err := c.w1.Failures(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.page("Failures")
	b.shows("in <table>")
	total := 0
	for _, f := range failures.Failures {
		total += int(f.Count)
	}
	if row := b.row("parse"); len(row) != 7 || row[2] != commas(total) || b.rows() != 1 {
		t.Errorf("%d failures are shown as %q", total, row)
	}
	b.run(chromedp.Click(chromedp.CSS("summary")))
	b.picture("failures")

	b.page("Tasks")
	b.shows("report", "load")
	b.choose("state", "running")
	b.shows("load")
	waitRows(b, 1)
	running, err := c.w1.Tasks(ctx, inspect.TaskQuery{State: inspect.TaskRunning})
	if err != nil || running.Count != 1 {
		t.Fatalf("%+v %v", running, err)
	}
	id := running.Tasks[0].ID
	if b.hash() != "tasks?state=running" || !strings.Contains(b.text("tbody"), id[:12]) {
		t.Errorf("running: %q at %s", b.text("tbody"), b.hash())
	}
	b.choose("node", "w1")
	b.shows("no tasks", "raysys stack w1")

	b.page("Waits")
	said := b.shows("report", "account/blocked.settle", "load")
	if !regexp.MustCompile(`(?s)report [0-9a-f]{12} on w1: blocked.*account/blocked\.settle [0-9a-f]{12} on w[123]: blocked.*load [0-9a-f]{12} on w2: running`).MatchString(said) {
		t.Errorf("the chain of waits: %s", said)
	}
	b.picture("waits")

	b.click(id[:12])
	b.shows("Who waits for it", "account/blocked.settle", "raysys cancel "+id)
	if b.hash() != "get/"+id {
		t.Errorf("a task is at %s", b.hash())
	}
	b.picture("get")
	b.slash("nightly/1" + kb.Enter)
	b.shows("job nightly/1", id, "submitted by")
	if b.hash() != "get/nightly%2F1" {
		t.Errorf("a name is at %s", b.hash())
	}

	b.page("Grains")
	b.shows("account", commas(manyGrains+2))
	b.click("account")
	b.shows("k00000", commas(manyGrains+2-500)+" more match: narrow them with the filter above")
	if b.hash() != "grains?kind=account" || b.rows() != 500 {
		t.Errorf("%d grains at %s", b.rows(), b.hash())
	}
	b.slash("1/<")
	waitRows(b, 1)
	b.shows("account/" + badKey)
	b.click("account/" + badKey)
	b.shows("State Money", `"Owner": "`+stateOwner+`"`, `"Amount": 7`)
	if b.hash() != "get/"+url.PathEscape("account/"+badKey) && !strings.Contains(b.hash(), "%252F") {
		t.Errorf("a grain is at %s", b.hash())
	}
	if n := eval[int](b, `document.querySelectorAll('main script, main img, main b').length`); n > 0 {
		t.Errorf("names are HTML: %s", b.text("main"))
	}
	// The URL is all there is: another tab shows the same.
	b.run(chromedp.Reload())
	b.shows("State Money", badKey)

	memory, err := c.w1.Memory(ctx, "", 500)
	if err != nil {
		t.Fatal(err)
	}
	list := memory.List(500)
	b.page("Objects")
	b.shows(fmt.Sprintf("Objects %d", list.Total.Objects))

	set := schedule.Call0(c.ctx, "night/<b>", schedule.Cron("30 2 * * *", "Europe/Berlin"), touch, accounts.Get("a-1"))
	set = errors.Join(set, schedule.Call0(c.ctx, "month", schedule.Every(30*24*time.Hour), touch, accounts.Get("a-1"), schedule.Paused()))
	if set != nil {
		t.Fatal(set)
	}
	b.page("Schedules")
	b.shows("night/<b>", "30 2 * * * Europe/Berlin", "account/a-1.touch", "month", "every 720h0m0s", "paused")
	b.to("schedules?prefix=night")
	b.shows("raysys schedule pause 'night/<b>'")
	if strings.Contains(b.text("main"), "720h") {
		t.Errorf("the filter shows %s", b.text("main"))
	}
	b.page("Logs")
	b.shows("w1: what it writes is not kept", "raysys logs -f")

	themes(b)
	hidden(b)

	// A node that dies comes first among what is bad, until the others have found that out; then it is gone, and so are its grains.
	b.to("overview")
	b.click("record a timeline")
	b.shows("timeline.json is for ui.perfetto.dev")
	b.shows("w3")
	killed := make(chan error, 1)
	go func() { killed <- c.w3.Kill(ctx, errors.New("killed")) }()
	b.until("a node that died is gone", func() bool {
		if alerts := b.text(".alerts"); strings.Contains(alerts, "w3") && !strings.HasPrefix(alerts, "w3 is ") {
			t.Errorf("first of what is bad is %q", alerts)
		}
		return len(b.row("w3")) == 0 && len(b.row("w1")) > 0
	})
	if err := <-killed; err != nil {
		t.Error(err)
	}
	if *long {
		heap(b)
	}
}

func waitRows(b *tab, n int) {
	b.Helper()
	b.until(fmt.Sprintf("%d rows", n), func() bool { return b.rows() == n })
}

// themes: the host's, until another is chosen, which stays.
func themes(b *tab) {
	b.Helper()
	back := func() string { return eval[string](b, `getComputedStyle(document.body).backgroundColor`) }
	const light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 27)"
	scheme := func(v string) chromedp.Action[chromedp.Void] {
		return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v}}})
			return err
		})
	}
	b.run(scheme("light"))
	b.to("overview")
	b.shows("Nodes")
	b.until("of a light host", func() bool { return back() == light })
	b.run(scheme("dark"))
	b.until("of a dark host", func() bool { return back() == dark })
	b.picture("overview-dark")
	b.click("light")
	b.until("light, as was chosen", func() bool { return back() == light })
	b.run(chromedp.Reload())
	b.shows("Nodes")
	b.until("light after it is loaded again", func() bool { return back() == light })
	b.run(scheme("light"))
}

// hidden: a tab that is not seen asks for nothing.
func hidden(b *tab) {
	b.Helper()
	see := func(v bool) {
		eval[bool](b, fmt.Sprintf(`Object.defineProperty(document, 'hidden', { configurable: true, get: () => %v }); document.dispatchEvent(new Event('visibilitychange'))`, !v))
	}
	count := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.requests
	}
	see(false)
	<-time.After(2 * time.Second) // what was asked has been answered
	before := count()
	<-time.After(3 * time.Second)
	if n := count() - before; n > 0 {
		b.Errorf("a hidden tab has asked %d times", n)
	}
	see(true)
	b.until("a tab that is seen again asks", func() bool { return count() > before })
}

// heap: a tab that is left open does not grow.
func heap(b *tab) {
	b.Helper()
	used := func() float64 {
		_, err := chromedp.Call(b.ctx, heapprofiler.CollectGarbage, cdp.Empty{})
		if err != nil {
			b.Fatal(err)
		}
		u, err := chromedp.Call(b.ctx, runtime.GetHeapUsage, cdp.Empty{})
		if err != nil {
			b.Fatal(err)
		}
		return u.UsedSize
	}
	b.to("overview")
	<-time.After(time.Minute)
	one := used()
	<-time.After(9 * time.Minute)
	ten := used()
	b.Logf("the heap of a tab: %.0f KiB after a minute, %.0f KiB after ten", one/1024, ten/1024)
	if ten > 1.5*one {
		b.Error("the heap of a tab grows")
	}
}

// TestToken: the page asks for the token, keeps it for the tab, and has it in no URL.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	const token = "0123456789abcdef"
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, system.PageConfig{TokenFile: file})
	b := open(t, c.url)
	b.to("functions?q=x")
	b.shows("a token is needed")
	b.run(chromedp.SendKeys(chromedp.CSS("input.first"), "wrong"+kb.Enter))
	b.shows("a token is needed")
	eval[bool](b, `(() => { const i = document.querySelector('input.first'); i.value = ''; return i.dispatchEvent(new Event('input', { bubbles: true })); })()`)
	b.run(chromedp.SendKeys(chromedp.CSS("input.first"), token+kb.Enter))
	b.shows("no functions")
	b.run(chromedp.Reload())
	b.shows("no functions")
	if b.hash() != "functions?q=x" {
		t.Errorf("at %s", b.hash())
	}
}
