package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/login"
	"github.com/turnus/turnus/core/notify"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/playbooks"
)

// Config holds what a server answers from. Ledger, Controller, Queue, Board and Catalog must be
// set.
type Config struct {
	Ledger     *ledger.Ledger
	Controller *controller.Controller
	Queue      queue.Queue
	Board      board.Board // of the same backend
	// Backend names the kind of queue: memory or redis.
	Backend string
	// Elsewhere is set where unfinished runs are in queues of other processes, and nobody can be asked
	// for the state of their jobs.
	Elsewhere bool
	// Feed carries the live events of runs, each an api.Event in JSON under the run's id. Nil: streams
	// have what is recorded only, as soon as it is.
	Feed board.Feed
	// Catalog has the definitions, their windows and the schedules.
	Catalog *catalog.Catalog
	Types   func(name string) (playbooks.Type, bool)
	// Configs has the kept versions of hosts' configurations; nil: they are elsewhere.
	Configs *configs.Repo
	// Stuck returns why the process does not do its work any more and must be replaced; nil where
	// nothing is known to hang.
	Stuck func() error
	// Hook takes push events of the definitions' repository; nil refuses them.
	Hook http.Handler
	// Login verifies people by OpenID Connect; nil: there are tokens only.
	Login *login.Provider
	// Notify sends notifications; nil: there are no channels.
	Notify  *notify.Service
	Version string
	// Settings are those that the process started with, by name and without secrets.
	Settings []api.Setting
	// Metrics counts and exports; nil makes one.
	Metrics *telemetry.Registry
	// Pool is the one whose queue this is. A launch on hosts of another one is refused.
	Pool string
	// Ahead is the time span of turnus_queue_soon.
	Ahead time.Duration
	Log   *slog.Logger // discarded when nil
	// Traces makes the spans of requests that change something; nil makes none.
	Traces trace.TracerProvider
}

// Limits of one server's concurrent work.
const (
	maxHeavy       = 3                // requests with large bodies: they are read into memory
	maxStreams     = 2000             // in all
	tenantsStreams = 1800             // of all tenants together: the rest is the provider's
	tenantStreams  = 256              // of one tenant
	personStreams  = 64               // of one person
	requestTime    = 30 * time.Second // of what is not a stream
	writeTime      = 60 * time.Second // of an answer that is not a stream, however slowly it is read
	smallBody      = 1 << 20
	readBody       = 10 * time.Second
	hookBody       = time.Minute // of a webhook, which may be large
)

// Server answers the API. It is an http.Handler, safe for concurrent use. It has a goroutine for
// each run that is watched, until the last watcher has gone; Close waits for them.
type Server struct {
	cfg         Config
	ledger      core.Outage // as requests and probes meet it
	mux         *http.ServeMux
	api         huma.API
	tokens      *tokenCache
	heavy       chan struct{} // taken by requests with large bodies
	streams     *streams
	plans       planCache
	estimates   estimates
	sheets      sheets
	forecasting chan struct{} // taken by the one forecast of a plan that is made
	feeding     chan struct{} // taken by calendar feeds that are made
	broadcaster *broadcaster
	metrics     *telemetry.Registry
	census      census
	used        usedTime
	changes     changes
	workTimes   workTimes
}

// New registers all routes.
func New(cfg Config) (*Server, error) {
	if cfg.Ledger == nil || cfg.Controller == nil || cfg.Queue == nil || cfg.Board == nil || cfg.Catalog == nil {
		return nil, fmt.Errorf("server: a ledger, a controller, a queue and a catalog are needed: %w", core.ErrInvalid)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	strictNames()
	s := &Server{
		cfg: cfg, mux: http.NewServeMux(), tokens: newTokenCache(cfg.Ledger.Authenticate), heavy: make(chan struct{}, maxHeavy), forecasting: make(chan struct{}, 1), feeding: make(chan struct{}, feedsAtOnce),
		streams:     &streams{all: maxStreams, tenants: tenantsStreams, tenant: tenantStreams, person: personStreams, open: map[string]int{}},
		broadcaster: newBroadcaster(cfg.Feed),
	}
	s.measure()
	config := huma.DefaultConfig("Turnus", cfg.Version)
	config.CreateHooks = nil // no $schema in what is answered
	config.Formats = map[string]huma.Format{"application/json": strictJSON(), "json": strictJSON()}
	config.Transformers = append(config.Transformers, brief)
	config.DocsPath = "" // its page would load a script from elsewhere
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{bearer: {Type: "http", Scheme: "bearer"}}
	s.api = humago.New(s.mux, config)
	s.health()
	s.scrape()
	s.profiling()
	s.runs()
	s.exec()
	s.hostKeys()
	s.control()
	s.jobs()
	s.forecasts()
	s.grid()
	s.planning()
	s.outputs()
	s.events()
	s.changesRoute()
	s.audit()
	s.exports()
	s.people()
	s.inventory()
	s.fleet()
	s.calendarRoute()
	s.feeds()
	s.shares()
	s.shareHistory()
	s.windowSets()
	s.approvals()
	s.nodes()
	s.schedules()
	s.definitions()
	s.notifications()
	s.handlers()
	s.facts()
	s.locks()
	s.configs()
	s.sources()
	s.plainRoutes()
	s.logins()
	return s, nil
}

// Close waits for what the server has begun. Requests that are under way get no live events any
// more.
func (s *Server) Close() { s.broadcaster.close() }

// plainRoutes are those that are no part of the document: what no route matches, and the webhook,
// whose sender decides what it looks like.
func (s *Server) plainRoutes() {
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		plainProblem(w, http.StatusNotFound, "there is no "+r.Method+" "+clip(r.URL.Path, 200)+": see /openapi.json")
	})
	if s.cfg.Hook != nil {
		s.mux.HandleFunc("/hooks/definitions", func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(hookBody))
			s.cfg.Hook.ServeHTTP(w, r)
		})
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		if fault == http.ErrAbortHandler { //nolint:errorlint // a sentinel that is panicked with
			panic(fault)
		}
		path := r.URL.Path
		if strings.HasPrefix(path, FeedPath) { // the rest is a secret
			path = FeedPath
		}
		s.cfg.Log.Error("a request made the server panic", "method", r.Method, "path", clip(path, 200), "panic", fault, "stack", string(debug.Stack()))
		plainProblem(w, http.StatusInternalServerError, faultText)
	}()
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	s.mux.ServeHTTP(w, r)
}

// HTTP is a server of the handler with bounds on what a peer may cost: time to send its header and
// its body and to read the response, the header's size, and idle connections. A handler may set
// other deadlines for one response. The caller serves and shuts it down.
func HTTP(h http.Handler, log *slog.Logger) *http.Server {
	bounded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctl := http.NewResponseController(w)
		_ = ctl.SetWriteDeadline(time.Now().Add(writeTime))
		if r.ContentLength != 0 { // net/http waits forever for the rest of a body that no handler reads
			_ = ctl.SetReadDeadline(time.Now().Add(readBody))
		}
		h.ServeHTTP(w, r)
	})
	return &http.Server{
		Handler: bounded, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// OpenAPI is the document that describes the API.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.api.OpenAPI() }

// route is one operation.
type route struct {
	id, method, path, summary string
	detail                    string
	role                      Role           // the least that its caller must have
	permit                    api.Permission // that its caller must have beside the role; "" is none
	everyone                  bool           // it is the provider's: tokens of a single tenant are refused
	status                    int            // of success; huma's choice when zero
	maxBody                   int64          // bytes; smallBody when zero
	bodyTime                  time.Duration  // readBody when zero
	stream                    bool           // ends when the caller goes away, or with what it follows
	content                   string         // type of an answer that is no JSON
	unchecked                 bool           // the operation validates the body
	deprecated                bool           // it has another path now
	raw                       bool           // the body is read by the operation, as it comes: it is never in memory as a whole
}

// rawBody is where the context has the body of a raw route.
type rawBody struct{}

// extension is the key by which the document marks a route for tokens of all tenants only.
const extension = "x-all-tenants"

// handle registers a route.
func handle[I, O any](s *Server, r route, fn func(ctx context.Context, by caller, in *I) (*O, error)) {
	scopes := []string{string(r.role)}
	if r.permit != "" {
		scopes = append(scopes, string(r.permit))
	}
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: r.path, Summary: r.summary, Description: r.detail, DefaultStatus: r.status,
		Tags:     []string{strings.Split(strings.TrimPrefix(r.path, "/v1/"), "/")[0]},
		Security: []map[string][]string{{bearer: scopes}}, RejectUnknownQueryParameters: true,
		Middlewares: huma.Middlewares{s.count(r), s.logged(r), s.authenticate(r), s.traced(r)}, MaxBodyBytes: r.maxBody, BodyReadTimeout: r.bodyTime,
		SkipValidateBody: r.unchecked, Deprecated: r.deprecated,
	}
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = smallBody
	}
	if op.BodyReadTimeout == 0 {
		op.BodyReadTimeout = readBody
	}
	if r.everyone {
		op.Extensions = map[string]any{extension: true}
	}
	if r.raw {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}}
	}
	if r.content != "" {
		op.Responses = map[string]*huma.Response{"200": {
			Description: "OK", Content: map[string]*huma.MediaType{r.content: {Schema: &huma.Schema{Type: huma.TypeString}}},
		}}
	}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		if !r.stream {
			limited, cancel := context.WithTimeout(ctx, requestTime+r.bodyTime)
			defer cancel()
			ctx = limited
		}
		var out *O
		err := checkReason(in)
		if err == nil {
			out, err = fn(ctx, callerOf(ctx), in)
		}
		if err != nil {
			return nil, s.problem(r, orStops(ctx, err))
		}
		return out, nil
	})
}

// checkReason refuses the reason in the body of a request as core.CheckReason does, and takes the
// spaces around it away. Every route whose body has one has it by this name.
func checkReason(in any) error {
	body := reflect.ValueOf(in).Elem().FieldByName("Body")
	if body.Kind() != reflect.Struct {
		return nil
	}
	reason := body.FieldByName("Reason")
	if reason.Kind() != reflect.String {
		return nil
	}
	text, err := core.CheckReason(reason.String())
	if err == nil {
		reason.SetString(text)
	}
	return err
}

// clip cuts a text that a stranger sent.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
