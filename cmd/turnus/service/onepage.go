package service

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/pages"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/server"
	"github.com/turnus/turnus/playbooks"
)

// Own has the parts from which the pages of a person's own runs are made.
type Own struct {
	Ledger     *ledger.Ledger
	Controller *controller.Controller
	Queue      encrypted.Backend // of the runs, with their events
	Types      func(name string) (playbooks.Type, bool)
	Who        string
	Log        *slog.Logger
}

// ServePages serves the pages of a person's own runs to browsers of this machine, by the code of a
// service. They show everything and change nothing. link leads one browser to next. end stops
// serving.
func ServePages(ctx context.Context, o Own, next string) (link string, end func(), err error) {
	defs, err := catalog.New(catalog.Config{Ledger: o.Ledger, Board: o.Queue, Controller: o.Controller})
	if err != nil {
		return "", nil, err
	}
	api, err := server.New(server.Config{
		Ledger: o.Ledger, Controller: o.Controller, Queue: o.Queue, Board: o.Queue, Feed: o.Queue, Catalog: defs, Backend: "memory", Types: o.Types, Version: settings.Version(), Log: o.Log,
	})
	if err != nil {
		return "", nil, err
	}
	secret := rand.Text()
	p, err := pages.New(pages.Config{API: bearerOnly(secret, api.Viewing(o.Who)), Version: settings.Version(), Log: o.Log})
	if err != nil {
		api.Close()
		return "", nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		api.Close()
		return "", nil, fmt.Errorf("serve the page of the run: %w", err)
	}
	at := listener.Addr().String()
	web := server.HTTP(onlyHost(at, p), o.Log)
	done := make(chan struct{})
	go func() { // it ends with Close
		defer close(done)
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Warn("the page of the run is not served any more", "err", err)
		}
	}()
	return "http://" + at + p.Link(secret, next), func() { _ = web.Close(); <-done; api.Close() }, nil
}

// bearerOnly lets requests through that have the secret of this process.
func bearerOnly(secret string, next http.Handler) http.Handler {
	wanted := []byte("Bearer " + secret)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), wanted) != 1 {
			http.Error(w, "unknown token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// onlyHost refuses requests by another name: a page of another site could have it lead here.
func onlyHost(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != host {
			http.Error(w, "this page is served at http://"+host, http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
