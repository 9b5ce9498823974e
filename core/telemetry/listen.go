package telemetry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/turnus/turnus/core"
)

// ListenConfig defines where a node that has no API is asked how it is, and who may ask.
type ListenConfig struct {
	Address string       // HOST:PORT; port 0 takes a free one
	Token   string       // a scrape must bring it as a bearer; "" asks for none
	TLS     *tls.Config  // nil: no TLS
	Clients bool         // TLS lets in only clients with a certificate of a CA that it knows
	Log     *slog.Logger // discarded when nil
}

// listenStop is how long requests that are under way may take when the listener is closed.
const listenStop = time.Second

// Listener answers HTTP beside a node's work. Safe for concurrent use.
type Listener struct {
	cfg  ListenConfig
	tcp  net.Listener
	mux  *http.ServeMux
	web  *http.Server
	done chan struct{}
}

// Listen binds the address and serves immediately. An address that other machines reach needs TLS,
// and a token or Clients; else the error wraps core.ErrInvalid. Close ends it.
func Listen(ctx context.Context, c ListenConfig) (*Listener, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	tcp, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	l := &Listener{cfg: c, tcp: tcp, mux: http.NewServeMux(), done: make(chan struct{})}
	l.web = &http.Server{
		Handler: l.mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), TLSConfig: c.TLS,
	}
	go func() {
		defer close(l.done)
		err := l.serve()
		if err != nil && !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("the listener for metrics has ended", "err", err)
		}
	}()
	return l, nil
}

func (l *Listener) serve() error {
	if l.cfg.TLS != nil {
		return l.web.ServeTLS(l.tcp, "", "")
	}
	return l.web.Serve(l.tcp)
}

// check refuses an address on which strangers could read the metrics.
func (c *ListenConfig) check() error {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return fmt.Errorf("address %q: expected HOST:PORT, as 127.0.0.1:9470: %w", c.Address, core.ErrInvalid)
	}
	if core.ThisMachine(host) {
		return nil
	}
	if c.TLS == nil || c.Token == "" && !c.Clients {
		return fmt.Errorf("address %s: other machines reach it: it needs TLS, and a token or a CA for client certificates: %w", c.Address, core.ErrInvalid)
	}
	return nil
}

// Addr is where it listens.
func (l *Listener) Addr() string { return l.tcp.Addr().String() }

// Handle serves a pattern of http.ServeMux to clients with the token. It may be called while the
// listener serves.
func (l *Listener) Handle(pattern string, h http.Handler) {
	l.mux.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.admits(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="turnus"`)
			http.Error(w, "a token is needed: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
}

// HandleOpen serves a pattern to every client that reaches the listener, without a token.
func (l *Listener) HandleOpen(pattern string, h http.Handler) { l.mux.Handle(pattern, h) }

func (l *Listener) admits(r *http.Request) bool {
	if l.cfg.Token == "" {
		return true
	}
	want, got := sha256.Sum256([]byte("Bearer "+l.cfg.Token)), sha256.Sum256([]byte(r.Header.Get("Authorization")))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// Close ends it, after requests that are under way.
func (l *Listener) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), listenStop)
	defer cancel()
	err := l.web.Shutdown(ctx)
	if err != nil {
		err = l.web.Close()
	}
	<-l.done
	return err
}
