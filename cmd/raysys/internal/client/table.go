package client

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/printable"
	"github.com/raysys/raysys/placement/devices"
)

// JSON writes the status as one line.
func JSON(w io.Writer, s Status) error {
	Sort(&s)
	// An empty list is no null, so that a reader can always range over it.
	s.Nodes, s.Shards = orEmpty(s.Nodes), orEmpty(s.Shards)
	return printable.WriteJSON(w, s)
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Table writes the status for people: nodes, who leads the shards, grains by kind.
func Table(w io.Writer, s Status) error {
	Sort(&s)
	active := map[string]int{} // grains by kind
	fmt.Fprintf(w, "cluster %s (%s), %s, %s\n\n", s.Cluster, orDash(s.ID), Some(len(s.Nodes), "node", "nodes"), Some(len(s.Shards), "shard", "shards"))
	trouble(w, s.Nodes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "NODE\tROLE\tSTATE\tADDRESS\tVERSION\tBUILD\tUP\tCPU\tGPU\tMEMORY\tASKED FOR\t")
	fmt.Fprintln(t, "QUEUED\tGUESTS\tGRAINS\tLABELS")
	for _, n := range s.Nodes {
		grains := 0
		for kind, count := range n.Grains {
			active[kind] += count
			grains += count
		}
		free := n.Free
		if n.Error != "" {
			free = n.Resources // nothing is known to be taken
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t", n.Name, n.Role, state(n.State),
			orDash(n.Address), orDash(n.Version), orDash(n.Build), age(n.Up))
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t", used(free.CPU, n.Resources.CPU), gpus(free.GPU, n),
			memory(n.Memory.Limit-n.Memory.Resident, n.Memory.Limit), memory(free.Memory, n.Resources.Memory))
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\n", n.Queued, n.Inbound, grains, labels(n.Labels))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range s.Nodes {
		switch {
		case n.State == "joining":
			fmt.Fprintf(w, "%s is no host yet: %s\n", n.Name, cmp.Or(n.Error, "it has just joined"))
		case n.Error != "":
			fmt.Fprintf(w, "%s does not answer: %s\n", n.Name, n.Error)
		}
	}
	err := errors.Join(electors(w, s.Nodes), moves(w, s.Nodes), namedTasks(w, s.Nodes), accelerators(w, s.Nodes),
		custom(w, s.Nodes), demand(w, s.Demand), groups(w, s.Groups), MixedTable(w, s))
	if err != nil {
		return err
	}
	if len(s.Shards) > 0 {
		fmt.Fprintln(w)
		t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "LEADER\tSHARDS\tNUMBERS")
		by := leaders(s.Shards)
		for _, name := range slices.Sorted(maps.Keys(by)) {
			shown := string(name)
			if shown == "" {
				shown = "none"
			}
			fmt.Fprintf(t, "%s\t%d\t%s\n", shown, len(by[name]), ranges(by[name]))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(active) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GRAIN\tACTIVE")
	for _, kind := range slices.Sorted(maps.Keys(active)) {
		fmt.Fprintf(t, "%s\t%d\n", kind, active[kind])
	}
	return t.Flush()
}

// moves shows how grains have moved between the workers to even out their load: nothing while none has.
func moves(w io.Writer, nodes []Node) error {
	for _, n := range nodes {
		b := n.Balance
		if b == nil || b.Moved == 0 {
			continue
		}
		why := ""
		if b.Why != "" {
			why = "; now none: " + b.Why
		}
		what := "%s: %d grains have moved to other nodes; the turns of the rest take %.2g of each CPU, the mean is %.2g%s\n"
		if _, err := fmt.Fprintf(w, what, n.Name, b.Moved, b.Load, b.Mean, why); err != nil {
			return err
		}
	}
	return nil
}

// trouble shows turns past their deadline and memory that is nearly used up, each with the command that says more.
func trouble(w io.Writer, nodes []Node) {
	var b strings.Builder
	for _, n := range nodes {
		for i := range n.Late {
			g := &n.Late[i]
			name, command := g.Kind+"/"+g.Key, "list grains --kind "+g.Kind
			if plain.MatchString(name) {
				command = "get " + name
			}
			fmt.Fprintf(&b, "%s is in %s on %s for %s, ", name, g.Turn, n.Name, lasts(g.Lasts))
			fmt.Fprintf(&b, "%s: raysys %s\n", g.Late, command)
		}
		if m := n.Memory; m.Resident > m.Limit/100*80 {
			part := m.Resident * 100 / max(m.Limit, 1)
			fmt.Fprintf(&b, "%s has %d %% of the memory that it may have", n.Name, part)
			if m.Unloaded+m.Refused > 0 {
				fmt.Fprintf(&b, " (for want of it %d idle grains went, and %d were not started)", m.Unloaded, m.Refused)
			}
			fmt.Fprintf(&b, ": raysys profile %s heap.pprof\n", n.Name)
		}
	}
	if b.Len() > 0 {
		fmt.Fprintln(w, b.String())
	}
}

// plain is an argument that a shell takes as it is.
var plain = regexp.MustCompile(`^[\w./:@+][\w./:@%+=-]*$`)

// electors shows who may replace a worker when it is silent, and how long it answers from memory.
func electors(w io.Writer, nodes []Node) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "\nNODE\tELECTORS\tPROMISE LEFT\n"
	for _, n := range nodes {
		if len(n.Electors) > 0 {
			fmt.Fprintf(t, "%s%s\t%s\t%.1fs\n", head, n.Name, fmt.Sprint(n.Electors), n.PromiseLeft.Seconds())
			head = ""
		}
	}
	return t.Flush()
}

// namedTasks shows the detached tasks with names, where there are any.
func namedTasks(w io.Writer, nodes []Node) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "\nNAMED TASK\tFUNCTION\tATTEMPT\tSTATE\tOF NODE\n"
	for _, n := range nodes {
		for _, j := range n.NamedTasks {
			fmt.Fprintf(t, "%s%s\t%s\t%d\t%s\t%s\n", head, j.Name, j.Function, j.Attempt, j.State, n.Name)
			head = ""
		}
	}
	return t.Flush()
}

// accelerators shows the accelerators, where there are any.
func accelerators(w io.Writer, nodes []Node) error {
	var t *tabwriter.Writer
	for _, n := range nodes {
		for _, d := range n.Devices {
			if t == nil {
				fmt.Fprintln(w)
				t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "NODE\tDEVICE\tMODEL\tUSED\tMEMORY\tBUSY\tIN USE\tSTATE")
			}
			state := "well"
			if d.Sick {
				state = "sick"
				if d.Cause != "" {
					state += ": " + d.Cause
				}
			}
			busy, inUse := "-", "-"
			if d.Busy >= 0 {
				busy = fmt.Sprintf("%d %%", d.Busy)
			}
			if d.UsedMemory > 0 {
				inUse = fmt.Sprintf("%.1f GiB", float64(d.UsedMemory)/(1<<30))
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
				n.Name, device(d.UUID), model(d), used(d.Free, d.Total), memory(d.FreeMemory, d.Memory), busy, inUse, state)
		}
	}
	if t == nil {
		return nil
	}
	return t.Flush()
}

// demand shows what waits for resources, where something does.
func demand(w io.Writer, list []inspect.Demand) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WAITS FOR\tLABELS\tCOUNT\tOLDEST\tWHERE")
	for _, d := range list {
		where := "on a node that has it"
		switch {
		case d.Group != "" && d.Unplaced:
			where = fmt.Sprintf("its bundle of group %q has no node yet", d.Group)
		case d.Group != "":
			where = fmt.Sprintf("in a bundle of group %q", d.Group)
		case d.Unplaced:
			where = "no node can take it yet"
		}
		fmt.Fprintf(t, "%v\t%s\t%d\t%s\t%s\n", d.Resources, labels(d.Labels), d.Count, age(max(d.Oldest, time.Millisecond)), where)
	}
	return t.Flush()
}

// groups shows the placement groups that wait for room, where some do.
func groups(w io.Writer, list []inspect.GroupDemand) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GROUP WAITS\tSTRATEGY\tBUNDLES\tHELD\tCOUNT\tGATHERING\tOLDEST")
	for _, g := range list {
		fmt.Fprintf(t, "%q\t%s\t%s\t%d/%d\t%d\t%d\t%s\n", g.Group, g.Strategy, bundles(g.Bundles), g.Held, len(g.Bundles), g.Count, g.Gathering, age(max(g.Oldest, time.Millisecond)))
	}
	return t.Flush()
}

// MixedTable shows the functions in which builds differ, where some do.
func MixedTable(w io.Writer, s Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	driver := func(n raysys.NodeID) bool {
		return slices.ContainsFunc(s.Nodes, func(m Node) bool { return m.Name == n && m.Role != "worker" })
	}
	head := "\nMIXED FUNCTION\tNODES WITH EACH VERSION\n"
	for _, m := range s.Mixed {
		var versions []string
		for _, v := range slices.Sorted(maps.Keys(m.Versions)) {
			shown := ""
			if v == "" {
				shown = " not"
			}
			for _, n := range m.Versions[v] {
				if driver(n) {
					shown += " driver"
				}
				shown += " " + string(n)
			}
			versions = append(versions, shown[1:])
		}
		fmt.Fprintf(t, "%s%s\t%s\n", head, m.Function, strings.Join(versions, " / "))
		head = ""
	}
	return t.Flush()
}

// bundles shows neighbours that are alike once, with their number.
func bundles(list []raysys.Resources) string {
	var s []string
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && list[j].String() == list[i].String() {
			j++
		}
		shown := list[i].String()
		if j-i > 1 {
			shown = fmt.Sprintf("%d x (%s)", j-i, shown)
		}
		s = append(s, shown)
		i = j
	}
	return strings.Join(s, " + ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// state is the node's state for people: one that is active is up.
func state(s string) string {
	if s == inspect.NodeActive {
		return "up"
	}
	return s
}

// used shows the share of a resource that is taken.
func used(free, total float64) string {
	if total == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g/%.4g", total-free, total)
}

// gpus is used for the devices of a node. Those that are sick get no work.
func gpus(free float64, n Node) string {
	taken, well, sick := 0.0, 0.0, 0
	for _, d := range n.Devices {
		if d.Sick {
			sick++
			continue
		}
		taken, well = taken+d.Total-d.Free, well+d.Total
	}
	if sick == 0 {
		return used(free, n.Resources.GPU)
	}
	return fmt.Sprintf("%.4g/%.4g, %d sick", taken, well, sick)
}

// model says which devices are made up.
func model(d inspect.DeviceStatus) string {
	if strings.HasPrefix(d.UUID, devices.FakeUUID) {
		return d.Model + " (made up)"
	}
	return orDash(d.Model)
}

// device is the name of a device: where a node knows no more than their number, it is one too.
func device(uuid string) string {
	if _, err := strconv.ParseUint(uuid, 10, 32); err == nil {
		return "GPU " + uuid
	}
	return uuid
}

func memory(free, total int64) string {
	if total == 0 {
		return "-"
	}
	const gib = 1 << 30
	return fmt.Sprintf("%.1f/%.1f GiB", float64(total-free)/gib, float64(total)/gib)
}

// age is a duration in its largest unit and the next.
func age(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

func labels(m map[string]string) string {
	var s []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s = append(s, k+"="+m[k])
	}
	return orDash(strings.Join(s, ","))
}

func leaders(shards []Shard) map[raysys.NodeID][]int {
	by := map[raysys.NodeID][]int{}
	for _, s := range shards {
		by[s.Node] = append(by[s.Node], s.Shard)
	}
	return by
}

// ranges shows sorted numbers as 0-3,7,9-10.
func ranges(numbers []int) string {
	var s []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if i == j {
			s = append(s, fmt.Sprint(numbers[i]))
		} else {
			s = append(s, fmt.Sprintf("%d-%d", numbers[i], numbers[j]))
		}
		i = j + 1
	}
	return strings.Join(s, ",")
}
