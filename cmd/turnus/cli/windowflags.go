package cli

import (
	"context"
	"fmt"
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
	book  *gate.Book // that load read; nil when none are given
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
	f.book, err = gate.NewBook(docs)
	return f.book, err
}

// keep posts the windows of the launches on the queue's board, and goes on watching the files
// until stop is called. book is what steps are kept to at the moment; nil when no windows are given.
func (f *gatingFlags) keep(ctx context.Context, a *app, q queue.Queue, launches []*launch.Launch) (book func() *gate.Book, stop func(), err error) {
	if f.book == nil {
		return nil, func() {}, nil
	}
	k := launch.NewKeeper(f.book, launch.KeeperOptions{Paths: f.paths, Board: q, Wake: q.Wake, OnEvent: a.windowsEvent})
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

func (a *app) windowsEvent(e launch.KeeperEvent) {
	switch e.Kind {
	case launch.WindowsChanged:
		a.Message("windows: the edit is taken over; hosts that wait are looked at again")
	case launch.WindowsBroken:
		a.Message(a.Paint(console.Yellow, "warning: ") + "windows: the edit is not valid, and the last valid windows stay: " + console.FirstLine(e.Err.Error()))
	case launch.WindowsAway:
		a.Message(a.Paint(console.Yellow, "warning: ") + "windows: the edit cannot be posted yet: " + e.Err.Error())
	}
}

// keepWindows refuses a playbook that asks for a service window when none are given, unless
// the operator says that it may start now. It tells what a launch leaves out.
func (a *app) keepWindows(launches []*launch.Launch, f *runFlags) error {
	for _, l := range launches {
		switch {
		case l.Asks == "" || f.outside || l.Starts != nil:
		case len(f.play.windows.paths) == 0:
			return console.Invalid("playbook %s asks for the window %q, and no windows are given\nhint: --windows windows.yaml keeps to them; --outside-windows runs now all the same", l.Playbook.Name, l.Asks)
		case l.Inert:
			return console.Invalid("playbook %s asks for the window %q, but none of its steps is disruptive, so nothing would wait\nhint: a step with disruptive: true, or with a window: of its own, waits whatever its job type; --outside-windows runs now all the same", l.Playbook.Name, l.Asks)
		default:
			a.Message(a.Paint(console.Yellow, "warning: ") + fmt.Sprintf("playbook %s asks for the window %q, but none of the selected steps is disruptive, so nothing waits", l.Playbook.Name, l.Asks))
		}
	}
	for _, l := range launches {
		if len(l.Unfit) == 0 {
			continue
		}
		a.Message(fmt.Sprintf("%s%s: %s left out, for no window fits:", a.Paint(console.Yellow, "warning: "), l.Playbook.Name, console.Plural(len(l.Unfit), "host")))
		for _, u := range l.Unfit {
			a.Message("  " + u.String())
		}
	}
	return nil
}
