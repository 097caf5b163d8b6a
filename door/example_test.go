package door_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/system"
)

// A program serves a task and a method of a grain; any HTTP client calls them.
func Example() {
	n, err := system.New(system.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := n.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	defer n.Close(context.Background())
	d, err := door.New(n, door.Task(square, "Squares."), door.Method(add, "Adds cents, returns the sum."),
		door.Error(errNoMoney, http.StatusPaymentRequired, "not enough money"))
	if err != nil {
		fmt.Println(err)
		return
	}
	s := httptest.NewServer(d)
	defer s.Close()
	for _, c := range [][2]string{
		{"task/door%2Fsquare", "7"},
		{"grain/door.account/add/alice", `{"n": 5}`},
		{"grain/door.account/add/alice", `{"n": -9}`},
		{"grain/door.account/add/alice", `{"n": "x"}`},
	} {
		a, err := s.Client().Post(s.URL+"/call/"+c[0], "application/json", strings.NewReader(c[1]))
		if err != nil {
			fmt.Println(err)
			return
		}
		text, _ := io.ReadAll(a.Body)
		a.Body.Close()
		problem, id, _ := strings.Cut(string(text), `,"id"`)
		if _, rest, ok := strings.Cut(id, `,"ran"`); ok {
			problem += `,"ran"` + rest
		}
		fmt.Println(a.StatusCode, problem)
	}
	// Output:
	// 200 49
	// 200 5
	// 402 {"type":"raysys:application","title":"Payment Required","status":402,"detail":"not enough money","ran":"yes"}
	// 400 {"type":"raysys:bad-argument","title":"Bad Request","status":400,"detail":"at n: string is no int64","ran":"no"}
}
