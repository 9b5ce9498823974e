package localrun

import (
	"context"
	"sync"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/windows"
)

// gatingFlags say which service windows runs keep.
type gatingFlags struct {
	paths []string
	Book  *gate.Book // that load read; nil when none are given
}

func (f *gatingFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.paths, "windows", nil, "file or folder with window sets, freezes and holidays (repeatable; read together): disruptive steps keep to them")
}

// load reads the definitions; nil when none are given.
func (f *gatingFlags) load() (*gate.Book, error) {
	if len(f.paths) == 0 {
		return nil, nil
	}
	docs, err := windows.Read(f.paths...)
	if err != nil {
		return nil, err
	}
	f.Book, err = gate.NewBook(docs)
	return f.Book, err
}

// keep posts the windows of the launches on the queue's board, and goes on watching the files
// until stop is called. book is what steps are kept to at the moment; nil when no windows are given.
func (f *gatingFlags) keep(ctx context.Context, con *console.Console, q queue.Queue, launches []*launch.Launch) (book func() *gate.Book, stop func(), err error) {
	if f.Book == nil {
		return nil, func() {}, nil
	}
	k := launch.NewKeeper(f.Book, launch.KeeperOptions{Paths: f.paths, Board: q, Wake: q.Wake, OnEvent: func(e launch.KeeperEvent) { windowsEvent(con, e) }})
	for _, l := range launches {
		if err := k.Post(ctx, l); err != nil {
			return nil, nil, err
		}
	}
	// The windows outlive ctx: jobs that run when it ends are still kept to them.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { k.Run(running) })
	return k.Book, func() { cancel(); wg.Wait() }, nil
}

func windowsEvent(con *console.Console, e launch.KeeperEvent) {
	switch e.Kind {
	case launch.WindowsChanged:
		con.Message("windows: the edit is taken over; hosts that wait are looked at again")
	case launch.WindowsBroken:
		con.Message(con.Paint(console.Yellow, "warning: ") + "windows: the edit is not valid, and the last valid windows stay: " + console.FirstLine(e.Err.Error()))
	case launch.WindowsAway:
		con.Message(con.Paint(console.Yellow, "warning: ") + "windows: the edit cannot be posted yet: " + e.Err.Error())
	}
}
