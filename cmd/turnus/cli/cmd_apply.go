package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/playbooks"
)

// applyFlags select what is applied, and how it is checked here first.
type applyFlags struct {
	remote  remote.Flags
	plugins node.PluginFlags
	force   bool
}

func (a *app) applyCmd() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use: "apply PATH", Short: "Replace the project of the server with that of a folder: all or nothing", Args: cobra.ExactArgs(1),
		Long: `Replace the project of the server (playbooks, inventory, windows) with that of a
folder: all or nothing. Both sides check them, and the changes are printed. A server that
follows a repository applies the repository again when its branch moves.`,
		Example: `  turnus project diff ./ops        # what would change
  turnus project apply ./ops`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return remote.Run(a.Console, &f.remote, func(ctx context.Context, c *client.Client, args []string) error {
				return a.apply(ctx, c, &f, args[0])
			})(cmd, args)
		},
	}
	f.remote.Add(c)
	f.plugins.Add(c)
	c.Flags().BoolVar(&f.force, "force", false, "also when somebody else applied others between the comparison and now")
	return c
}

func (a *app) apply(ctx context.Context, c *client.Client, f *applyFlags, path string) error {
	request, set, err := a.localDefinitions(ctx, &f.plugins, path)
	if err != nil {
		return err
	}
	service.WarnOf(a.Console, set)
	now, err := c.Definitions(ctx)
	if err != nil {
		return err
	}
	changes, err := c.DiffDefinitions(ctx, request)
	if err != nil {
		return err
	}
	etag := now.ETag
	if f.force {
		etag = "*"
	}
	applied, err := c.ApplyDefinitions(ctx, etag, request)
	if err != nil {
		return err
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, applied)
	}
	if err := (definitions.Changes{Changes: changesOf(changes.Items)}).WriteText(a.Out); err != nil {
		return err
	}
	a.Message(fmt.Sprintf("applied: %s, %s, %s", core.Plural(applied.Playbooks, "playbook"), core.Plural(applied.Hosts, "host"), core.Plural(applied.Windows, "window set")))
	return nil
}

// localDefinitions reads and checks a folder as the server will, which knows its sources of hosts.
func (a *app) localDefinitions(ctx context.Context, plugins *node.PluginFlags, path string) (_ api.Apply, _ *definitions.Set, err error) {
	sup, err := plugins.Supervisor(nil)
	if err != nil {
		return api.Apply{}, nil, err
	}
	defer func() { err = errors.Join(err, sup.Stop(ctx)) }()
	o := definitions.Options{Playbooks: node.PlaybookOptions(sup, nil), Sources: []definitions.KnownSource{{}}}
	o.Playbooks.Ask = node.AskJobTypes(ctx, sup)
	set, err := definitions.Load(ctx, path, o)
	if err != nil {
		return api.Apply{}, nil, err
	}
	docs := set.Documents()
	out := api.Apply{Documents: make([]api.Document, len(docs)), Revision: set.Revision.Commit, Author: set.Revision.Author, Subject: set.Revision.Subject}
	for i, d := range docs {
		out.Documents[i] = api.Document(d)
	}
	return out, set, nil
}

// diffServer compares a folder with what a server holds.
func (a *app) diffServer(ctx context.Context, f *diffFlags, path string) error {
	c, err := f.remote.Client(0)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := a.Interruptible(ctx)
	defer stop()
	doc := diffDoc{Valid: true, OldValid: true, Problems: playbooks.Diagnostics{}, Warnings: playbooks.Diagnostics{}, Changes: []definitions.Change{}, At: time.Now().UTC()}
	request, set, err := a.localDefinitions(ctx, &f.plugins, path)
	if errors.As(err, &doc.Problems) {
		doc.Valid = false
		return a.reportDiff(doc, f)
	}
	if err != nil {
		return err
	}
	now, err := c.Definitions(ctx)
	if err != nil {
		return remote.Reported(err)
	}
	doc.Old = definitions.Revision{Commit: now.Revision, Author: now.Author, Subject: now.Subject}
	doc.Warnings = append(doc.Warnings, set.Warnings...)
	changes, err := c.DiffDefinitions(ctx, request)
	if err != nil {
		return remote.Reported(err)
	}
	doc.Changes = changesOf(changes.Items)
	return a.reportDiff(doc, f)
}

func changesOf(items []api.Change) []definitions.Change {
	list := make([]definitions.Change, len(items))
	for i, c := range items {
		list[i] = definitions.Change{
			Kind: definitions.Kind(c.Kind), Name: c.Name, Action: definitions.Action(c.Action), Details: c.Details, HostsCome: c.HostsCome, HostsGo: c.HostsGo,
			WindowsCome: c.WindowsCome, WindowsGo: c.WindowsGo, Voids: c.Voids, OldNext: c.OldNext, NewNext: c.NewNext,
		}
	}
	return list
}
