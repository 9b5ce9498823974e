package service

import (
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/server"
)

// InProcess makes the API over a person's own ledger, and a client of it: what a server shows of
// its runs is shown of those by the same code. Nothing listens, and no run is driven. It is closed
// by the function that comes with it; the ledger is the caller's.
func InProcess(l *ledger.Ledger, who string) (*client.Client, func(), error) {
	q := memory.New(memory.Options{})
	ctl, err := controller.New(controller.Config{Name: "in-process", Ledger: l, Queue: q, Board: q, Alone: true})
	if err != nil {
		return nil, nil, err
	}
	defs, err := catalog.New(catalog.Config{Ledger: l, Board: q, Controller: ctl})
	if err != nil {
		return nil, nil, err
	}
	api, err := server.New(server.Config{Ledger: l, Controller: ctl, Queue: q, Board: q, Catalog: defs, Backend: "memory", Elsewhere: true})
	if err != nil {
		return nil, nil, err
	}
	c := client.InProcess(api.InProcess(who))
	return c, func() { c.Close(); api.Close(); q.Shutdown() }, nil
}
