package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
	"github.com/turnus/turnus/plugins/sdk/outward"
)

// email sends a notice as a mail, by the channel's own server or by that of the flags.
func (s *Service) email(ctx context.Context, n ledger.Notification, e *policy.Email) error {
	notice, err := read(n)
	if err != nil {
		return err
	}
	var relay Relay
	var g *outward.Guard
	switch {
	case e.Server != "":
		relay, g = Relay{Server: e.Server, TLS: e.TLS, Username: e.Username, From: e.From}, s.out.guard
		if e.Password != "" {
			value, err := s.secret(ctx, n.Tenant, e.Password)
			if err != nil {
				return err
			}
			relay.Password = string(value)
		}
	case s.cfg.Relay != nil:
		relay = *s.cfg.Relay
		if e.From != "" {
			relay.From = e.From
		}
	default:
		return errors.New("this server has no mail server: start it with --notify-smtp, or give the channel a server of its own")
	}
	message, err := letter(notice, relay.From, e.To)
	if err != nil {
		return err
	}
	return s.deliver(ctx, relay, g, message)
}

// letter is a notice as a mail. Each of its headers holds one line of plain text; the library
// encodes it.
func letter(n Notice, from string, to []string) (*mail.Msg, error) {
	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := m.From(from); err != nil {
		return nil, fmt.Errorf("sender: %w: %w", core.ErrInvalid, err)
	}
	if err := m.To(to...); err != nil {
		return nil, fmt.Errorf("recipients: %w: %w", core.ErrInvalid, err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "turnus"
	}
	m.Subject(line("["+string(n.Severity)+"] "+n.Title, maxTitle+20))
	m.SetMessageIDWithValue(n.ID + "@" + line(strings.ToLower(host), maxHost)) // stays: a reader's program drops the second
	m.SetDateWithValue(n.At)
	m.SetBulk()
	m.SetGenHeader(mail.Header(HeaderID), n.ID)
	m.SetGenHeader("X-Turnus-Kind", line(n.Kind, maxHost))
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetBodyString(mail.TypeTextPlain, n.Text+"\n\n-- \nturnus, "+n.Kind+", "+n.ID+"\n")
	return m, nil
}

// deliver hands a mail to a server. The connection ends with ctx, whatever the server does.
func (s *Service) deliver(ctx context.Context, r Relay, g *outward.Guard, m *mail.Msg) error {
	host, port, err := net.SplitHostPort(r.Server)
	number, bad := strconv.Atoi(port)
	if err != nil || bad != nil {
		return fmt.Errorf("mail server: expected HOST:PORT: %w", core.ErrInvalid)
	}
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: s.cfg.Roots}
	finish := func() {}
	defer func() { finish() }()
	dial := func(dialing context.Context, network, address string) (net.Conn, error) {
		c, err := g.Dialer().DialContext(dialing, network, address)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // the library waits for answers by its own clock
		finish = func() { stop(); _ = c.Close() }
		if r.TLS == policy.TLS {
			secure := tls.Client(c, config)
			if err := secure.HandshakeContext(dialing); err != nil {
				return nil, err
			}
			return secure, nil
		}
		return c, nil
	}
	encrypt := mail.TLSMandatory
	switch r.TLS {
	case policy.TLS:
		encrypt = mail.TLSOpportunistic // the connection is encrypted by then
	case policy.None:
		encrypt = mail.NoTLS
	}
	options := []mail.Option{
		mail.WithPort(number), mail.WithTimeout(s.cfg.Patience), mail.WithTLSConfig(config), mail.WithDialContextFunc(dial), mail.WithTLSPolicy(encrypt), mail.WithoutNoop(),
	}
	if r.Username != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(r.Username), mail.WithPassword(r.Password))
	}
	client, err := mail.NewClient(host, options...)
	if err != nil {
		return fmt.Errorf("mail server: %w: %w", core.ErrInvalid, err)
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return mailError(err)
	}
	if err := client.SendWithSMTPClient(session, m); err != nil {
		return mailError(err)
	}
	_ = client.CloseWithSMTPClient(session) // it was taken: how the server ends the session does not matter
	return nil
}

// mailError distinguishes a server's permanent refusal from a temporary one.
func mailError(err error) error {
	if no, ok := errors.AsType[*mail.SendError](err); ok {
		code := no.ErrorCode()
		return &refusal{text: "the mail server answers: " + line(no.Error(), maxReason), final: !no.IsTemp() && code >= 500 && code < 600}
	}
	if errors.Is(err, core.ErrInvalid) {
		return err
	}
	return fmt.Errorf("the mail server does not take it: %s", line(err.Error(), maxReason)) //nolint:err113 // its words, without what they wrap
}
