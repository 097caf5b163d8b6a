package main

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/consul/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/internal/clitest"
	"github.com/raysys/raysys/internal/metrics"
	"github.com/raysys/raysys/internal/tally"
)

// deployed is the folder deploy of the module.
var deployed = os.DirFS(filepath.Join("..", "..", "deploy"))

// known is what the code has of all that the files of deploy may name.
type known struct {
	variables map[string]bool
	commands  map[string]bool // by path, without raysys
	flags     map[string]bool
	metrics   map[string][]string // labels by family
	paths     func(path string) bool
}

func fromCode(t *testing.T) known {
	t.Helper()
	k := known{variables: map[string]bool{}, commands: map[string]bool{}, flags: map[string]bool{}, metrics: map[string][]string{}}
	for name := range variablesOf(t, os.DirFS(filepath.Join("..", ".."))) {
		k.variables[name] = true
	}
	for name, flag := range flagVariables(root(onConsul())) {
		k.variables[name], k.flags[flag] = true, true
	}
	for _, name := range []string{
		api.HTTPAddrEnvName, api.HTTPTokenEnvName, api.HTTPTokenFileEnvName, api.HTTPSSLEnvName, api.HTTPCAFile, api.HTTPClientCert, api.HTTPClientKey,
	} {
		k.variables[name] = true
	}
	var commands func(c *cobra.Command, path string)
	commands = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			k.commands[path+sub.Name()] = true
			commands(sub, path+sub.Name()+" ")
		}
	}
	commands(root(onConsul()), "")
	for _, c := range []prometheus.Collector{
		metrics.NewCollector(func() (metrics.Sample, error) { return metrics.Sample{}, nil }), &metrics.Cluster{},
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(),
	} {
		descs := make(chan *prometheus.Desc, 1000)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			m := describes.FindStringSubmatch(d.String())
			if m == nil {
				t.Fatalf("%s says neither a name nor labels", d)
			}
			labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
			k.metrics[m[1]] = labels
		}
	}
	k.metrics["up"], k.metrics["ALERTS"] = nil, nil // of Prometheus
	handler := metrics.Handler(func() (metrics.Sample, error) { return metrics.Sample{}, nil }, func() error { return nil }, func(error) {})
	k.paths = func(path string) bool {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code == http.StatusOK
	}
	return k
}

var (
	describes     = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", .*variableLabels: \{([^}]*)\}\}$`)
	variableNamed = regexp.MustCompile(`\b(?:RAYSYS|CONSUL)_[A-Z_]*[A-Z]\b`)
	commandNamed  = regexp.MustCompile("(?:`|/usr/local/bin/)raysys ((?:[a-z]+ ?)+)([^`\n]*)")
	flagNamed     = regexp.MustCompile(`--([a-z-]+)`)
	pathNamed     = regexp.MustCompile(`(?:path|metrics_path): "?(/[a-z/]+)`)
	portNamed     = regexp.MustCompile(`(?:[pP]ort: |_LISTEN\S* .*:|_LISTEN=.*:|_HTTP\S* .*:|_HTTP=.*:)"?([0-9]+)"?\}?$|[pP]ort: ([0-9]+)`)
)

var (
	metricNamed = regexp.MustCompile(`\b((?:raysys|process|go)_[a-z0-9_]+|up\{|ALERTS)(\{?[^{}]*\}|)`)
	labelNamed  = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"([^"]*)"`)
	labelsNamed = regexp.MustCompile(`\b(?:by|without|on|ignoring) \(([^)]*)\)|\$labels\.([a-z_]+)|label_values\([^)]*, ([a-z_]+)\)|"\{\{([a-z_]+)\}\}|\} \{\{([a-z_]+)\}\}`)
	ofScrapes   = []string{"job", "instance"} // the labels that Prometheus sets
)

// unmeasured returns a line for each family and each label in expressions of Prometheus that the code does not have. An expression and what is
// said of its labels go from the word expr to the next one.
func (k known) unmeasured(fsys fs.FS, names ...string) (bad []string, named int, err error) {
	for _, name := range names {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, 0, err
		}
		for _, part := range strings.Split(strings.ReplaceAll(string(b), `\"`, `"`), "expr") {
			labels := slices.Clone(ofScrapes)
			for _, m := range metricNamed.FindAllStringSubmatch(part, -1) {
				family := strings.TrimSuffix(m[1], "{")
				own, has := k.metrics[family]
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					if base, cut := strings.CutSuffix(family, suffix); cut && !has {
						if own, has = k.metrics[base]; suffix == "_bucket" {
							own = append([]string{"le"}, own...)
						}
					}
				}
				if named++; !has {
					bad = append(bad, name+" names "+family+", which no node shows")
				}
				labels = append(labels, own...)
				for _, l := range labelNamed.FindAllStringSubmatch(m[2], -1) {
					if family != "ALERTS" && !slices.Contains(own, l[1]) && !slices.Contains(ofScrapes, l[1]) {
						bad = append(bad, name+": "+family+" has no label "+l[1])
					}
					for _, value := range strings.Split(l[2], "|") {
						if l[1] == "outcome" && !slices.ContainsFunc(tally.Outcomes(), func(o tally.Outcome) bool { return o.String() == value }) {
							bad = append(bad, name+": "+value+" is no outcome")
						}
					}
				}
			}
			for _, m := range labelsNamed.FindAllStringSubmatch(part, -1) {
				for _, l := range strings.Split(strings.Join(m[1:], ","), ",") {
					if l = strings.TrimSpace(l); l != "" && !slices.Contains(labels, l) {
						bad = append(bad, name+": no family of this expression has the label "+l)
					}
				}
			}
		}
	}
	return bad, named, nil
}

// TestDeployMeasuresWhatThereIs: alerts, their tests and the dashboard ask for families, labels and outcomes that nodes have.
func TestDeployMeasuresWhatThereIs(t *testing.T) {
	k := fromCode(t)
	bad, named, err := k.unmeasured(deployed, "prometheus/rules.yml", "prometheus/rules_test.yml", "grafana/raysys.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bad {
		t.Error(line)
	}
	if named < 40 {
		t.Errorf("only %d families were found", named)
	}
	bad, _, err = k.unmeasured(fstest.MapFS{"a": {Data: []byte(
		`expr: sum by (node) (raysys_run{kind="x"}) "summary": "{{ $labels.functions }}"` + "\n" +
			`{"expr": "sum by (le, function) (rate(raysys_run_seconds_bucket{functions=\"$x\", le=\"1\"}[5m]))", "legendFormat": "{{kinds}}"}` + "\n" +
			`expr: raysys_runs_total{outcome=~"error|failed"} raysys_grains{le="1"}`,
	)}}, "a")
	if err != nil || len(bad) != 8 {
		t.Errorf("of 8 wrong names %d were found: %q, %v", len(bad), bad, err)
	}
}

// ports are those that the files give a node: of docs/operating, and of the page of raysys local.
var ports = []string{"7400", strconv.Itoa(pagePort)}

// unknown returns a line for each variable, command, path and port of the files that the code does not have.
func (k known) unknown(fsys fs.FS) (bad []string, named int, err error) {
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		say := func(what string) { bad = append(bad, name+" names "+what+", which the code does not have") }
		text := string(b)
		for _, v := range variableNamed.FindAllString(text, -1) {
			named++
			if !k.variables[v] {
				say(v)
			}
		}
		for _, m := range commandNamed.FindAllStringSubmatch(text, -1) {
			named++
			words := strings.Fields(m[1])
			if !k.commands[strings.Join(words, " ")] && !k.commands[words[0]] {
				say("raysys " + m[1])
			}
			for _, f := range flagNamed.FindAllStringSubmatch(m[2], -1) {
				if named++; !k.flags[f[1]] {
					say("the flag --" + f[1])
				}
			}
		}
		for _, m := range pathNamed.FindAllStringSubmatch(text, -1) {
			named++
			if m[1] != "/etc/raysys/tls" && !k.paths(m[1]) {
				say("the path " + m[1])
			}
		}
		for _, line := range strings.Split(text, "\n") {
			for _, m := range portNamed.FindAllStringSubmatch(line, -1) {
				named++
				if port := m[1] + m[2]; !slices.Contains(ports, port) {
					say("the port " + port)
				}
			}
		}
		return nil
	})
	slices.Sort(bad)
	return bad, named, err
}

// TestDeployNamesWhatThereIs: the files of deploy name no flag, variable, command, path or port that the code does not have.
func TestDeployNamesWhatThereIs(t *testing.T) {
	k := fromCode(t)
	bad, named, err := k.unknown(deployed)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bad {
		t.Error(line)
	}
	if named < 50 {
		t.Errorf("only %d names were found", named)
	}
	bad, _, err = k.unknown(fstest.MapFS{
		"a.yaml": {Data: []byte("- {name: RAYSYS_LISTEN, value: \"$(POD_IP):7401\"}\n- {port: 7402}\nhttpGet: {path: /ready, port: http}\n- {name: RAYSYS_SPILLS}")},
		"b.env":  {Data: []byte("RAYSYS_HTTP=10.0.0.11:8266\nCONSUL_HTTP_TOKENS=x\nExecStart=/usr/local/bin/raysys nodes --apps x\n")},
	})
	if err != nil || len(bad) != 8 {
		t.Errorf("of 8 wrong names %d were found: %q, %v", len(bad), bad, err)
	}
}

// TestDeployedNodeStarts: the settings of a node in deploy can be meant, and the first thing that it lacks is its program.
func TestDeployedNodeStarts(t *testing.T) {
	for file, setting := range map[string]*regexp.Regexp{
		"systemd/raysys.env":     regexp.MustCompile(`(?m)^#?([A-Z_]+)=(.*)$`),
		"kubernetes/raysys.yaml": regexp.MustCompile(`(?m)^ +- \{name: ([A-Z_]+), value: "?([^"}]+)"?\}$`),
	} {
		t.Run(file, func(t *testing.T) {
			b, err := fs.ReadFile(deployed, file)
			if err != nil {
				t.Fatal(err)
			}
			found := setting.FindAllStringSubmatch(string(b), -1)
			if len(found) < 10 {
				t.Errorf("only %d settings were found", len(found))
			}
			variables := []string{"RAYSYS_NAME=raysys-0"}
			for _, m := range found {
				value := strings.NewReplacer("$(POD_IP)", "10.0.0.11", "$(RAYSYS_NAME)", "raysys-0").Replace(m[2])
				if strings.HasPrefix(value, "/etc/") { // such a file would have to be there
					value = os.DevNull
				}
				if m[1] != "RAYSYS_APP" && m[1] != "RAYSYS_NAME" {
					variables = append(variables, m[1]+"="+value)
				}
			}
			_, said, code := clitest.InProcess(t, run, []string{"node", "--app", "/nowhere/app"}, variables)
			if code != cli.ExitUsage || !strings.Contains(said, "/nowhere/app") {
				t.Errorf("a node with %q ends with %d and says %s", variables, code, said)
			}
		})
	}
}
