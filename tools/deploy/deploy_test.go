package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const folder = "../../deploy/"

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// objects decodes all documents of a file as the server of Kubernetes does with strict validation: a field that its type lacks, or has twice, is
// an error.
func objects(t *testing.T, text string) (all []runtime.Object, err error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(text)))
	for {
		b := make([]byte, len(text))
		n, end := documents.Read(b)
		if errors.Is(end, io.EOF) {
			return all, nil
		}
		if end != nil {
			return nil, end
		}
		o, _, err := decoder.Decode(b[:n], nil, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
}

// TestKubernetes: the manifests have no field that Kubernetes lacks, and what they say of each other fits.
func TestKubernetes(t *testing.T) {
	all, err := objects(t, read(t, "kubernetes/raysys.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := objects(t, read(t, "kubernetes/secrets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]*corev1.Secret{}
	for _, o := range hidden {
		s := o.(*corev1.Secret)
		secrets[s.Name] = s
	}
	var set *appsv1.StatefulSet
	var service *corev1.Service
	var budget *policyv1.PodDisruptionBudget
	var policy *networkingv1.NetworkPolicy
	for _, o := range all {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			set = o
		case *corev1.Service:
			service = o
		case *policyv1.PodDisruptionBudget:
			budget = o
		case *networkingv1.NetworkPolicy:
			policy = o
		}
	}
	if set == nil || service == nil || budget == nil || policy == nil || len(all) != 4 {
		t.Fatalf("%d objects, and not one of each kind", len(all))
	}
	pod := set.Spec.Template
	for what, selector := range map[string]map[string]string{
		"the set": set.Spec.Selector.MatchLabels, "the service": service.Spec.Selector, "the budget": budget.Spec.Selector.MatchLabels, "the policy": policy.Spec.PodSelector.MatchLabels,
		"the policy's member": policy.Spec.Ingress[0].From[0].PodSelector.MatchLabels,
	} {
		for k, v := range selector {
			if pod.Labels[k] != v {
				t.Errorf("%s selects %s=%s, and the pods have %q", what, k, v, pod.Labels[k])
			}
		}
	}
	if set.Spec.ServiceName != service.Name || service.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Error("the set has not the headless service")
	}
	if g := *pod.Spec.TerminationGracePeriodSeconds; g <= 300 {
		t.Errorf("a pod is killed %d s after SIGTERM, and a drain may take 300", g)
	}
	node := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range node.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, p := range service.Spec.Ports {
		if ports[p.Name] != p.Port {
			t.Errorf("the service has the port %s %d, the pods %d", p.Name, p.Port, ports[p.Name])
		}
	}
	for i, port := range []string{"raysys", "http"} {
		if got := policy.Spec.Ingress[i].Ports[0].Port.IntVal; got != ports[port] {
			t.Errorf("the policy opens %d, the pods have %s at %d", got, port, ports[port])
		}
	}
	volumes := map[string]*corev1.Secret{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = nil
		if v.Secret != nil {
			if volumes[v.Name] = secrets[v.Secret.SecretName]; volumes[v.Name] == nil {
				t.Errorf("the secret %s is not in secrets.yaml", v.Secret.SecretName)
			}
		}
	}
	for _, c := range set.Spec.VolumeClaimTemplates {
		volumes[c.Name] = nil
	}
	mounts := map[string]string{} // volume by path
	for _, m := range node.VolumeMounts {
		if _, ok := volumes[m.Name]; !ok {
			t.Errorf("no volume is named %s", m.Name)
		}
		mounts[m.MountPath] = m.Name
	}
	listening := 0
	for _, e := range node.Env {
		if name := strings.TrimSuffix(e.Name, "_LISTEN"); name != e.Name || e.Name == "RAYSYS_HTTP" {
			listening++
			port := map[bool]string{true: "raysys", false: "http"}[name != e.Name]
			if !strings.HasSuffix(e.Value, fmt.Sprint(":", ports[port])) {
				t.Errorf("%s is %s, the port is %d", e.Name, e.Value, ports[port])
			}
		}
		if !strings.HasPrefix(e.Value, "/") {
			continue
		}
		volume, ok := mounts[filepath.Dir(e.Value)]
		if !ok {
			t.Errorf("%s is %s, where no volume is", e.Name, e.Value)
			continue
		}
		for i := range *set.Spec.Replicas {
			file := strings.ReplaceAll(filepath.Base(e.Value), "$(RAYSYS_NAME)", fmt.Sprint(set.Name, "-", i))
			if s := volumes[volume]; s != nil && s.StringData[file] == "" {
				t.Errorf("%s is %s: the secret %s has no %s", e.Name, e.Value, s.Name, file)
			}
		}
	}
	if listening != 2 {
		t.Errorf("%d of 2 addresses are set", listening)
	}
	for _, probe := range []*corev1.Probe{node.ReadinessProbe, node.LivenessProbe} {
		if probe.HTTPGet.Port.StrVal != "http" {
			t.Errorf("a probe asks %v", probe.HTTPGet.Port)
		}
	}
}

// TestStrict: a misspelt field is found.
func TestStrict(t *testing.T) {
	text := read(t, "kubernetes/raysys.yaml")
	for _, change := range [][2]string{
		{"podManagementPolicy", "podManagmentPolicy"}, {"minReadySeconds: 5", "minReadySeconds: five"}, {"{path: /readyz, port: http}", "{path: /readyz, ports: http}"},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if all, err := objects(t, changed); err == nil || changed == text {
			t.Errorf("%s was taken: %d objects", change[1], len(all))
		}
	}
}

// tool returns a program, or skips the test with a line.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not here: what it checks is skipped", name)
	}
	return path
}

// TestSystemd: systemd takes the unit as it is but for the path of the program, which is not installed here.
func TestSystemd(t *testing.T) {
	analyze := tool(t, "systemd-analyze")
	unit := read(t, "systemd/raysys.service")
	verify := func(text string) string {
		file := filepath.Join(t.TempDir(), "raysys.service")
		if err := os.WriteFile(file, []byte(strings.Replace(text, "/usr/local/bin/raysys", "/bin/true", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "--man=no", "verify", file).CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		return string(out)
	}
	if said := verify(unit); said != "" {
		t.Error(said)
	}
	for _, change := range [][2]string{{"KillMode=mixed", "KillMode=both"}, {"TimeoutStopSec", "TimeoutStopSecs"}} {
		if verify(strings.Replace(unit, change[0], change[1], 1)) == "" {
			t.Errorf("systemd-analyze says nothing of %s", change[1])
		}
	}
	if !regexp.MustCompile(`(?m)^EnvironmentFile=/etc/raysys/raysys\.env$`).MatchString(unit) {
		t.Error("the unit has not the file of variables")
	}
}

// TestPrometheus: promtool takes the alerts, their tests pass, and it understands each expression of the dashboard.
func TestPrometheus(t *testing.T) {
	promtool := tool(t, "promtool")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
	run("check", "rules", folder+"prometheus/rules.yml")
	run("test", "rules", folder+"prometheus/rules_test.yml")

	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/raysys.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	var rules bytes.Buffer
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	asked := 0
	for i, p := range dashboard.Panels {
		if p.ID != i+1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d, %s: its id is %d, it ends at %d", i+1, p.Title, p.ID, p.GridPos.X+p.GridPos.W)
		}
		for _, target := range p.Targets {
			asked++
			b, err := json.Marshal(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&rules, "  - {record: 'panel:%d:%d', expr: %s}\n", p.ID, asked, b)
		}
	}
	if asked < 20 {
		t.Errorf("the dashboard has %d expressions", asked)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, rules.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	run("check", "rules", file)
}
