package grains_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// Basket has lines by article. Adding one stores that line, however many others there are.
type Basket struct {
	lines grains.Map[string, BasketLine]
}

// BasketLine is an entry.
type BasketLine struct{ Count, Cents int }

// Add returns how many lines there are.
func (b *Basket) Add(_ context.Context, article string) (int, error) {
	l, _ := b.lines.Get(article) // a copy; the zero line if there is none
	l.Count, l.Cents = l.Count+1, 250
	b.lines.Set(article, l)
	return b.lines.Len(), nil
}

// Total is in the order of the articles.
func (b *Basket) Total(context.Context) (text string, err error) {
	sum := 0
	for article, l := range b.lines.All() {
		text += fmt.Sprintf("%d %s, ", l.Count, article)
		sum += l.Count * l.Cents
	}
	return fmt.Sprintf("%s%d cents", text, sum), nil
}

var (
	baskets     = grains.Define[Basket]("basket", grains.Durable())
	basketAdd   = grains.Method(baskets, "add", (*Basket).Add)
	basketTotal = grains.Method0(baskets, "total", (*Basket).Total).ReadOnly()
)

// A Map is stored by entries, each with the turn that changed it.
func Example_storeByEntries() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		ann := baskets.Get("ann")
		for _, article := range []string{"pear", "apple", "pear"} {
			if _, err := basketAdd.Call(ctx, ann, article).Get(ctx); err != nil {
				return err
			}
		}
		fmt.Println(basketTotal.Call(ctx, ann).Get(ctx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 apple, 2 pear, 750 cents <nil>
}
