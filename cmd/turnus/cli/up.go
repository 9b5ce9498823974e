package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/memory"
	schedules "github.com/turnus/turnus/core/schedule/memory"
	"github.com/turnus/turnus/core/server"
	"github.com/turnus/turnus/core/worker"
)

// upFlags say how the service runs in one process.
type upFlags struct {
	node        nodeFlags
	data        string
	definitions string
	listen      string
}

func (a *app) upCmd() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:     "up",
		Short:   "Run the whole service in one process",
		Example: "  turnus up --definitions ./ops",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.up(cmd.Context(), &f) },
	}
	f.node.add(c)
	c.Flags().StringVar(&f.data, "data", "turnus-data", "folder of everything that the service keeps")
	c.Flags().StringVar(&f.definitions, "definitions", ".", "folder with playbooks, inventory and windows")
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8470", "address of the API")
	return c
}

// up runs until it is told to stop. Shutdown order: the API accepts nothing new; the controller hands over what
// it read; the worker drains; then what they all need is closed.
func (a *app) up(ctx context.Context, f *upFlags) (err error) {
	log := a.logger(f.node.verbose)
	if err := os.MkdirAll(f.data, 0o700); err != nil {
		return err
	}
	l, err := ledger.Open(ctx, "sqlite:"+filepath.Join(f.data, "ledger.db"), ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	n, err := f.node.reach(ctx, nil, log)
	if err != nil {
		return err
	}
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	stop := sync.OnceValue(n.stop)
	defer func() { err = errors.Join(err, stop()) }()
	opts := playbookOptions(n.plugins, nil)
	ctl, err := controller.New(controller.Config{Name: "up", Ledger: l, Queue: q, Types: opts.Types, Log: log})
	if err != nil {
		return err
	}
	cat, err := catalog.New(catalog.Config{
		Ledger: l, Board: q, Controller: ctl, Schedules: schedules.New(), Playbooks: opts, Folder: f.definitions, Log: log,
	})
	if err != nil {
		return err
	}
	api, err := server.New(server.Config{
		Ledger: l, Controller: ctl, Queue: q, Backend: "memory", Catalog: cat, Types: opts.Types, Version: version, Log: log,
	})
	if err != nil {
		return err
	}
	if err := firstToken(ctx, l, f.data); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return err
	}
	if err := n.work(&f.node, q, cat.FilesDir, func(worker.Event) {}, log); err != nil {
		return errors.Join(err, listener.Close())
	}
	ctx, _, release := a.signals(ctx, finishingJobs, a.message, n.kill)
	defer release()
	var wg sync.WaitGroup
	wg.Go(func() { _ = ctl.Run(ctx) })
	wg.Go(func() { _ = cat.Run(ctx) })
	defer wg.Wait()
	web := server.HTTP(api, log)
	defer context.AfterFunc(ctx, func() { _ = web.Shutdown(context.WithoutCancel(ctx)) })()
	a.message("listening on http://" + listener.Addr().String())
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// firstToken makes the first admin token of a new ledger, and keeps it in the data folder.
func firstToken(ctx context.Context, l *ledger.Ledger, data string) error {
	secret, _, err := l.NewToken(ctx, "turnus up", ledger.Token{ID: "first", Name: "admin", AllTenants: true, Roles: []string{string(server.Admin)}})
	if errors.Is(err, core.ErrConflict) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the first token: %w", err)
	}
	return os.WriteFile(filepath.Join(data, "admin.token"), []byte(secret+"\n"), 0o600)
}
