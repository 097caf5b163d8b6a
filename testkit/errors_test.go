package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var errNoFunds = errors.New("no funds")

var _ = raysys.RegisterError("testkit_test.no-funds", errNoFunds)

// shortage is an error type that nobody registered.
type shortage struct{ Missing int }

func (s *shortage) Error() string { return fmt.Sprintf("%d are missing", s.Missing) }

// balance is registered, and what it wraps is in no field that travels.
type balance struct {
	Account string
	Err     error `raysys:"-"`
}

func (b *balance) Error() string { return b.Account + ": balance" }
func (b *balance) Unwrap() error { return b.Err }

var _ = raysys.Register[*balance]("testkit_test.balance")

// failures are errors that functions return, and what callers look for in them.
var failures = []struct {
	err error
	is  []error
}{
	{context.DeadlineExceeded, []error{context.DeadlineExceeded}},
	{context.Canceled, []error{context.Canceled}},
	{io.EOF, []error{io.EOF}},
	{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), []error{io.ErrUnexpectedEOF}},
	{io.ErrClosedPipe, []error{io.ErrClosedPipe}},
	{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, []error{fs.ErrNotExist, os.ErrNotExist}},
	{&os.LinkError{Op: "link", Old: "a", New: "b", Err: fs.ErrExist}, []error{fs.ErrExist}},
	{errors.Join(fs.ErrPermission, fmt.Errorf("and: %w", fs.ErrInvalid)), []error{fs.ErrPermission, fs.ErrInvalid}},
	{fs.ErrClosed, []error{fs.ErrClosed}},
	{os.ErrDeadlineExceeded, []error{os.ErrDeadlineExceeded}},
	{&net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}, []error{net.ErrClosed}},
	{errors.ErrUnsupported, []error{errors.ErrUnsupported}},
	{&strconv.NumError{Func: "Atoi", Num: "x", Err: strconv.ErrSyntax}, []error{strconv.ErrSyntax}},
	{fmt.Errorf("pay: %w", errNoFunds), []error{errNoFunds}},
	{&balance{"alice", errNoFunds}, []error{errNoFunds}},
}

func failure(_ context.Context, i int) (int, error) {
	if i < 0 {
		return 0, &shortage{-i}
	}
	return 0, failures[i].err
}

type failer struct{}

func (*failer) Fail(ctx context.Context, i int) (int, error) { return failure(ctx, i) }

var (
	failTask = tasks.DefineIn(table, "fail", failure)
	failers  = grains.DefineIn[failer](table, "failer")
	failCall = grains.Method(failers, "fail", (*failer).Fail)
)

// expectIdentity: what errors.Is and errors.As find in a failure is found by the caller, wherever the function ran.
func expectIdentity(ctx context.Context, t testing.TB) {
	t.Helper()
	for i, f := range failures {
		_, byTask := failTask.Go(ctx, i).Get(ctx)
		_, byCall := failCall.Call(ctx, failers.Get("a"), i).Get(ctx)
		for verb, got := range map[string]error{"task": byTask, "call": byCall} {
			for _, want := range f.is {
				if !errors.Is(got, want) {
					t.Errorf("%s: errors.Is(%v, %v) does not hold any more", verb, got, want)
				}
			}
			if errors.Is(got, raysys.ErrMoved) {
				t.Errorf("%s: %v became another error", verb, got)
			}
		}
	}
	var b *balance
	if _, err := failTask.Go(ctx, len(failures)-1).Get(ctx); !errors.As(err, &b) || b.Account != "alice" {
		t.Errorf("errors.As does not find the registered type in %v", err)
	}
}

func TestErrorsKeepTheirIdentityBetweenNodes(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, _ *testkit.Cluster) { expectIdentity(k.Context(), t) })
}

// TestStrictLosesWhatALinkLoses: a test in one process finds the errors that a program on nodes would find.
func TestStrictLosesWhatALinkLoses(t *testing.T) {
	k := testkit.New(t, testkit.Table(table))
	ctx := k.Context()
	expectIdentity(ctx, t)
	var s *shortage
	if _, err := failTask.Go(ctx, -1).Get(ctx); err == nil || errors.As(err, &s) {
		t.Errorf("a task's error of an unregistered type is found in one process, and would not be between nodes: %v", err)
	}
	if _, err := failCall.Call(ctx, failers.Get("a"), -1).Get(ctx); err == nil || errors.As(err, &s) {
		t.Errorf("a call's error of an unregistered type is found in one process, and would not be between nodes: %v", err)
	}
	loose := testkit.New(t, testkit.Table(table), testkit.Loose())
	ctx = loose.Context()
	if _, err := failTask.Go(ctx, -1).Get(ctx); !errors.As(err, &s) {
		t.Errorf("without strict mode an error is handed over as it is: %v", err)
	}
}

// TestUnregisteredErrorIsLoggedOnce: the node that sends it says what to register.
func TestUnregisteredErrorIsLoggedOnce(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		for range 3 {
			_, _ = failTask.Go(ctx, -1).Get(ctx)
			_, _ = failCall.Call(ctx, failers.Get("a"), -1).Get(ctx)
			expectIdentity(ctx, k.T())
		}
	}, testkit.Table(table), testkit.Nodes(1), testkit.Loose(), testkit.Each(func(_ int, cfg *system.Config) { cfg.Logger = zap.New(core) }))
	var said []string
	for _, e := range logs.FilterMessageSnippet("unregistered type").All() {
		said = append(said, fmt.Sprint(e.ContextMap()["call"]))
	}
	if want := `[raysys.Register[*testkit_test.shortage]("testkit_test.shortage")]`; fmt.Sprint(said) != want {
		t.Errorf("the log says %v of error types that lost their identity, want %v", said, want)
	}
}
