package process_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/testkit"
)

//go:embed testdata/gyms.py
var gymsPy string

// gyms are two environments of testdata/gyms.py.
func gyms(name string, more process.Config) process.Vectors {
	more.Script, more.Envs = gymsPy, 2
	return process.DefineVector("gyms."+name, more)
}

var (
	resets  = map[string]process.Vectors{}
	dicts   = gyms("parts", process.Config{New: "Parts"})
	wholes  = gyms("parts.vector", process.Config{New: "whole_parts"})
	pairs   = gyms("pair", process.Config{New: "Pair"})
	flat    = gyms("flat", process.Config{New: "Parts", Flatten: true})
	flats   = gyms("flat.vector", process.Config{New: "whole_parts", Flatten: true})
	reward  = gyms("reward", process.Config{New: "Reward"})
	aims    = map[string]process.Vectors{}
	unsaid  = gyms("unsaid", process.Config{New: "Same"})
	lies    = gyms("lies", process.Config{New: "Same", Autoreset: "next_step"})
	final   = gyms("final", process.Config{New: "sync", Args: map[string]any{"mode": "NEXT_STEP"}, Autoreset: "same_step"})
	odds    = map[string]process.Vectors{}
	images  = grains.Define[imager]("gyms.images")
	look    = grains.Method(images, "look", (*imager).look)
	unknown = process.DefineVector("gyms.unknown", process.Config{Gym: "CartPoll-v1", Envs: 1})
	latest  = process.DefineVector("gyms.latest", process.Config{Gym: "CartPole", Envs: 1})
	atari   = process.DefineVector("gyms.atari", process.Config{Gym: "ALE/Pong-v5", Envs: 1})
)

func init() {
	for _, mode := range []string{"NEXT_STEP", "SAME_STEP", "DISABLED"} {
		for _, of := range []string{"sync", "asynchronous"} {
			resets[of+mode] = gyms(of+mode, process.Config{New: of, Args: map[string]any{"mode": mode}})
		}
	}
	for _, name := range []string{"final_observation", "final_obs", "terminal_observation"} {
		resets["Same"+name] = gyms(name, process.Config{New: "Same", Args: map[string]any{"final": name, "listed": name == "terminal_observation"}, Autoreset: "same_step"})
	}
	for _, of := range []string{"Aims", "WholeAims"} {
		for n := 1; n < 3; n++ {
			aims[fmt.Sprint(of, n)] = gyms(fmt.Sprint(of, n), process.Config{New: of, Args: map[string]any{"n": n}, Autoreset: "next_step"})
		}
	}
	for _, kind := range []string{"text", "unlike", "none", "masked", "objects", "large", "narrow", "endless", "list", "scalar", "foreign", "alike", "ragged", "half", "older"} {
		odds[kind] = gyms("odd."+kind, process.Config{New: "Odd", Args: map[string]any{"kind": kind}})
	}
}

// TestAutoreset: each vector shows the last observation of an episode, then the first of the next one.
func TestAutoreset(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	want := "[0] [1] [2] [3 end] [0 0] [1] [2] [3 end] [0 0] [1]"
	for name, v := range resets {
		t.Run(name, func(t *testing.T) {
			g := v.Get("a")
			o, err := v.Reset.Call(ctx, g, 1).Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			seen := func(o process.Tensor) float32 {
				f, err := process.Values[float32](o)
				if err != nil || len(f) != 2 || f[0] != f[1] {
					t.Fatal(f, err)
				}
				return f[0]
			}
			list := []string{fmt.Sprint([]float32{seen(o)})}
			for range 9 {
				s, err := v.Step.Call(ctx, g, process.Of([]int64{0, 0})).Get(ctx)
				if err != nil {
					t.Fatal(err)
				}
				one := fmt.Sprint(seen(s.Observations))
				if s.Rewards[0] == 0 {
					one += " 0"
				}
				if s.Truncated[1] {
					one += " end"
				}
				list = append(list, "["+one+"]")
			}
			want := want
			if strings.HasPrefix(name, "Same") { // the vector has made the first step
				want = "[0] [1] [2] [3 end] [1 0] [2] [3 end] [1 0] [2] [3 end]"
			}
			if got := strings.Join(list, " "); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

// TestAutoresetUnknown: a vector that does not say when it begins an episode, or lies, is refused.
func TestAutoresetUnknown(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	for _, c := range []struct {
		v    process.Vectors
		want string
	}{
		{unsaid, "a vector of script.Same does not say its autoreset mode: set Config.Autoreset"},
		{lies, "the vector is said to have autoreset mode NEXT_STEP, and begins an episode in the step that ends another"},
		{final, "the vector is said to have autoreset mode SAME_STEP, and its infos have no final_obs at the end of an episode"},
	} {
		_, err := c.v.Reset.Call(ctx, c.v.Get("a"), 1).Get(ctx)
		for i := 0; i < 5 && err == nil; i++ {
			_, err = c.v.Step.Call(ctx, c.v.Get("a"), process.Of([]int64{0, 0})).Get(ctx)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestVectorGoesOn: an AsyncVectorEnv of which an environment has failed is made anew by the next Reset.
func TestVectorGoesOn(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	v := resets["asynchronousNEXT_STEP"]
	g := v.Get("b")
	for range 2 {
		for _, action := range []int64{0, 1} {
			if _, err := v.Reset.Call(ctx, g, 5).Get(ctx); err != nil {
				t.Fatal(err)
			}
			s, err := v.Step.Call(ctx, g, process.Of([]int64{0, action})).Get(ctx)
			e, ok := errors.AsType[*process.EnvError](err)
			if ok != (action == 1) || ok && (e.Env != -1 || e.Seed != 5 || e.Step != 1 || !strings.Contains(err.Error(), "ValueError: no such step")) || !ok && s.Rewards[1] != 1 {
				t.Error(action, s, err)
			}
		}
	}
}

// TestParts: observations that are a Dict or a Tuple travel in the order of the space, and become one array where that is asked for.
func TestParts(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	step := process.Of([]int64{0, 0})
	for _, c := range []struct {
		v    process.Vectors
		want string
	}{
		{dicts, "[arm.angle float64[2] at int64[2] image uint8[2 2 2]]"},
		{wholes, "[arm.angle float64[2] at int64[2] image uint8[2 2 2]]"},
		{pairs, "[0 int64[2] 1 float32[2 2]]"},
	} {
		g := c.v.Get("a")
		if _, err := c.v.Reset.Call(ctx, g, 1).Get(ctx); !errors.Is(err, process.ErrShape) || !strings.Contains(err.Error(), "FlattenObservation") {
			t.Error(err)
		}
		if _, err := c.v.Step.Call(ctx, g, step).Get(ctx); !errors.Is(err, process.ErrReset) {
			t.Error(err)
		}
		first, err := c.v.Begin.Call(ctx, g, 1).Get(ctx)
		shown := func(s process.Steps) string {
			var list []string
			for _, p := range s.Parts {
				list = append(list, p.Name+" "+p.String())
			}
			return fmt.Sprint(list)
		}
		if err != nil || shown(first) != c.want || !first.Observations.IsZero() {
			t.Error(shown(first), err)
		}
		for i := 1; i < 6; i++ {
			s, err := c.v.Step.Call(ctx, g, step).Get(ctx)
			if err != nil || shown(s) != c.want {
				t.Fatal(shown(s), err)
			}
			at := s.Parts[slices.IndexFunc(s.Parts, func(p process.Part) bool { return p.Name == "at" || p.Name == "0" })]
			if n, err := process.Values[int64](at.Tensor); err != nil || n[1] != int64(i%4) {
				t.Errorf("step %d: %v %v", i, n, err)
			}
		}
	}
	for _, v := range []process.Vectors{flat, flats} {
		o, err := v.Reset.Call(ctx, v.Get("a"), 1).Get(ctx)
		f, bad := process.Values[float32](o)
		if want := "[0.5 1 0 0 0 0 0 0 0 0.5 1 0 0 0 0 0 0 0]"; fmt.Sprint(f) != want || fmt.Sprint(o.Shape) != "[2 9]" || err != nil || bad != nil {
			t.Errorf("%v %v, want %s", f, errors.Join(err, bad), want)
		}
	}
}

// TestOddObservations: what is no array of numbers is named, and none becomes another.
func TestOddObservations(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	for kind, want := range map[string]string{
		"text":    "the part 'mission' of the observation is str, and no array of numbers: leave it out by a wrapper",
		"unlike":  "an observation with the parts ['at'], and its space has ['at', 'mission']",
		"none":    "the observation is NoneType",
		"masked":  "the observation is a masked array: fill it",
		"objects": "the observation is an array of object",
		"large":   "environment 0 (seed 1) in step 0: odd.large/a: reset: OverflowError: the observation has 1e+300, which is beyond float32",
		"narrow":  "float32[2 2] [1 2 1 2]", "endless": "float32[2 1] [+Inf +Inf]", "list": "float32[2 2] [1 2 1 2]", "scalar": "float32[2] [3 3]", "foreign": "float32[2 1 2] [1 2 1 2]",
		"alike":  "two parts of the observation have one name, of ['a.b', 'a.b']: rename a key",
		"ragged": "the observation is no array of numbers: setting an array element with a sequence",
		"half":   "environment 0 (seed 1) in step 0: element 1 of at of the observation: not a number",
		"older":  "reset returned ndarray, and not the pair of an observation and a dict",
	} {
		want = strings.ReplaceAll(want, "odd.", "gyms.odd.")
		o, err := odds[kind].Reset.Call(ctx, odds[kind].Get("a"), 1).Get(ctx)
		f, _ := process.Values[float32](o)
		if got := fmt.Sprintf("%v %v", o, f); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s %v, want %s", kind, got, err, want)
		}
	}
	if _, err := reward.Reset.Call(ctx, reward.Get("a"), 1).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := reward.Step.Call(ctx, reward.Get("a"), process.Of([]int64{0, 0})).Get(ctx); err == nil || !strings.Contains(err.Error(), "the reward 1e+300 is beyond float32") {
		t.Error(err)
	}
}

// TestRewards: a reward is one number, also in an array of one element; one of several is refused by its shape.
func TestRewards(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	for name, v := range aims {
		if _, err := v.Reset.Call(ctx, v.Get("a"), 1).Get(ctx); err != nil {
			t.Fatal(err)
		}
		s, err := v.Step.Call(ctx, v.Get("a"), process.Of([]int64{0, 0})).Get(ctx)
		if one := strings.HasSuffix(name, "1"); one && (err != nil || fmt.Sprint(s.Rewards) != "[1 1]") || !one && (err == nil || !strings.Contains(err.Error(), "the reward is an array of shape (2,), and no number")) {
			t.Error(name, s.Rewards, err)
		}
	}
}

// TestUnknownGym: the error says what is near, or which package has it. An id without a version is that of the newest.
func TestUnknownGym(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	if o, err := latest.Reset.Call(ctx, latest.Get("a"), 1).Get(ctx); err != nil || o.String() != "float32[1 4]" {
		t.Error(o, err)
	}
	for want, v := range map[string]process.Vectors{"CartPole": unknown, `Give Gym "ale_py:ALE/Pong-v5"`: atari} {
		if _, err := v.Reset.Call(ctx, v.Get("a"), 1).Get(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// imager looks at two environments whose images lie in shared memory.
type imager struct{ process.Vector }

// look makes steps with those actions of the two, and returns the first and the last pixel of each: when it came, and when all have been made.
func (m *imager) look(ctx context.Context, of []int64) (seen []string, err error) {
	if err := m.Start(ctx, process.Config{Script: gymsPy, New: "Image", Envs: 2}); err != nil {
		return nil, err
	}
	o, err := m.Reset(ctx, 1)
	if err != nil {
		return nil, err
	}
	shown := func(o process.Tensor) string {
		n := len(o.Data) / 2
		return fmt.Sprint(o, o.Data[0], o.Data[n-1], o.Data[n], o.Data[2*n-1])
	}
	all := []process.Tensor{o}
	seen = append(seen, shown(o))
	for i := 0; i < len(of); i += 2 {
		if of[i] < 0 {
			m.Reuse()
			of[i] = 0
		}
		s, err := m.Step(ctx, process.Of(of[i:i+2]))
		if err != nil {
			return nil, err
		}
		all, seen = append(all, s.Observations), append(seen, shown(s.Observations))
	}
	for _, o := range all {
		seen = append(seen, shown(o))
	}
	return seen, nil
}

// TestSharedMemory: what lies in shared memory is the caller's once it has come, until Reuse gives it back; no forked process writes there.
func TestSharedMemory(t *testing.T) {
	needs(t, "gymnasium", "numpy")
	k := testkit.New(t)
	ctx := k.Context()
	for _, c := range []struct {
		name    string
		actions []int64
		want    string // the pixels of each image, when it came and afterwards
	}{
		{"kept", []int64{0, 0, 0, 0}, "0 0 0 0, 1 1 1 1, 2 2 2 2; 0 0 0 0, 1 1 1 1, 2 2 2 2"},
		{"reused", []int64{0, 0, -1, 0, 0, 0}, "0 0 0 0, 1 1 1 1, 2 2 2 2, 3 3 3 3; 0 0 0 0, 2 2 2 2, 2 2 2 2, 3 3 3 3"},
		{"forked", []int64{0, 0, 2, 0, 0, 3}, "0 0 0 0, 1 1 1 1, 2 2 2 2, 3 3 3 3; 0 0 0 0, 1 1 1 1, 2 2 2 2, 3 3 3 3"},
	} {
		got, err := look.Call(ctx, images.Get(c.name), c.actions).Get(ctx)
		half := len(got) / 2
		text := strings.ReplaceAll(strings.Join(got[:half], ", ")+"; "+strings.Join(got[half:], ", "), "uint8[2 200 200] ", "")
		if err != nil || runtime.GOOS == "linux" && text != c.want {
			t.Errorf("%s: %s %v\nwant %s", c.name, text, err, c.want)
		}
	}
	// An image of another type than before, behind one that was written already.
	if _, err := look.Call(ctx, images.Get("odd"), []int64{0, 0, 0, 4}).Get(ctx); !errors.Is(err, process.ErrShape) || !strings.Contains(err.Error(), "observations float32[2 200 200], want uint8[2 200 200]") {
		t.Error(err)
	}
}
