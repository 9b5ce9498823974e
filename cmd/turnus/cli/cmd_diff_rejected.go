package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/definitions"
)

// diffRejected prints the revision that a server does not take, and what it changes.
func (a *app) diffRejected(ctx context.Context, c *client.Client, exitCode bool) error {
	got, err := c.RejectedDefinitions(ctx)
	if err == nil {
		err = a.printRejected(&got)
	}
	if err == nil && exitCode && len(got.Files)+len(got.Changes) > 0 {
		err = &console.Exit{Code: console.ExitChanges}
	}
	return err
}

func (a *app) printRejected(got *api.RejectedChanges) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, got)
	}
	if got.Rejected == nil {
		a.Message("the server rejects no revision")
		return nil
	}
	r := got.Rejected
	a.Report(a.Paint(console.Red, "rejected: ") + service.RejectionText(r.Revision, r.Author, r.Since, r.Error))
	var b strings.Builder
	for _, f := range got.Files {
		writeFileChange(&b, f)
	}
	if got.FilesLeftOut > 0 {
		fmt.Fprintf(&b, "%s left out\n", core.Plural(got.FilesLeftOut, "further file"))
	}
	if _, err := fmt.Fprint(a.Out, b.String()); err != nil {
		return err
	}
	if got.At.IsZero() {
		a.Message("more is wrong than single files: their effect on playbooks, windows and hosts cannot be shown")
		return nil
	}
	a.Message("the files without mistakes have this effect:")
	if err := (definitions.Changes{Changes: changesOf(got.Changes)}).WriteText(a.Out); err != nil {
		return err
	}
	if got.LeftOut > 0 {
		a.Message(core.Plural(got.LeftOut, "further change") + " left out")
	}
	return nil
}

// writeFileChange writes the diff of one file as git does.
func writeFileChange(b *strings.Builder, f api.FileChange) {
	was, is := f.Path, f.Path
	switch definitions.Action(f.Action) {
	case definitions.Added:
		was = "/dev/null"
	case definitions.Removed:
		is = "/dev/null"
	case definitions.Changed:
	}
	fmt.Fprintf(b, "--- %s\n+++ %s\n%s", was, is, f.Text)
	if f.Text != "" && !strings.HasSuffix(f.Text, "\n") {
		b.WriteString("\n")
	}
	if f.Note != "" {
		fmt.Fprintf(b, "(%s)\n", f.Note)
	}
}
