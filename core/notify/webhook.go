package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
	"github.com/turnus/turnus/plugins/sdk/outward"
)

// HeaderID is where a webhook has the notification's id, beside the notice as its body and, in
// core.WebhookHeader, its signature.
const HeaderID = "X-Turnus-Notification"

const (
	maxAnswer = 64 << 10
	maxAfter  = time.Hour // a receiver cannot put its notifications off for longer
)

// out is the ways out: the operator's own channel goes anywhere, those of the definitions where
// they may.
type out struct {
	own, guarded *web
	guard        *outward.Guard
}

func newOut(cfg Config) *out {
	g := newGuard(cfg.Allow)
	return &out{own: newWeb(cfg, nil), guarded: newWeb(cfg, g), guard: g}
}

func (o *out) close() {
	o.own.client.CloseIdleConnections()
	o.guarded.client.CloseIdleConnections()
}

// web posts.
type web struct{ client *http.Client }

// newWeb makes a client that follows no redirects: a signature is for one address. Behind a guard
// there is no proxy, which would reach what the guard keeps away.
func newWeb(cfg Config, g *outward.Guard) *web {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: g.Dialer().DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: cfg.Patience, MaxIdleConns: maxSending, MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second,
		MaxResponseHeaderBytes: maxAnswer,
	}
	if g != nil {
		t.Proxy = nil
	}
	return &web{&http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// webhook sends a notice as it is.
func (s *Service) webhook(ctx context.Context, n ledger.Notification, w *policy.Webhook) error {
	address, err := s.address(ctx, n.Tenant, w.URL)
	if err != nil {
		return err
	}
	var sign []byte
	if w.Sign != "" {
		if sign, err = s.secret(ctx, n.Tenant, w.Sign); err != nil {
			return err
		}
	}
	return s.out.guarded.post(ctx, address, n.Data, n.ID, sign)
}

// slack sends a notice as an incoming webhook of Slack, Mattermost or Rocket.Chat takes it.
func (s *Service) slack(ctx context.Context, n ledger.Notification, to *policy.Slack) error {
	address, err := s.address(ctx, n.Tenant, to.URL)
	if err != nil {
		return err
	}
	notice, err := read(n)
	if err != nil {
		return err
	}
	mark := map[policy.Severity]string{policy.Error: "[error] ", policy.Warning: "[warning] "}[notice.Severity]
	body, err := json.Marshal(map[string]any{"text": escapeSlack(mark + notice.Text), "mrkdwn": false, "link_names": false})
	if err != nil {
		return fmt.Errorf("write the message: %w: %w", core.ErrInvalid, err)
	}
	return s.out.guarded.post(ctx, address, body, n.ID, nil)
}

// escapeSlack keeps names and reasons from calling people, and from being links or markup: < begins
// a mention in Slack, @ one in others, and ]( a link.
func escapeSlack(text string) string {
	const nothing = "\u200b" // of no width
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@"+nothing, "](", "]"+nothing+"(", "`", "'").Replace(text)
}

// read is the notice of a notification.
func read(n ledger.Notification) (Notice, error) {
	var notice Notice
	if err := json.Unmarshal(n.Data, &notice); err != nil {
		return Notice{}, fmt.Errorf("read the notice: %w: %w", core.ErrInvalid, err)
	}
	return notice, nil
}

// post is one request. No error repeats the address, which may hold a password.
func (w *web) post(ctx context.Context, address string, body []byte, id string, sign []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the address is not one of http or https: %w", core.ErrInvalid)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "turnus")
	req.Header.Set(HeaderID, id)
	if sign != nil {
		req.Header.Set(core.WebhookHeader, core.SignWebhook(sign, body))
	}
	resp, err := w.client.Do(req)
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return errors.New("the receiver does not answer in time")
		}
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // so that the connection is used again; its text does not matter
	_ = resp.Body.Close()
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code/100 == 5:
		return &refusal{text: "the receiver answers " + line(resp.Status, maxHost), after: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	default:
		return &refusal{text: "the receiver answers " + line(resp.Status, maxHost), final: true}
	}
}

// retryAfter reads seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	var d time.Duration
	if n, err := strconv.Atoi(text); err == nil {
		d = time.Duration(min(max(n, 0), int(maxAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxAfter)
}
