package grains_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// A User is a grain: each has a key, and its methods run one at a time. Its basket outlives the activation and the node.
type User struct {
	basket grains.State[[]string] `raysys:"basket"`
}

// Put returns when the item is stored.
func (u *User) Put(ctx context.Context, item string) (int, error) {
	u.basket.Value = append(u.basket.Value, item)
	return len(u.basket.Value), u.basket.Write(ctx)
}

// Basket is a look into memory, which is what is stored.
func (u *User) Basket(context.Context) ([]string, error) { return u.basket.Value, nil }

// Leave lets the activation go.
func (u *User) Leave(ctx context.Context) error { return grains.Deactivate(ctx) }

// The kind and its methods are made once, in package variables.
var (
	users  = grains.Define[User]("user")
	put    = grains.Method(users, "put", (*User).Put)
	basket = grains.Method0(users, "basket", (*User).Basket).ReadOnly()
	leaves = grains.Action0(users, "leave", (*User).Leave)
)

// Each user has a State of its own. The activation of a user goes, and the State stays.
func Example_keepStatePerUser() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		ann, bob := users.Get("ann"), users.Get("bob")
		put.Call(ctx, ann, "lamp")
		fmt.Println(put.Call(ctx, ann, "chair").Get(ctx))
		fmt.Println(put.Call(ctx, bob, "desk").Get(ctx))
		if _, err := leaves.Call(ctx, ann).Get(ctx); err != nil {
			return err
		}
		fmt.Println(basket.Call(ctx, ann).Get(ctx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2 <nil>
	// 1 <nil>
	// [lamp chair] <nil>
}
