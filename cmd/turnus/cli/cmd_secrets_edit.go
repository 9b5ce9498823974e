package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/yamlread"
)

// nearOr is the hint after a name that does not exist.
func nearOr(name string, names []string) string {
	return cmp.Or(yamlread.DidYouMean(name, names), "turnus secrets ls lists what there is")
}

// readSecret reads a value: from a terminal twice, unseen, or all of stdin. One end of line is cut.
func (a *app) readSecret(name string) ([]byte, error) {
	in, ok := a.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		value, err := io.ReadAll(io.LimitReader(a.In, secrets.MaxValue+3))
		return bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r")), err
	}
	first, err := a.AskUnseen("value of " + name + ": ")
	if err != nil {
		return nil, err
	}
	second, err := a.AskUnseen("once more: ")
	defer clear(second)
	switch {
	case err != nil:
		clear(first)
		return nil, err
	case !bytes.Equal(first, second):
		clear(first)
		return nil, console.Invalid("the two are not the same: nothing was changed")
	}
	return first, nil
}

func (a *app) secretsEditCmd() *cobra.Command {
	var path string
	var identities []string
	c := &cobra.Command{
		Use: "edit NAME", Short: "Change an encrypted value in $VISUAL or $EDITOR", Args: cobra.ExactArgs(1),
		Long: `Change an encrypted value in $VISUAL or $EDITOR. Meanwhile the value is in memory (/dev/shm), in
a folder of your user only. It is removed when the editor ends or a signal comes.`,
		Example: "  turnus secrets edit snmp --secrets-identity admin.age",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := readSecretFile(path)
			if err != nil {
				return err
			}
			e, err := f.entry(args[0])
			if err != nil {
				return err
			}
			if e.Age == "" {
				return console.Invalid("%s: secret %q is not encrypted here: it is a reference of the kind %s, which you edit in the file", e.Place(), e.Name, e.Kind())
			}
			opener, err := secrets.NewOpener(identities)
			if err != nil {
				return err
			}
			before, err := opener.Open(e.Age)
			defer clear(before)
			if err != nil {
				return fmt.Errorf("%s: secret %q: %w", e.Place(), e.Name, err)
			}
			after, err := a.edited(cmd.Context(), e.Name, before)
			defer clear(after)
			if err != nil {
				return err
			}
			if bytes.Equal(before, after) {
				a.Message("the value is as it was: nothing was changed")
				return nil
			}
			if err := f.put(e.Name, after); err != nil {
				return err
			}
			if err := f.save(); err != nil {
				return err
			}
			return a.encrypted(f, args)
		},
	}
	addSecretFile(c, &path)
	addIdentities(c, &identities)
	return c
}

// edited lets a person change a value, which is in a file as long as the editor runs.
func (a *app) edited(ctx context.Context, name string, value []byte) (_ []byte, err error) {
	parent, memory := settings.MemoryFolder()
	if !memory {
		a.Report(a.Paint(console.Yellow, "warning: ") + "this machine has no file system in memory: the value lies on the disk, in " + parent + ", while you edit it")
	}
	// Caught before there is anything to remove. Ctrl-C is the editor's own, which has the terminal;
	// the others end it.
	got := make(chan os.Signal, 4)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(got)
	dir, err := os.MkdirTemp(parent, "turnus-secret-") // 0700
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // with what an editor leaves beside it
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, value, 0o600); err != nil {
		return nil, err
	}
	if err := a.Edit(ctx, file, got); err != nil {
		return nil, err
	}
	after, err := settings.ReadFile(file, secrets.MaxValue+3)
	if err != nil || bytes.Equal(after, value) {
		return after, err
	}
	return bytes.TrimSuffix(after, []byte("\n")), nil
}
