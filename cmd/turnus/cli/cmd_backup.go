package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/backup"
	"github.com/turnus/turnus/core/ledger"
)

func (a *app) backupCmd() *cobra.Command {
	var f service.StoreFlags
	var without, read bool
	c := &cobra.Command{
		Use:   "backup WHERE",
		Short: "Copy the ledger and the large outputs of a service, while it works",
		Long: `Copy the ledger and the large outputs of a service, while it works. WHERE is a folder, a
bucket (s3://BUCKET[/PREFIX][?endpoint=URL]) or a file that ends with .zip. A folder or bucket
holds any number of backups, and each large output once. An output of an earlier backup is copied
again only if its size differs; with --read-data also if it is damaged. A backup shows one
moment. A failed backup leaves nothing.

Data that a key ring encrypted stays encrypted in the backup: keep a copy of the ring's file in
another place. Without --keyring the ledger of a service that has a ring cannot note the backup.

A backup of SQLite restores into PostgreSQL, and the other way round.`,
		Example: `  turnus admin backup /var/backups/turnus
  turnus admin backup --ledger postgres://turnus@db/turnus --outputs s3://turnus-outputs s3://turnus-backups
  turnus admin backup --no-outputs ledger-$(date +%F).zip`,
		Args:        cobra.ExactArgs(1),
		Annotations: map[string]string{help.Alone: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := a.Interruptible(cmd.Context())
			defer stop()
			return a.backup(ctx, &f, args[0], without, read)
		},
	}
	f.Add(c)
	f.Keyring.AddFile(c)
	c.Flags().BoolVar(&without, "no-outputs", false, "the ledger alone, without large outputs")
	c.Flags().BoolVar(&read, "read-data", false, "also read the large outputs of earlier backups, and copy damaged ones again")
	c.AddCommand(a.backupListCmd(), a.backupVerifyCmd())
	return c
}

func (a *app) backup(ctx context.Context, f *service.StoreFlags, where string, without, read bool) (err error) {
	if err := f.There(); err != nil {
		return err
	}
	o := backup.Options{Ledger: f.LedgerURL(), Where: where, Program: settings.Version(), Without: without, ReadData: read, Reported: a.steps()}
	if !without {
		if o.Objects, err = f.Objects(ctx, false); err != nil {
			return err
		}
		if o.Objects != nil {
			defer func() { err = errors.Join(err, o.Objects.Close()) }()
		}
	}
	began := time.Now()
	m, err := backup.Create(ctx, o)
	if err != nil {
		return err
	}
	took := time.Since(began)
	warn := func(text string) { a.Report(a.Paint(console.Yellow, "warning: ") + text) }
	if err := a.noteBackup(ctx, f, m, took); err != nil {
		warn("the backup is whole, but the ledger does not know of it: " + core.ErrorText(err))
	}
	if lacks := f.Keyring.Lacks(m.Keys); len(lacks) > 0 {
		warn("the ledger is encrypted with " + keysText(lacks) + ", which was not given: after a restore it can be read only with the key ring that has it. Keep a copy of its file away from the backups")
	}
	if m.Outputs != nil && m.Outputs.Missing > 0 {
		warn(core.Plural(int(m.Outputs.Missing), "large output") + " could not be copied: not found; it was removed with a run just now, or is lost")
	}
	if m.Outputs != nil && m.Outputs.Damaged > 0 {
		warn(core.Plural(int(m.Outputs.Damaged), "large output") + " of earlier backups could not be read in " + ledger.ShownBucket(where) + ", or had other bytes than were copied then. They are copied again; check the storage of that place")
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, backupDoc(m))
	}
	text := fmt.Sprintf("backup %s in %s: %s, %s of the ledger", m.ID, ledger.ShownBucket(where), core.Plural(int(m.Rows("runs")), "run"), console.BytesText(m.Size()))
	if m.Outputs != nil {
		text += fmt.Sprintf(", %s (%s, %d new)", core.Plural(int(m.Outputs.Objects), "large output"), console.BytesText(m.Outputs.Size), m.Outputs.New)
	}
	_, _ = fmt.Fprintf(a.Out, "%s, in %s\n", text, took.Round(10*time.Millisecond))
	return nil
}

// noteBackup has the ledger know of its backup. One with tables of an earlier version is left as it
// is.
func (a *app) noteBackup(ctx context.Context, f *service.StoreFlags, m *backup.Manifest, took time.Duration) (err error) {
	if m.Schema != ledger.Version() {
		return fmt.Errorf("its tables are of version %d, this program's of %d: %w", m.Schema, ledger.Version(), core.ErrInvalid)
	}
	ring, err := f.Keyring.Open(a.Console)
	if err != nil {
		return err
	}
	l, err := ledger.Open(ctx, f.LedgerURL(), ledger.Options{Connections: 1, Keyring: ring})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return backup.Note(ctx, l, service.WhoHere(), m, took)
}

// steps reports what is under way, to people only.
func (a *app) steps() func(string) {
	if !a.Terminal || a.Output == "json" {
		return nil
	}
	return a.Message
}

// backupLine is the -o json document of a backup.
type backupLine struct {
	ID          string    `json:"id"`
	Created     time.Time `json:"created"`
	Program     string    `json:"program"`
	Schema      int       `json:"schema"`
	Database    string    `json:"database"`
	Runs        int64     `json:"runs"`
	Jobs        int64     `json:"jobs"` // with an outcome of their own
	Bytes       int64     `json:"bytes"`
	Outputs     *int64    `json:"outputs"` // null: left out
	OutputBytes int64     `json:"output_bytes"`
	NewOutputs  int64     `json:"new_outputs"`
	Damaged     int64     `json:"damaged_outputs"` // of earlier backups, copied again
	Missing     int64     `json:"missing_outputs"`
	Keys        []string  `json:"keys"` // of the key ring that it is encrypted with
}

func keysText(keys []string) string {
	if len(keys) == 1 {
		return "key " + keys[0]
	}
	return "keys " + strings.Join(keys, ", ")
}

func backupDoc(m *backup.Manifest) backupLine {
	l := backupLine{ID: m.ID, Created: m.Created, Program: m.Program, Schema: m.Schema, Database: m.Database, Runs: m.Rows("runs"), Jobs: m.Rows("jobs"), Bytes: m.Size(), Keys: append([]string{}, m.Keys...)}
	if o := m.Outputs; o != nil {
		l.Outputs, l.OutputBytes, l.NewOutputs, l.Damaged, l.Missing = &o.Objects, o.Size, o.New, o.Damaged, o.Missing
	}
	return l
}

func (a *app) backupListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "ls WHERE", Short: "List the backups of a folder, bucket or file, oldest first", Args: cobra.ExactArgs(1), Example: "  turnus admin backup ls /var/backups/turnus",
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := backup.List(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(core.Map(list, backupDoc)))
			}
			cells := [][]string{{"BACKUP", "TIME", "RUNS", "LEDGER", "OUTPUTS", "KEYS", "TURNUS"}}
			for _, m := range list {
				outputs := "left out"
				if m.Outputs != nil {
					outputs = fmt.Sprintf("%d, %s", m.Outputs.Objects, console.BytesText(m.Outputs.Size))
				}
				cells = append(cells, []string{m.ID, console.LocalTime(m.Created), fmt.Sprint(m.Rows("runs")), console.BytesText(m.Size()), outputs, cmp.Or(console.Printable(strings.Join(m.Keys, ",")), "-"), console.Printable(m.Program)})
			}
			console.Table(a.Out, cells)
			return nil
		},
	}
}

func (a *app) backupVerifyCmd() *cobra.Command {
	var id string
	c := &cobra.Command{
		Use:   "verify WHERE",
		Short: "Restore a backup into a ledger that is thrown away, and look for faults",
		Long: `Restore a backup into a ledger that is thrown away, in the folder for temporary files
(TMPDIR), which needs room for it. Every file is compared with its hash, and every large
output is read. Counts and audit log are checked as turnus admin doctor does. Any machine can
verify a backup.`,
		Example: `  turnus admin backup verify /var/backups/turnus
  turnus admin backup verify /var/backups/turnus --at 20261122-093000-ab12cd`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := a.Interruptible(cmd.Context())
			defer stop()
			v, err := backup.Verify(ctx, args[0], id, a.steps())
			if err != nil {
				return err
			}
			return a.verified(v)
		},
	}
	c.Flags().StringVar(&id, "at", "", "which backup, by its id (default: the newest)")
	return c
}

// lacksOutputs describes the missing outputs of a backup; "" if it has all.
func lacksOutputs(m *backup.Manifest) string {
	if m.Outputs == nil || m.Outputs.Missing == 0 {
		return ""
	}
	return "lacks " + core.Plural(int(m.Outputs.Missing), "large output") + " that could not be found when it was made"
}

func (a *app) verified(v *backup.Verified) error {
	m := v.Manifest
	if a.Output == "json" {
		findings := v.Findings
		if findings == nil {
			findings = []ledger.Finding{}
		}
		if err := console.PrintJSON(a.Out, struct {
			Backup   backupLine       `json:"backup"`
			Sound    bool             `json:"sound"`
			Findings []ledger.Finding `json:"findings"`
		}{backupDoc(m), len(findings) == 0, findings}); err != nil {
			return err
		}
	} else {
		for _, one := range v.Findings {
			_, _ = fmt.Fprintf(a.Out, "FAULT     %s %s\n", console.Printable(one.Run), console.Printable(one.What))
		}
		if len(v.Findings) == 0 {
			text := fmt.Sprintf("sound: backup %s with %s, the audit log up to entry %d", m.ID, core.Plural(int(m.Rows("runs")), "run"), m.Audit.Seq)
			if len(m.Keys) > 0 {
				text += "; it takes the key ring with " + console.Printable(keysText(m.Keys)) + " to read it"
			}
			if lacks := lacksOutputs(m); lacks != "" {
				text += "; it " + lacks
			}
			_, _ = fmt.Fprintln(a.Out, text)
		}
	}
	if len(v.Findings) > 0 {
		return &console.Exit{Code: console.ExitFailed}
	}
	return nil
}

func (a *app) restoreCmd() *cobra.Command {
	var f service.StoreFlags
	var id string
	var without bool
	c := &cobra.Command{
		Use:   "restore WHERE",
		Short: "Fill an empty ledger from a backup, and put the large outputs back",
		Long: `Fill an empty ledger from a backup, and put the large outputs back. Stop the service first;
when it starts again it fills its queue from the ledger. All is compared with the backup's
hashes before any of it counts: after an error, or killed, the ledger is as empty as before.

Events after the backup are lost. Unfinished runs continue as after a lost queue: those whose job
types must not be repeated blindly come back paused. Missed fire times of schedules are skipped.
Tokens and approvals that were revoked since are valid again.`,
		Example: `  turnus admin restore /var/backups/turnus --data /var/lib/turnus
  turnus admin restore /var/backups/turnus --at 20261122-093000-ab12cd --data /var/lib/turnus`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := a.Interruptible(cmd.Context())
			defer stop()
			return a.restore(ctx, &f, args[0], id, without)
		},
	}
	f.Add(c)
	c.Flags().StringVar(&id, "at", "", "which backup, by its id (default: the newest)")
	c.Flags().BoolVar(&without, "no-outputs", false, "the ledger alone: large outputs are where they were, or lost")
	return c
}

func (a *app) restore(ctx context.Context, f *service.StoreFlags, where, id string, without bool) (err error) {
	if f.Ledger == "" { // a service that works there would lose what it writes
		held, err := service.OpenData(f.Data)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, held.Close()) }()
	}
	o := backup.Restoring{Where: where, ID: id, Ledger: f.LedgerURL(), Reported: a.steps()}
	if !without {
		if o.Objects, err = f.Objects(ctx, true); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.Objects.Close()) }()
	}
	began := time.Now()
	m, err := backup.Restore(ctx, o)
	if err != nil {
		return err
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, backupDoc(m))
	}
	_, _ = fmt.Fprintf(a.Out, "restored backup %s of %s: %s, in %s\n", m.ID, console.LocalTime(m.Created), core.Plural(int(m.Rows("runs")), "run"), time.Since(began).Round(10*time.Millisecond))
	a.Message("start the service: it fills its queue from the ledger. Changes since the backup are lost: check runs that come back paused, and tokens that were revoked since")
	if lacks := lacksOutputs(m); lacks != "" && o.Objects != nil {
		a.Message("the backup " + lacks)
	}
	if len(m.Keys) > 0 {
		a.Message("its data is encrypted: give the service the key ring with " + console.Printable(keysText(m.Keys)) + " (--keyring), else it does not start")
	}
	return nil
}
