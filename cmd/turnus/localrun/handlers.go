package localrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/snapshot"
)

// savingQueue is a queue that ends with this process: what jobs save of their handlers is recorded
// as well.
type savingQueue struct {
	encrypted.Backend
	c *Conductor
}

// Save records the handlers of a job before it reports that the state is saved.
func (q *savingQueue) Save(ctx context.Context, s queue.Save) error {
	if err := q.Backend.Save(ctx, s); err != nil {
		return err
	}
	p, h := q.c.part(s.Job.Run), snapshot.HandlersOf(s.State)
	if p == nil || h == nil || len(h.Pending) == 0 {
		return nil
	}
	l := p.Launch
	if err := q.c.replaceHandlers(ctx, ledger.Run{ID: l.Run.ID, Tenant: l.Run.Tenant, Playbook: l.Playbook.Name}, l.Hosts[s.Job.Index].Name, *h); err != nil {
		return fmt.Errorf("record pending handlers: %w", err)
	}
	return nil
}

// removed returns the pending handlers that the playbook no longer has, with the file:line where an
// earlier run had them; "" if no record has it.
func (c *Conductor) removed(ctx context.Context, p *Part, results []api.Result) map[string]string {
	places, read, snapshots := map[string]string{}, map[[2]string]bool{}, map[string][]byte{}
	record, books := core.Locked(&c.mu, &c.record), &launch.Restorer{Types: c.types}
	for _, res := range results {
		if res.Handlers == nil {
			continue
		}
		for _, name := range res.Handlers.Pending {
			if p.Launch.Playbook.Handler(name) >= 0 {
				continue
			}
			places[name] += ""
			for _, run := range res.Handlers.From {
				if places[name] != "" || read[[2]string{run, name}] {
					continue
				}
				read[[2]string{run, name}] = true
				if _, known := snapshots[run]; !known {
					m, _ := record.Ledger.Material(ctx, run) // without it the place is not known
					snapshots[run] = m.Snapshot
				}
				places[name] = books.HandlerPlace(snapshots[run], name)
			}
		}
	}
	return places
}

// oldHandlers is the folder in which versions without a record kept pending handlers: a file for
// each playbook.
const oldHandlers = "handlers"

// importHandlers brings what an older version kept into the record, once. The caller has the lock.
func (r *Record) importHandlers(ctx context.Context, con *console.Console, state string) error {
	files, err := filepath.Glob(filepath.Join(state, oldHandlers, "*.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		all, err := readOldHandlers(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil { // reported again until somebody has read it
			con.Report(con.Paint(console.Yellow, "warning: ") + "pending handlers of an earlier version cannot be read: " + core.ErrorText(err) + "\nhint: call the restarts that it names, then remove it: rm " + file)
			continue
		}
		if err := r.Ledger.ImportHandlers(ctx, all); err != nil {
			return err
		}
		if err := securefile.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

func readOldHandlers(path string) ([]ledger.PendingHandler, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Pending []ledger.PendingHandler `json:"pending"`
		Open    []struct {
			Run      string    `json:"run"`
			Playbook string    `json:"playbook"`
			Since    time.Time `json:"since"`
			Handlers []string  `json:"handlers"`
			Hosts    []string  `json:"hosts"`
		} `json:"open"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	all := doc.Pending
	for _, o := range doc.Open {
		for _, host := range o.Hosts {
			for _, name := range o.Handlers {
				all = append(all, ledger.PendingHandler{Playbook: o.Playbook, Host: host, Handler: name, Run: o.Run, Since: o.Since})
			}
		}
	}
	return all, nil
}
