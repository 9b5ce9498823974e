package notify

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
)

// mailServer takes mails as a real one does.
type mailServer struct {
	address string
	roots   *x509.CertPool
	mu      sync.Mutex
	mails   []letterbox
	refuse  error // of the next mails
}

type letterbox struct {
	from string
	to   []string
	user string
	data []byte
	tls  bool
}

const mailUser, mailPassword = "turnus", "mail-s3cret"

// newMailServer listens with STARTTLS, or with TLS from the first byte.
func newMailServer(t *testing.T, implicit bool) *mailServer {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate of example.com and 127.0.0.1
	certificate, roots := web.TLS.Certificates[0], x509.NewCertPool()
	roots.AddCert(web.Certificate())
	web.Close()
	m := &mailServer{roots: roots}
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &mailSession{m: m, c: c}, nil }))
	s.Domain, s.TLSConfig = "mail.example.com", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.ErrorLog = quiet{}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	m.address = l.Addr().String()
	if implicit {
		l = tls.NewListener(l, s.TLSConfig)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return m
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

type mailSession struct {
	m *mailServer
	c *smtp.Conn
	l letterbox
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != mailUser || password != mailPassword {
			return smtp.ErrAuthFailed
		}
		s.l.user = user
		return nil
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	s.l.from = from
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.l.to = append(s.l.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.refuse != nil {
		return s.m.refuse
	}
	_, s.l.tls = s.c.TLSConnectionState()
	s.l.data = data
	s.m.mails = append(s.m.mails, s.l)
	return nil
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

func (m *mailServer) received() []letterbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]letterbox(nil), m.mails...)
}

func TestMail(t *testing.T) {
	t.Parallel()
	for _, how := range []string{policy.StartTLS, policy.TLS} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			m := newMailServer(t, how == policy.TLS)
			b := newBed(t, newLedger(t), "channels: {noc: {email: {to: [\"NOC <noc@example.net>\", ann@example.net]}}}\nroutes: [{to: [noc]}]\n", func(c *Config) {
				c.Relay = &Relay{Server: m.address, TLS: how, Username: mailUser, Password: mailPassword, From: "Turnus <turnus@example.net>"}
				c.Roots, c.Allow = m.roots, nil // the relay is the operator's: no guard
			})
			b.start()
			// Names that would add a header, another recipient, or a part.
			n := ledger.NewRun{ID: "r1", Playbook: "patch\r\nBcc: evil@example.org\r\n\r\nbody", LaunchedBy: "alice", Jobs: []ledger.JobHost{{Host: "fw-1\r\nX-Evil: 1"}}}
			_, _, err := b.ledger.Accept(t.Context(), n)
			must(t, err)
			_, err = b.ledger.Record(t.Context(), ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Outcome: core.Failed, Reason: "Fehler: Größe ≠ 0\r\n.\r\nMAIL FROM:<evil@example.org>"}}})
			must(t, err)
			until(t, "the mail", func() bool { return len(b.all(ledger.NotificationSent)) == 1 })
			got := m.received()
			if len(got) != 1 || !got[0].tls || got[0].user != mailUser || got[0].from != "turnus@example.net" || fmt.Sprint(got[0].to) != "[noc@example.net ann@example.net]" {
				t.Fatalf("%+v", got)
			}
			msg, err := mail.ReadMessage(bytes.NewReader(got[0].data))
			must(t, err)
			subject, err := (&mime.WordDecoder{}).DecodeHeader(msg.Header.Get("Subject"))
			if err != nil || !strings.HasPrefix(subject, "[error] patch Bcc: evil@example.org body: 1 failed of 1 host; run r1") {
				t.Errorf("%q, %v", subject, err)
			}
			id := b.all(ledger.NotificationSent)[0].ID
			if msg.Header.Get("Bcc") != "" || msg.Header.Get("X-Evil") != "" || msg.Header.Get(HeaderID) != id || !strings.Contains(msg.Header.Get("Message-Id"), id) {
				t.Errorf("%v", msg.Header)
			}
			text := string(got[0].data)
			if !strings.Contains(text, "turnus runs show r1") || strings.Contains(text, "MAIL FROM") {
				t.Error(text)
			}
		})
	}
}

// A mail server of a channel's own, behind the guard; a password that is wrong; a server that
// speaks no TLS; one that refuses.
func TestMailThatIsNotTaken(t *testing.T) {
	t.Parallel()
	m := newMailServer(t, false)
	channel := func(more string) string {
		return "channels: {noc: {email: {to: [noc@example.net], from: a@example.net, server: \"" + m.address + "\"" + more + "}}}\nroutes: [{to: [noc]}]\n"
	}
	for name, c := range map[string]struct {
		channel      string
		change       func(*Config)
		refuse       error
		want         string
		deadLettered bool
	}{
		"guarded":         {channel(""), func(c *Config) { c.Roots, c.Allow = m.roots, nil }, nil, "--notify-allow", true},
		"not trusted":     {channel(""), func(*Config) {}, nil, "certificate", false},
		"wrong password":  {channel(", username: turnus, password: {secret: hook}"), func(c *Config) { c.Roots = m.roots }, nil, "Authentication failed", false},
		"no relay":        {"channels: {noc: {email: {to: [noc@example.net]}}}\nroutes: [{to: [noc]}]\n", func(*Config) {}, nil, "--notify-smtp", false},
		"refused":         {channel(""), func(c *Config) { c.Roots = m.roots }, &smtp.SMTPError{Code: 550, Message: "no such box"}, "no such box", true},
		"refused for now": {channel(""), func(c *Config) { c.Roots = m.roots }, &smtp.SMTPError{Code: 451, Message: "greylisted"}, "greylisted", false},
	} {
		m.mu.Lock()
		m.refuse = c.refuse
		m.mu.Unlock()
		b := newBed(t, newLedger(t), c.channel, c.change)
		_, err := b.Test(t.Context(), "alice", policy.Place{Service: true, Channel: "noc"})
		must(t, err)
		n, ok, err := b.ledger.ClaimNotification(t.Context(), "s1", ledger.Queue{Owner: ledger.Owner{Service: true}, Channel: "noc"}, time.Hour)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		err = b.send(t.Context(), n)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, core.ErrInvalid) != c.deadLettered || strings.Contains(err.Error(), mailPassword) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := m.received(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// A mail server that never answers delays notifications for the time of one try at most.
func TestAMailServerThatHangs(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	b := newBed(t, newLedger(t), "", func(c *Config) { c.Patience = 100 * time.Millisecond })
	message, err := letter(Notice{ID: "x", Title: "t"}, "a@example.net", []string{"b@example.net"})
	must(t, err)
	begun := time.Now()
	err = b.deliver(t.Context(), Relay{Server: l.Addr().String(), TLS: policy.StartTLS}, nil, message)
	if err == nil || time.Since(begun) > patience/2 {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}

func TestSlack(t *testing.T) {
	t.Parallel()
	got := escapeSlack("a <!channel> & <https://x|y> @here [a](http://b) `c`")
	for _, bad := range []string{"<", ">", "@here", "](", "`"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q has %q", got, bad)
		}
	}
	r := newReceiver(t, nil)
	b := newBed(t, newLedger(t), "channels: {chat: {slack: {url: "+r.URL+"}}}\nroutes: [{to: [chat]}]\n")
	b.start()
	b.run("r1", ledger.Outcome{Outcome: core.Failed, Reason: "<!channel> look"})
	until(t, "the message", func() bool { return len(b.all(ledger.NotificationSent)) == 1 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bad) != 1 || !strings.Contains(r.bad[0], `"text":"[error] patch: 1 failed of 1 host`) || strings.Contains(r.bad[0], "<") || !strings.Contains(r.bad[0], `lt;!channel`) { // it is no notice
		t.Errorf("%q", r.bad)
	}
}
