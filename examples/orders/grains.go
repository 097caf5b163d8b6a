package main

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/stream"
)

// Order is an event: its key is the customer.
type Order struct {
	Item   string `json:"item"`
	Amount int    `json:"amount"`
}

// Account is what a customer has ordered.
type Account struct {
	Balance grains.State[int]
	stream.Cursor
}

// OnOrder counts an order: Durable and Cursor say that it is once.
func (a *Account) OnOrder(_ context.Context, e stream.Event[Order]) error {
	a.Balance.Value += e.Value.Amount
	return nil
}

// Read returns the balance.
func (a *Account) Read(context.Context) (int, error) { return a.Balance.Value, nil }

// Totals is what an audit has added up.
type Totals struct {
	Orders int `json:"orders"`
	Amount int `json:"amount"`
}

// Audit adds up the orders of one day, of all customers.
type Audit struct {
	Totals grains.State[Totals]
	stream.Cursor
}

// auditLimit is the largest amount that an audit lets pass.
const auditLimit = 10_000

// OnOrder adds an order. One that it refuses is tried again, and then parked: the orders behind it do not wait for ever.
func (a *Audit) OnOrder(_ context.Context, e stream.Event[Order]) error {
	if e.Value.Amount > auditLimit {
		return fmt.Errorf("an order of %d is above %d", e.Value.Amount, auditLimit)
	}
	a.Totals.Value.Orders++
	a.Totals.Value.Amount += e.Value.Amount
	return nil
}

// Read returns what it has added up.
func (a *Audit) Read(context.Context) (Totals, error) { return a.Totals.Value, nil }

// day is the key of the audit that an order belongs to.
func day(e stream.Event[Order]) string { return e.Time.UTC().Format(time.DateOnly) }

var (
	orders = stream.Define[Order]("orders", stream.Keep(30*24*time.Hour))

	accounts = grains.Define[Account]("account", grains.Durable())
	balance  = grains.Method0(accounts, "balance", (*Account).Read).ReadOnly()
	audits   = grains.Define[Audit]("audit", grains.Durable())
	totals   = grains.Method0(audits, "totals", (*Audit).Read).ReadOnly()

	_ = stream.Into(orders, accounts, (*Account).OnOrder)
	_ = stream.Into(orders, audits, (*Audit).OnOrder, stream.To(day), stream.OnError(stream.Retry(3, time.Second), stream.Park))
)
