// Package notify owns telling a webhook what happened: signed, repeated until it is taken, and never in anybody's way. It must not
// know what the notices are about.
package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/turnus/turnus/core"
)

// Notice is what happened. Its JSON is what the webhook gets.
type Notice struct {
	ID       string    `json:"id"` // the same however often it is sent: Send makes it
	Kind     string    `json:"kind"`
	At       time.Time `json:"at"` // Send sets it
	Server   string    `json:"server"`
	Text     string    `json:"text"`
	Run      string    `json:"run,omitempty"`
	Playbook string    `json:"playbook,omitempty"`
	Schedule string    `json:"schedule,omitempty"`
}

// Headers of a request, beside the notice as its body.
const (
	HeaderID        = "X-Turnus-Notification"  // the notice's id
	HeaderSignature = "X-Turnus-Signature-256" // sha256=, and the HMAC of the body under the secret in hex
)

// Bounds and times.
const (
	maxWaiting = 1000 // notices; of more the newest are dropped
	sendTime   = 10 * time.Second
	giveUp     = time.Hour // after the first try
	maxAnswer  = 64 << 10
)

// Config says where notices go.
type Config struct {
	URL    string // http or https
	Secret string // of the signature; empty: none is sent
	Server string // who tells
	Log    *slog.Logger
	// Retry paces the tries of one notice; a second up to a minute when zero.
	Retry core.Backoff
}

// Webhook sends notices, one after the other and in order. Its methods are safe for concurrent use.
type Webhook struct {
	cfg     Config
	client  *http.Client
	waiting chan Notice
}

// New checks the configuration. Errors wrap core.ErrInvalid.
func New(cfg Config) (*Webhook, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("webhook for notifications: expected http://… or https://…: %w", core.ErrInvalid) // it may hold a password
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Retry.Interval == 0 {
		cfg.Retry = core.Backoff{Interval: time.Second, Max: time.Minute}
	}
	client := &http.Client{
		Timeout:       sendTime,
		Transport:     http.DefaultTransport.(*http.Transport).Clone(),                               //nolint:forcetypeassert // net/http says so
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the signature is for this address
	}
	return &Webhook{cfg: cfg, client: client, waiting: make(chan Notice, maxWaiting)}, nil
}

// Send hands a notice over and does not block: where too many wait, it is dropped, and the log says so.
func (w *Webhook) Send(n Notice) {
	var random [12]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	n.ID, n.At, n.Server = hex.EncodeToString(random[:]), time.Now().UTC(), w.cfg.Server
	select {
	case w.waiting <- n:
	default:
		w.cfg.Log.Error("a notification was dropped: too many wait for the webhook", "kind", n.Kind, "text", n.Text)
	}
}

// Run sends until ctx ends. What waits then is not sent.
func (w *Webhook) Run(ctx context.Context) {
	defer w.client.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-w.waiting:
			w.deliver(ctx, n)
		}
	}
}

// deliver sends one notice until it is taken, refused for good, or too old.
func (w *Webhook) deliver(ctx context.Context, n Notice) {
	body, err := json.Marshal(n)
	if err != nil {
		w.cfg.Log.Error("a notification cannot be written", "kind", n.Kind, "error", err)
		return
	}
	for try, begun := 0, time.Now(); ; try++ {
		err := w.post(ctx, n.ID, body)
		if err == nil || ctx.Err() != nil {
			return
		}
		if errors.Is(err, core.ErrInvalid) || time.Since(begun) > giveUp {
			w.cfg.Log.Error("a notification was not delivered", "kind", n.Kind, "text", n.Text, "id", n.ID, "error", err)
			return
		}
		w.cfg.Log.Warn("a notification is sent again", "kind", n.Kind, "id", n.ID, "error", err)
		timer := time.NewTimer(w.cfg.Retry.Delay(try, 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// post is one try. core.ErrInvalid says that another is no use.
func (w *Webhook) post(ctx context.Context, id string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "turnus")
	req.Header.Set(HeaderID, id)
	if w.cfg.Secret != "" {
		req.Header.Set(HeaderSignature, Sign(w.cfg.Secret, body))
	}
	resp, err := w.client.Do(req)
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err // without the address, which may hold a password
	}
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // so that the connection is used again
	_ = resp.Body.Close()
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code/100 == 5:
		return fmt.Errorf("the webhook answers %s", resp.Status)
	default:
		return fmt.Errorf("the webhook answers %s: %w", resp.Status, core.ErrInvalid)
	}
}

// Sign is the signature of a body: a receiver compares it in constant time.
func Sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
