package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/playbooks"
)

// Config says what a server answers from. Ledger, Controller and Queue must be set.
type Config struct {
	Ledger     *ledger.Ledger
	Controller *controller.Controller
	Queue      queue.Queue
	// Definitions are the newest valid ones; nil before the first.
	Definitions func() *definitions.Set
	// Windows are those of the definitions, with the name under which workers find them.
	Windows func() (book *gate.Book, board string)
	Types   func(name string) (playbooks.Type, bool)
	Version string
	Log     *slog.Logger // discarded when nil
}

// Server answers the API. It is an http.Handler, safe for concurrent use, and starts no goroutine.
type Server struct {
	cfg Config
	mux *http.ServeMux
	api huma.API
}

// New registers all routes.
func New(cfg Config) (*Server, error) {
	if cfg.Ledger == nil || cfg.Controller == nil || cfg.Queue == nil {
		return nil, fmt.Errorf("server: a ledger, a controller and a queue are needed: %w", core.ErrInvalid)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, mux: http.NewServeMux()}
	config := huma.DefaultConfig("Turnus", cfg.Version)
	config.CreateHooks = nil // no $schema in what is answered
	config.DocsPath = ""     // its page would load a script from elsewhere
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{bearer: {Type: "http", Scheme: "bearer"}}
	s.api = humago.New(s.mux, config)
	s.runs()
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// OpenAPI is the document that describes the API.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.api.OpenAPI() }

// route is one operation. Role is the least that its caller must have.
type route struct {
	id, method, path, summary string
	role                      Role
	status                    int // of success; huma's choice when zero
}

// handle registers a route.
func handle[I, O any](s *Server, r route, fn func(ctx context.Context, by caller, in *I) (*O, error)) {
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: r.path, Summary: r.summary, DefaultStatus: r.status,
		Security: []map[string][]string{{bearer: {string(r.role)}}}, RejectUnknownQueryParameters: true,
		Middlewares: huma.Middlewares{s.authenticate(r.role)},
	}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := fn(ctx, callerOf(ctx), in)
		if err != nil {
			return nil, s.problem(ctx, r, err)
		}
		return out, nil
	})
}
