package localrun

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/queue/encrypted"
)

// windowFlags select the maintenance windows that runs keep.
type windowFlags struct {
	paths []string
	files *admission.WindowFiles // that load read; nil when none are given
	name  string                 // of the windows on the board
}

func (f *windowFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.paths, "windows", nil, "file or folder with window sets, freezes and holidays (repeatable; read together): disruptive steps keep to them")
}

// load reads the definitions.
func (f *windowFlags) load() (err error) {
	if len(f.paths) > 0 {
		f.name = "windows/" + rand.Text()
		f.files, err = admission.ReadWindowFiles(f.paths...)
	}
	return err
}

// Calendar is the newest valid windows; nil when none are given.
func (f *windowFlags) Calendar() *admission.Calendar {
	if f.files == nil {
		return nil
	}
	return f.files.Calendar()
}

// publish gives the windows to the workers, and follows the files until stop is called.
func (f *windowFlags) publish(ctx context.Context, con *console.Console, q encrypted.Backend, signal func()) (stop func(), err error) {
	if f.files == nil {
		return func() {}, nil
	}
	p := admission.NewPublisher(admission.PublisherOptions{Name: f.name, Board: q, Current: f.files.Edition, Signal: signal})
	if _, err := p.Publish(ctx); err != nil {
		return nil, err
	}
	// The windows outlive ctx: jobs that run when it ends are still kept to them.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { f.follow(ctx, con, p) })
	return func() { cancel(); wg.Wait() }, nil
}

const filesEvery = time.Second // between checks of the window files

func (f *windowFlags) follow(ctx context.Context, con *console.Console, p *admission.Publisher) {
	ticker := time.NewTicker(filesEvery)
	defer ticker.Stop()
	warning := con.Paint(console.Yellow, "warning: ")
	edited, away := false, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := f.files.Poll()
		if err != nil {
			con.Report(warning + "windows: the edit is not valid, and the last valid windows stay: " + console.FirstLine(core.ErrorText(err)))
		}
		edited = edited || changed
		switch _, err := p.Publish(ctx); {
		case err == nil && edited:
			con.Message("windows: the edit is taken over; hosts that wait are checked again")
			edited, away = false, false
		case err == nil:
			away = false
		case edited && !away && ctx.Err() == nil:
			con.Report(warning + "windows cannot be published, retrying: " + core.ErrorText(err))
			away = true
		}
	}
}
