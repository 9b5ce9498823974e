package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/core"
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
		a.message("windows: the edit is taken over; hosts that wait are looked at again")
	case launch.WindowsBroken:
		a.message(a.paint(yellow, "warning: ") + "windows: the edit is not valid, and the last valid windows stay: " + firstLine(e.Err.Error()))
	case launch.WindowsAway:
		a.message(a.paint(yellow, "warning: ") + "windows: the edit cannot be posted yet: " + e.Err.Error())
	}
}

// keepWindows refuses a playbook that asks for a service window when none are given, unless
// the operator says that it may start now. It tells what a launch leaves out.
func (a *app) keepWindows(launches []*launch.Launch, f *runFlags) error {
	for _, l := range launches {
		switch {
		case l.Asks == "" || f.outside || l.Starts != nil:
		case len(f.play.windows.paths) == 0:
			return invalid("playbook %s asks for the window %q, and no windows are given\nhint: --windows windows.yaml keeps to them; --outside-windows runs now all the same", l.Playbook.Name, l.Asks)
		case l.Inert:
			return invalid("playbook %s asks for the window %q, but none of its steps is disruptive, so nothing would wait\nhint: a step with disruptive: true, or with a window: of its own, waits whatever its job type; --outside-windows runs now all the same", l.Playbook.Name, l.Asks)
		default:
			a.message(a.paint(yellow, "warning: ") + fmt.Sprintf("playbook %s asks for the window %q, but none of the selected steps is disruptive, so nothing waits", l.Playbook.Name, l.Asks))
		}
	}
	for _, l := range launches {
		if len(l.Unfit) == 0 {
			continue
		}
		a.message(fmt.Sprintf("%s%s: %s left out, for no window fits:", a.paint(yellow, "warning: "), l.Playbook.Name, plural(len(l.Unfit), "host")))
		for _, u := range l.Unfit {
			a.message("  " + u.String())
		}
	}
	return nil
}

// waitingText says what the hosts of a run wait for.
func waitingText(e launch.Event) string {
	hosts := "1 host waits"
	if e.Waiting != 1 {
		hosts = fmt.Sprintf("%d hosts wait", e.Waiting)
	}
	if e.Until.IsZero() {
		return fmt.Sprintf("%s for windows, and %s is not known to open: %s", hosts, setName(e.Set), e.Reason)
	}
	return fmt.Sprintf("%s for windows; the next is %s, from %s: %s", hosts, setName(e.Set), gate.Local(e.Until, e.Zone), e.Reason)
}

// waitingNote is the short form for the live view: it follows "waiting for windows".
func waitingNote(e launch.Event) string {
	if e.Until.IsZero() {
		return fmt.Sprintf("; %s is not known to open", setName(e.Set))
	}
	return fmt.Sprintf("; next %s %s", setName(e.Set), gate.Local(e.Until, e.Zone))
}

func setName(set string) string {
	if set == "" {
		return "a host without a window set"
	}
	return set
}

// unapproved tells whether a job ended because somebody has to approve anew.
func unapproved(reason string) bool { return strings.HasPrefix(reason, core.NeedsReapproval) }
