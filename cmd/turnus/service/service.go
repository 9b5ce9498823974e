// Package service owns the assembly of the service from its settings: turnus up, turnus server, and
// the parts that other processes share with them, as queue, key ring, ledger, logs and traces.
//
// It must not know how commands are parsed, nor what a route, a run or a schedule means.
package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/crypto/acme/autocert"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/service/scale"
	"github.com/turnus/turnus/cmd/turnus/service/systemd"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify"
	"github.com/turnus/turnus/core/pages"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/server"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/plugins/host"
)

// service is a server with all its parts.
type service struct {
	con      *console.Console
	f        *Flags
	name     string // of this server, another one in each process
	log      *slog.Logger
	data     *DataDir
	ring     *keyring.Ring // nil: nothing is encrypted
	ledger   *ledger.Ledger
	queue    encrypted.Backend
	ctl      *controller.Controller
	catalog  *catalog.Catalog
	api      *server.Server
	pages    *pages.Pages
	listener net.Listener
	cert     *securefile.TLSSource // of files; nil without
	acme     *autocert.Manager     // nil without ACME
	polls    *acmePolls            // of its CA
	hear     net.Listener          // of challenges over HTTP; nil without
	closers  []func() error        // last opened first
	messages console.MessageLimiter
	metrics  *telemetry.Registry
	traces   trace.TracerProvider // nil: nothing is traced
	scaling  *scale.Scaler
	took     took
	notify   *notify.Service
	enqueued chan string    // runs whose forecast must be kept
	configs  *configs.Repo  // of the worker of this process; nil without
	secrets  *secrets.Store // of this process; the maker of the service closes it after close
	began    time.Time
	stuck    func() error     // of the worker of this process; nil where there is none
	manager  *systemd.Manager // nil where systemd did not start this process
}

// open opens and makes everything; nothing runs yet. Callers close it with close, also after an
// error.
func (s *service) open(ctx context.Context, sup *host.Supervisor) error {
	settings.WorkHeap()
	var err error
	if s.f.tlsCert != "" || s.f.tlsClientCA != "" {
		if s.cert, err = securefile.OpenTLS(securefile.TLSFiles{Cert: s.f.tlsCert, Key: s.f.tlsKey, CA: s.f.tlsClientCA}, s.con.Message); err != nil {
			return err
		}
	}
	if s.data, err = OpenData(s.f.data); err != nil {
		return err
	}
	s.closes(s.data.Close)
	if len(s.f.acme.names) > 0 {
		if s.acme, s.polls, err = s.f.acme.manager(s.data.Path); err != nil {
			return err
		}
	}
	if s.ring, err = s.f.Queue.Keyring.Open(s.con); err != nil {
		return err
	}
	if s.f.Queue.URL != "" { // first: beside workers of a former version it is refused, and then the ledger stays as theirs
		if err := s.openQueue(ctx); err != nil {
			return err
		}
	}
	if s.ledger, err = s.data.OpenLedger(ctx, s.f.Ledger, s.f.outputs, s.ring); err != nil {
		return err
	}
	s.closes(s.ledger.Close)
	if s.f.Queue.URL == "" {
		if s.f.Queue.remains, err = s.data.remains(ctx, s.ledger); err != nil {
			return err
		}
		s.f.Queue.states = filepath.Join(s.data.Path, "states") // the queue ends with this process; what jobs have reached does not
		if err := s.openQueue(ctx); err != nil {
			return err
		}
	}
	if err := s.parts(sup); err != nil {
		return err
	}
	made, former, err := s.data.firstToken(ctx, s.ledger, "turnus")
	if err != nil {
		return err
	}
	if former != "" {
		s.con.Report(s.con.Paint(console.Yellow, "warning: ") + s.data.usedBefore(former))
	}
	if made {
		s.con.Message("the first admin token is in " + s.data.tokenFile() + "; it is shown nowhere else")
		if s.f.Project == "" && s.f.repo == "" {
			s.con.Message("there is no project yet: turnus project apply DIR gives one; --project DIR or --repo URL follow one")
		}
	}
	if s.listener, err = listen(ctx, "--listen", s.f.listen); err != nil {
		return err
	}
	s.closes(func() error { _ = s.listener.Close(); return nil }) // the web server has closed it, mostly
	if s.f.acme.http != "" {
		if s.hear, err = listen(ctx, "--acme-http", s.f.acme.http); err != nil {
			return err
		}
		s.closes(func() error { _ = s.hear.Close(); return nil })
	}
	return s.data.sign("listening on " + s.url() + " at " + s.listener.Addr().String()) // as holderOf reads it
}

func (s *service) openQueue(ctx context.Context) error {
	s.f.Queue.patient = true
	q, closeQueue, err := s.f.Queue.Open(ctx, s.con)
	if err != nil {
		return err
	}
	s.queue = q
	s.closes(closeQueue)
	return nil
}

// listen names the flag in its errors.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %w\nhint: another process has this address, perhaps another turnus: %s 127.0.0.1:0 takes a free port", flag, err, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

// parts makes controller, catalog and API.
func (s *service) parts(sup *host.Supervisor) error {
	opts := node.PlaybookOptions(sup, nil)
	var err error
	s.name = serverName()
	s.began = time.Now()
	if s.notify, err = s.f.notify.open(s.ledger, s.name, s.secrets, s.view, s.log); err != nil {
		return err
	}
	s.metrics, s.enqueued = s.measured(), make(chan string, expectLine)
	events := func(e controller.Event) { s.event(e) }
	s.ctl, err = controller.New(controller.Config{
		Name: s.name, Ledger: s.ledger, Queue: s.queue, Board: s.queue, Types: opts.Types, Events: events, Report: s.keepNews, Log: s.log, Intact: s.f.Queue.remains.Runs, Measure: s.measures(), Traces: s.traces,
	})
	if err != nil {
		return err
	}
	cfg := catalog.Config{
		Ledger: s.ledger, Board: s.queue, Controller: s.ctl, Playbooks: opts, Folder: s.f.Project,
		Pool:   cmp.Or(s.f.Queue.Pool, node.DefaultPool),
		Events: func(e catalog.Event) { s.catalogEvent(e) }, Log: s.log, Traces: s.traces,
	}
	if err := s.f.hosts.configure(&cfg, s.secrets); err != nil {
		return err
	}
	var hook http.Handler
	if s.f.repo != "" {
		cfg.Follow = &definitions.FollowOptions{URL: s.f.repo, Branch: s.f.branch, Dir: filepath.Join(s.data.Path, "definitions"), Every: s.f.repoEvery}
	}
	if s.catalog, err = catalog.New(cfg); err != nil {
		return err
	}
	if s.f.hookSecret != "" {
		secret, err := settings.ReadTokenFile(s.f.hookSecret)
		if err != nil {
			return fmt.Errorf("--webhook-secret-file: %w", err)
		}
		hook = definitions.Hook{Secret: []byte(secret), Notify: s.catalog.Notify}
	}
	backend := "memory"
	if s.f.Queue.URL != "" {
		backend = "redis"
	}
	s.api, err = server.New(server.Config{
		Ledger: s.ledger, Controller: s.ctl, Queue: s.queue, Board: s.queue, Feed: s.queue, Backend: backend, Catalog: s.catalog,
		Types: opts.Types, Configs: s.configs, Hook: hook, Notify: s.notify, Login: s.f.people, Version: settings.Version(), Settings: s.f.Settings, Log: s.log, Stuck: s.hangs, Traces: s.traces,
		Metrics: s.metrics, Ahead: s.f.scale.cfg.Ahead, Pool: cmp.Or(s.f.Queue.Pool, node.DefaultPool),
	})
	if err != nil {
		return err
	}
	if s.pages, err = pages.New(pages.Config{API: s.api, Version: settings.Version(), Log: s.log, Login: s.f.people, Keyring: s.ring}); err != nil {
		return err
	}
	s.scaling, err = s.scaler()
	return err
}

// hangs names a loop of this process that does not turn any more.
func (s *service) hangs() error {
	err := s.ctl.Stuck()
	if s.stuck != nil {
		err = errors.Join(err, s.stuck())
	}
	return err
}

// serverName is another one in each process that runs.
func serverName() string {
	name, err := os.Hostname()
	if err != nil {
		name = "server"
	}
	var random [3]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	return fmt.Sprintf("%s-%d-%s", name, os.Getpid(), hex.EncodeToString(random[:]))
}

func (s *service) closes(f func() error) { s.closers = append(s.closers, f) }

// close closes what was opened, in turn.
func (s *service) close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// url is how the API is reached from this machine.
func (s *service) url() string {
	scheme := "http"
	if s.f.secure() {
		scheme = "https"
	}
	address, port, err := net.SplitHostPort(s.listener.Addr().String())
	if ip := net.ParseIP(address); err == nil && ip != nil && ip.IsUnspecified() {
		address = "127.0.0.1"
	}
	if s.acme != nil { // its certificate is for no address
		address = s.f.acme.names[0]
	}
	return scheme + "://" + net.JoinHostPort(address, port)
}

// inventory is that of the current definitions: jump hosts and passwords do not travel with a job.
func (s *service) inventory() *inventory.Inventory {
	if set := s.catalogSet(); set != nil {
		return set.Inventory
	}
	return nil
}

// catalogSet is the current definitions; nil before the first.
func (s *service) catalogSet() *definitions.Set {
	if s.catalog == nil {
		return nil
	}
	return s.catalog.Set()
}
