package localrun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/securefile"
)

// HandlersDoc is what run keeps of the handlers of one playbook, beside the record for --retry-failed.
type HandlersDoc struct {
	Pending []api.PendingHandler `json:"pending"`
	// Open are runs on a queue that other processes work on, which this one has not seen to their ends. On their
	// hosts all handlers count as pending.
	Open []openRun `json:"open,omitempty"`
}

type openRun struct {
	Run      string    `json:"run"`
	Playbook string    `json:"playbook"`
	Since    time.Time `json:"since"`
	Handlers []string  `json:"handlers"`
	Hosts    []string  `json:"hosts"`
}

// all are the pending handlers, those of open runs among them.
func (d *HandlersDoc) all() []api.PendingHandler {
	list := slices.Clone(d.Pending)
	for _, o := range d.Open {
		for _, host := range o.Hosts {
			for _, name := range o.Handlers {
				list = append(list, api.PendingHandler{Playbook: o.Playbook, Host: host, Handler: name, Run: o.Run, Since: o.Since})
			}
		}
	}
	return list
}

// Drop takes out those that match.
func (d *HandlersDoc) Drop(match func(api.PendingHandler) bool) {
	d.Pending = slices.DeleteFunc(d.all(), match)
	d.Open = nil
}

// handlersFolder holds a file for each playbook.
func handlersFolder() (string, error) {
	dir, err := settings.StateDir()
	return filepath.Join(dir, "handlers"), err
}

// ChangeHandlers reads the file of a playbook, has it changed, and replaces it durably; other processes wait meanwhile.
func ChangeHandlers(playbook string, change func(*HandlersDoc)) error {
	dir, err := handlersFolder()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	unlock, err := lockFile(filepath.Join(dir, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	path := filepath.Join(dir, fmt.Sprintf("%x.json", playbook))
	doc, err := readHandlers(path)
	if err != nil {
		return err
	}
	change(&doc)
	if len(doc.Pending)+len(doc.Open) == 0 {
		return securefile.Remove(path)
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return securefile.Replace(path, data, 0o600)
}

func readHandlers(path string) (doc HandlersDoc, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return doc, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		return doc, fmt.Errorf("pending handlers, %s: %w", path, err)
	}
	return doc, nil
}

// LocalHandlers lists what all files hold, in the order of playbooks, hosts and handlers.
func LocalHandlers() ([]api.PendingHandler, error) {
	dir, err := handlersFolder()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	list := []api.PendingHandler{}
	for _, file := range files {
		doc, err := readHandlers(file)
		if err != nil {
			return nil, err
		}
		list = append(list, doc.all()...)
	}
	return list, nil
}

// handlersKeeper keeps the handlers of one launch of run on this machine: what a step is about to change, before it
// does, and what each host leaves.
type handlersKeeper struct {
	l      *launch.Launch
	remote bool // other processes work on the run, too

	mu      sync.Mutex
	settled map[string]core.Handlers // not written yet: what it forgets may run once more than it must
	err     error                    // the first that a result met
}

// keepHandlers gives a launch what earlier runs left, and returns what keeps its own; nil where there is nothing to keep.
func keepHandlers(l *launch.Launch, remote bool) (*handlersKeeper, error) {
	pending := map[string]core.Handlers{}
	k := &handlersKeeper{l: l, remote: remote, settled: map[string]core.Handlers{}}
	err := ChangeHandlers(l.Playbook.Name, func(doc *HandlersDoc) {
		for _, h := range doc.all() {
			pending[h.Host] = pending[h.Host].Notify([]string{h.Handler}).Replaces([]string{h.Run})
		}
		if names := l.Playbook.Notifiable(); remote && len(names) > 0 && !l.Snapshot.Check {
			doc.Open = append(doc.Open, openRun{Run: l.Run.ID, Playbook: l.Playbook.Name, Since: l.Snapshot.Launched, Handlers: names, Hosts: launchHosts(l)})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("pending handlers of playbook %s: %w", l.Playbook.Name, err)
	}
	if err := l.SetPending(pending); err != nil || l.Snapshot.Check || len(pending) == 0 && len(l.Playbook.Handlers) == 0 {
		return nil, err
	}
	return k, nil
}

func launchHosts(l *launch.Launch) []string {
	names := make([]string, len(l.Hosts))
	for i, h := range l.Hosts {
		names[i] = h.Name
	}
	return names
}

// replace writes how a host stands, and with it what was not written before.
func (k *handlersKeeper) replace(host string, h core.Handlers) error {
	k.settled[host] = h
	return k.write(false)
}

// write writes what is not written yet. Of a run that is over nothing is open.
func (k *handlersKeeper) write(over bool) error {
	run, book := k.l.Run.ID, k.l.Playbook.Name
	err := ChangeHandlers(book, func(doc *HandlersDoc) {
		if over {
			doc.Open = slices.DeleteFunc(doc.Open, func(o openRun) bool { return o.Run == run })
		}
		for i := range doc.Open { // a host of an earlier run that is settled now
			o := &doc.Open[i]
			o.Hosts = slices.DeleteFunc(o.Hosts, func(host string) bool {
				h, known := k.settled[host]
				return known && (o.Run == run || slices.Contains(h.From, o.Run))
			})
		}
		doc.Open = slices.DeleteFunc(doc.Open, func(o openRun) bool { return len(o.Hosts) == 0 })
		doc.Pending = slices.DeleteFunc(doc.Pending, func(p api.PendingHandler) bool {
			h, known := k.settled[p.Host]
			return known && (p.Run == run || slices.Contains(h.From, p.Run))
		})
		for host, h := range k.settled {
			for _, name := range h.Left() {
				doc.Pending = append(doc.Pending, api.PendingHandler{Playbook: book, Host: host, Handler: name, Run: run, Since: time.Now().UTC()})
			}
		}
		slices.SortFunc(doc.Pending, comparePending)
	})
	if err == nil {
		clear(k.settled)
	}
	return err
}

// result takes in how a host's job ended.
func (k *handlersKeeper) result(r core.Result) {
	if r.Handlers == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := r.Handlers
	if k.settled[r.Host] = *h; len(h.Pending) > 0 && !k.remote { // else what is written already holds more
		if err := k.write(false); k.err == nil {
			k.err = err
		}
	}
}

// finish writes the rest at the end of the run.
func (k *handlersKeeper) finish(over bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.err, k.write(over))
}

// handlersQueue is a queue that ends with this process: what jobs save of their handlers is also kept on disk.
type handlersQueue struct {
	queue.Queue
	keepers map[string]*handlersKeeper // by run
}

// Save keeps the handlers of a job before it says that the state is saved.
func (q *handlersQueue) Save(ctx context.Context, s queue.Save) error {
	if err := q.Queue.Save(ctx, s); err != nil {
		return err
	}
	k, h := q.keepers[s.Job.Run], launch.HandlersOf(s.State)
	if k == nil || h == nil || len(h.Pending) == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.replace(k.l.Hosts[s.Job.Index].Name, *h); err != nil {
		return fmt.Errorf("keep pending handlers: %w", err)
	}
	return nil
}

// lockFile waits until no other process holds a lock file.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// comparePending orders pending handlers by playbook, host, handler and run.
func comparePending(a, b api.PendingHandler) int {
	return cmp.Or(cmp.Compare(a.Playbook, b.Playbook), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Handler, b.Handler), cmp.Compare(a.Run, b.Run))
}
