package cli

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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/crypto/acme/autocert"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/login"
	"github.com/turnus/turnus/core/metrics"
	"github.com/turnus/turnus/core/notify"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/scale"
	"github.com/turnus/turnus/core/schedule"
	memoryschedule "github.com/turnus/turnus/core/schedule/memory"
	redisschedule "github.com/turnus/turnus/core/schedule/redis"
	sealedschedule "github.com/turnus/turnus/core/schedule/sealed"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/server"
	"github.com/turnus/turnus/core/systemd"
	"github.com/turnus/turnus/core/tlsfiles"
	"github.com/turnus/turnus/plugins/host"
)

// serviceFlags say what a service keeps, follows and listens on.
type serviceFlags struct {
	queue           queueFlags
	data, ledger    string
	definitions     string
	repo, branch    string
	repoEvery       time.Duration
	hookSecret      string
	listen          string
	insecure        bool
	tlsCert, tlsKey string
	tlsClientCA     string
	outputs         string
	retention       retentionFlags
	notify          notifyFlags
	acme            acmeFlags
	oidc            oidcFlags
	people          *login.Provider // of oidc; nil: there are tokens only
	measure         measureFlags
	scale           scaleFlags
}

// What --repo is followed by, unless told otherwise.
const (
	defaultBranch    = "main"
	defaultRepoEvery = time.Minute
)

func (f *serviceFlags) add(c *cobra.Command) {
	f.queue.add(c)
	f.notify.add(c)
	f.acme.add(c)
	f.oidc.add(c)
	f.retention.add(c)
	f.measure.add(c)
	f.scale.add(c)
	fl := c.Flags()
	fl.StringVar(&f.data, "data", "turnus-data", "folder of everything that this process keeps: ledger, large outputs, checkouts, the first token")
	fl.StringVar(&f.ledger, "ledger", os.Getenv("TURNUS_LEDGER"), "ledger: postgres://…, or sqlite:FILE (TURNUS_LEDGER; default: a file in --data)")
	fl.Lookup("ledger").DefValue = "" // --help would print the password
	readsEnvironment(fl, "ledger")
	fl.StringVar(&f.outputs, "outputs", "", "where outputs over 64 KiB are: a folder, or s3://BUCKET[/PREFIX][?endpoint=URL]; several servers share one (default: outputs in --data)")
	fl.StringVar(&f.repo, "repo", "", "repository whose definitions are followed: https, ssh, or a path")
	fl.StringVar(&f.branch, "branch", defaultBranch, "branch of --repo")
	fl.DurationVar(&f.repoEvery, "repo-every", defaultRepoEvery, "between looks at --repo; a webhook makes it look at once")
	fl.StringVar(&f.hookSecret, "webhook-secret-file", "", "file with the secret of the repository's webhook; without it no webhook is taken")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8470", "address of the API; port 0 takes a free one")
	fl.BoolVar(&f.insecure, "insecure-listen", false, "listen without TLS on an address that other machines reach: whoever listens in reads every token")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "certificate chain of the API, in PEM; read again when it is renewed")
	fl.StringVar(&f.tlsKey, "tls-key", "", "its key, in PEM")
	fl.StringVar(&f.tlsClientCA, "tls-client-ca", "", "authorities, in PEM, of which every client must have a certificate, beside its token; read again when it changes")
	namesFiles(fl, "tls-cert", "tls-client-ca")
	namesSecretFiles(fl, "webhook-secret-file", "tls-key")
}

// check refuses what contradicts itself, before anything is opened.
func (f *serviceFlags) check() error {
	if f.repo != "" && f.definitions != "" {
		return invalid("--repo and --definitions both say where the definitions are: give one")
	}
	if f.definitions != "" {
		if info, err := os.Stat(f.definitions); err != nil || !info.IsDir() {
			return invalid("--definitions %s: expected a folder with playbooks/ and inventory/ in it (docs/definitions.md)", f.definitions)
		}
	}
	if f.repo == "" && (f.branch != defaultBranch || f.repoEvery != defaultRepoEvery) {
		return invalid("--branch and --repo-every say how --repo is followed: give it, too")
	}
	if f.hookSecret != "" && f.repo == "" {
		return invalid("--webhook-secret-file needs --repo: a webhook makes the server look at its repository")
	}
	if _, err := f.notify.config(); err != nil {
		return err
	}
	if err := f.retention.check(); err != nil {
		return err
	}
	var err error
	if f.people, err = f.oidc.open(); err != nil {
		return err
	}
	if (f.tlsCert == "") != (f.tlsKey == "") {
		return invalid("--tls-cert and --tls-key go together")
	}
	if err := f.acme.check(f.tlsCert); err != nil {
		return err
	}
	if f.tlsClientCA != "" && !f.secure() {
		return invalid("--tls-client-ca needs --tls-cert or --acme-name: clients show their certificates over TLS")
	}
	if err := f.measure.check(); err != nil {
		return err
	}
	if _, err := f.scale.config(""); err != nil {
		return err
	}
	address, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return invalid("--listen %s: expected HOST:PORT, as 127.0.0.1:8470", f.listen)
	}
	if !f.secure() && !f.insecure && !core.ThisMachine(address) {
		return invalid("--listen %s: other machines reach this address, and tokens would cross the network in the clear\nhint: --tls-cert and --tls-key, or --acme-name; or, behind a proxy that ends TLS, --insecure-listen", f.listen)
	}
	return nil
}

// secure tells whether the API listens over TLS.
func (f *serviceFlags) secure() bool { return f.tlsCert != "" || len(f.acme.names) > 0 }

// service is a server with all its parts.
type service struct {
	a        *app
	f        *serviceFlags
	name     string // of this server, another one in each process
	log      *slog.Logger
	data     *dataDir
	ledger   *ledger.Ledger
	queue    queue.Queue
	ctl      *controller.Controller
	catalog  *catalog.Catalog
	api      *server.Server
	listener net.Listener
	cert     *tlsfiles.Source  // of files; nil without
	acme     *autocert.Manager // nil without ACME
	hear     net.Listener      // of challenges over HTTP; nil without
	closers  []func() error    // last opened first
	told     seldom
	metrics  *metrics.Registry
	traces   trace.TracerProvider // nil: nothing is traced
	scaling  *scale.Scaler
	took     took
	notify   *notify.Service
	secrets  *secrets.Store // of this process; who makes the service closes it after close
	began    time.Time
	stuck    func() error     // of the worker of this process; nil where there is none
	manager  *systemd.Manager // nil where systemd did not start this process
}

// open opens and makes everything; nothing runs yet. What was opened is closed by close, also after an error.
func (s *service) open(ctx context.Context, sup *host.Supervisor) error {
	var err error
	if s.f.tlsCert != "" || s.f.tlsClientCA != "" {
		if s.cert, err = tlsfiles.Open(tlsfiles.Files{Cert: s.f.tlsCert, Key: s.f.tlsKey, CA: s.f.tlsClientCA}, s.a.message); err != nil {
			return err
		}
	}
	if s.data, err = openData(s.f.data); err != nil {
		return err
	}
	s.closes(s.data.close)
	if len(s.f.acme.names) > 0 {
		if s.acme, err = s.f.acme.manager(s.data.path); err != nil {
			return err
		}
	}
	ring, err := s.f.queue.keyring.open(s.a)
	if err != nil {
		return err
	}
	if s.ledger, err = s.data.openLedger(ctx, s.f.ledger, s.f.outputs, ring); err != nil {
		return err
	}
	s.closes(s.ledger.Close)
	s.f.queue.patient = true
	if s.f.queue.url == "" {
		if s.f.queue.remains, err = s.data.remains(); err != nil {
			return err
		}
		s.f.queue.states = filepath.Join(s.data.path, "states") // the queue ends with this process; what jobs have reached does not
	}
	q, closeQueue, err := s.f.queue.open(ctx, s.a)
	if err != nil {
		return err
	}
	s.queue = q
	s.closes(closeQueue)
	if err := s.parts(sup); err != nil {
		return err
	}
	made, err := s.data.firstToken(ctx, s.ledger, "turnus")
	if err != nil {
		return err
	}
	if made {
		s.a.message("the first admin token is in " + s.data.tokenFile() + "; it is told nowhere else")
		if s.f.definitions == "" && s.f.repo == "" {
			s.a.message("there are no definitions yet: turnus apply DIR gives some; --definitions DIR or --repo URL follow some")
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
	return s.data.sign("listening on " + s.url())
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
	opts := playbookOptions(sup, nil)
	var err error
	s.name = serverName()
	s.began = time.Now()
	if s.notify, err = s.f.notify.open(s.ledger, s.name, s.secrets, s.view, s.log); err != nil {
		return err
	}
	s.metrics = s.measured()
	events := func(e controller.Event) { s.event(e) }
	s.ctl, err = controller.New(controller.Config{
		Name: s.name, Ledger: s.ledger, Queue: s.queue, Types: opts.Types, Events: events, Tell: s.keepNews, Log: s.log, Intact: s.f.queue.remains.Runs, Measure: s.measures(), Traces: s.traces,
	})
	if err != nil {
		return err
	}
	store, err := s.schedules()
	if err != nil {
		return err
	}
	cfg := catalog.Config{
		Ledger: s.ledger, Board: s.queue, Controller: s.ctl, Schedules: store, Playbooks: opts, Folder: s.f.definitions,
		Events: func(e catalog.Event) { s.catalogEvent(e) }, Log: s.log, Traces: s.traces,
	}
	var hook http.Handler
	if s.f.repo != "" {
		cfg.Follow = &definitions.FollowOptions{URL: s.f.repo, Branch: s.f.branch, Dir: filepath.Join(s.data.path, "definitions"), Every: s.f.repoEvery}
	}
	if s.catalog, err = catalog.New(cfg); err != nil {
		return err
	}
	if s.f.hookSecret != "" {
		secret, err := readToken(s.f.hookSecret)
		if err != nil {
			return fmt.Errorf("--webhook-secret-file: %w", err)
		}
		hook = definitions.Hook{Secret: []byte(secret), Poke: s.catalog.Poke}
	}
	backend := "memory"
	if s.f.queue.url != "" {
		backend = "redis"
	}
	s.api, err = server.New(server.Config{
		Ledger: s.ledger, Controller: s.ctl, Queue: s.queue, Feed: s.queue, Backend: backend, Catalog: s.catalog,
		Types: opts.Types, Hook: hook, Notify: s.notify, Login: s.f.people, Version: version, Log: s.log, Stuck: s.hangs, Traces: s.traces,
		Metrics: s.metrics, Ahead: s.f.scale.cfg.Ahead, Pool: cmp.Or(s.f.queue.pool, defaultPool),
	})
	if err != nil {
		return err
	}
	s.scaling, err = s.scaler()
	return err
}

// hangs says which loop of this process does not turn any more.
func (s *service) hangs() error {
	err := s.ctl.Stuck()
	if s.stuck != nil {
		err = errors.Join(err, s.stuck())
	}
	return err
}

// schedules is their store: beside the queue.
func (s *service) schedules() (schedule.Store, error) {
	if s.f.queue.url == "" {
		return memoryschedule.New(), nil
	}
	client, err := redisconn.Dial(s.f.queue.url)
	if err != nil {
		return nil, err
	}
	s.closes(client.Close)
	store, err := redisschedule.New(client, redisschedule.Options{})
	if err != nil {
		return nil, err
	}
	ring, err := s.f.queue.keyring.open(s.a)
	if err != nil {
		return nil, err
	}
	return sealedschedule.New(store, ring), nil
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

// webStop is how long requests that are under way may take when the service stops.
const webStop = 5 * time.Second

// run serves until ctx ends or a part fails. Then, in this order: the API takes nothing new; drain, which has the
// worker of this process end; what it did is recorded; controller and catalog leave what is not over to others, or to the
// next start; what this process's own queue has reached is kept for that.
func (s *service) run(ctx context.Context, drain func() error) error {
	if err := s.data.forgetRemains(); err != nil {
		return errors.Join(err, drain())
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.ctl.Run(life) })
	wg.Go(func() { s.notify.Run(life) })
	wg.Go(func() {
		if err := s.catalog.Run(life); err != nil {
			failed(err)
		}
	})
	wg.Go(func() { s.forget(life) })
	wg.Go(func() { s.scaling.Run(stop) })
	web := server.HTTP(s.api, s.log)
	web.BaseContext = func(net.Listener) context.Context { return stop }
	if s.acme != nil {
		web.Handler = afterChallenge(web.Handler)
		s.answerChallenges(stop, &wg)
	}
	wg.Go(func() {
		if err := s.serve(web); !errors.Is(err, http.ErrServerClosed) {
			failed(fmt.Errorf("API: %w", err))
		}
	})
	s.a.mind(s.manager.Ready(s.hangs))
	<-stop.Done()
	cause := context.Cause(stop)
	s.a.mind(s.manager.Stopping())
	down, cancel := context.WithTimeout(life, webStop)
	if err := web.Shutdown(down); err != nil {
		_ = web.Close()
	}
	cancel()
	s.api.Close()
	err := drain()
	s.settle(life)
	end()
	wg.Wait()
	err = errors.Join(err, s.keepQueue(context.WithoutCancel(ctx)))
	if cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

func (s *service) serve(web *http.Server) error {
	if s.f.secure() {
		web.TLSConfig = s.tlsConfig()
		return web.ServeTLS(s.listener, "", "")
	}
	return web.Serve(s.listener)
}

// settleFor is how long a service that stops waits for what its own queue, which ends with it, has to be recorded.
const settleFor = 10 * time.Second

// settle waits until the outcomes in this process's own queue are in the ledger. Those of a queue in Redis stay there.
func (s *service) settle(ctx context.Context) {
	if s.f.queue.url != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !s.settled(ctx) {
		select {
		case <-ctx.Done():
			s.a.message(s.a.paint(yellow, "warning: ") + "not all outcomes were recorded in time; those jobs run again after the next start, or are held")
			return
		case <-tick.C:
		}
	}
}

func (s *service) settled(ctx context.Context) bool {
	for page := (ledger.Page{Limit: 1000}); ; {
		runs, next, err := s.ledger.Unfinished(ctx, page)
		if err != nil {
			return false
		}
		for i := range runs {
			if !recorded(ctx, s.queue, runs[i]) {
				return false
			}
		}
		if next == "" {
			return true
		}
		page.After = next
	}
}

// count counts an event for metrics; before there is an API, as while definitions are read at the start, nobody asks for them.
func (s *service) count(kind string) {
	if s.api != nil {
		s.api.CountEvent(kind)
	}
}

// event tells the operator what a controller does, in few words.
func (s *service) event(e controller.Event) {
	s.count(string(e.Kind))
	switch e.Kind {
	case controller.WindowMissed, controller.RunRefused: // keepNews has them
	default:
		s.tell(newsOf(e))
	}
	switch e.Kind {
	case controller.QueueAway:
		s.a.message(s.a.paint(yellow, "the queue does not answer; runs are accepted and wait: ") + e.Err.Error())
	case controller.QueueBack:
		s.a.message("the queue answers again")
	case controller.QueueLost:
		s.a.message(s.a.paint(yellow, "the queue was emptied") + ", and is filled again from the ledger")
	case controller.RunHeld:
		s.a.message(s.a.paint(yellow, "run "+e.Run+" is paused: ") + e.Reason)
	case controller.RunRepeated:
		s.a.message(s.a.paint(yellow, "run "+e.Run+" was repeated in part: ") + plural(e.Count, "job") + " ended a second time; what was recorded first counts")
	case controller.RunEnded:
		s.notify.Poke()
		s.catalog.Ended(e.Run)
		if e.Status != nil {
			s.metrics.Add(metrics.RunsEnded, 1, e.Status.Tenant, string(e.Status.Phase))
			s.a.message(fmt.Sprintf("run %s is %s: %s", e.Run, e.Status.Phase, outcomeText(e.Status.Outcomes)))
		}
	}
}

func (s *service) catalogEvent(e catalog.Event) {
	s.count(string(e.Kind))
	s.countFire(e)
	s.tell(newsOfCatalog(e, s.catalogSet()))
	switch e.Kind {
	case catalog.DefinitionsChanged:
		set := s.catalog.Set()
		if set != nil {
			s.a.message(fmt.Sprintf("definitions: %s, %s, from %s", plural(len(set.Playbooks), "playbook"), plural(len(set.Inventory.Hosts), "host"), cmp.Or(e.By, "the ledger")))
			s.a.warnOf(set)
			s.tellUnapproved()
		}
	case catalog.DefinitionsRejected:
		s.a.message(s.a.paint(red, "definitions are not taken, the last good ones hold: ") + reasoned(e))
	case catalog.FireLaunched:
		s.a.message(fmt.Sprintf("schedule %s launches run %s", e.Schedule, e.Run))
	case catalog.FireSkipped:
		s.a.message(fmt.Sprintf("schedule %s skips a fire: %s", e.Schedule, e.Reason))
	case catalog.FireFailed, catalog.Trouble:
		if text := strings.TrimSpace(fmt.Sprintf("%s %s: %v", e.Schedule, e.Reason, e.Err)); s.told.news(text) {
			s.a.message(s.a.paint(yellow, "trouble: ") + text)
		}
	}
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

// reasoned is why definitions are not taken: which ones, and what is wrong with them.
func reasoned(e catalog.Event) string {
	if e.Reason == "" {
		return fmt.Sprint(e.Err)
	}
	return e.Reason + ": " + fmt.Sprint(e.Err)
}
