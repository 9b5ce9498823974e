package hostkeys

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/turnus/turnus/core"
)

const (
	dnsPort    = 53
	dnsTries   = 3
	dnsWait    = 5 * time.Second // for one try
	dnsPayload = 1232            // bytes of an answer over UDP
	typeSSHFP  = dnsmessage.Type(44)
)

// Resolver is a validating DNS resolver whose AD flag counts as proof.
type Resolver struct{ address netip.AddrPort }

// ParseResolver reads ADDRESS or ADDRESS:PORT of a resolver that the caller trusts.
func ParseResolver(text string) (Resolver, error) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return Resolver{at}, nil
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return Resolver{}, fmt.Errorf("%w: resolver %q: expected an IP address, or ADDRESS:PORT", core.ErrInvalid, text)
	}
	return Resolver{netip.AddrPortFrom(ip, dnsPort)}, nil
}

// OpenResolver is ParseResolver, or the resolver of this machine if text is empty.
func OpenResolver(text string) (Resolver, error) {
	if text != "" {
		return ParseResolver(text)
	}
	conf, err := os.Open("/etc/resolv.conf")
	if err != nil {
		return Resolver{}, fmt.Errorf("--sshfp: %w\nhint: --resolver ADDRESS of a validating resolver", err)
	}
	defer conf.Close()
	return SystemResolver(conf)
}

// SystemResolver reads the first resolver of a resolv.conf. It must be on loopback, or the file
// must trust it by "options trust-ad": elsewhere anybody on the way can set the AD flag.
func SystemResolver(conf io.Reader) (Resolver, error) {
	first, trusted := "127.0.0.1", false // of the C library
	found := false
	for lines := bufio.NewScanner(conf); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) < 2:
		case words[0] == "nameserver" && !found:
			first, found = words[1], true
		case words[0] == "options":
			for _, option := range words[1:] {
				trusted = trusted || option == "trust-ad"
			}
		}
	}
	r, err := ParseResolver(first)
	if err == nil && !trusted && !r.address.Addr().IsLoopback() {
		err = fmt.Errorf("%w: the resolver %s of resolv.conf is not on this machine: its answers can be forged on their way\n"+
			"hint: run a validating resolver on this machine, or trust one with --resolver ADDRESS", core.ErrInvalid, first)
	}
	return r, err
}

// sshfp returns the SSHFP records of a name. It refuses an answer that the resolver has not
// validated.
func (r Resolver) sshfp(ctx context.Context, name string) ([]fingerprint, error) {
	full, err := dnsmessage.NewName(strings.TrimSuffix(name, ".") + ".")
	if err != nil {
		return nil, fmt.Errorf("%q is no DNS name: %w", name, err)
	}
	question := dnsmessage.Question{Name: full, Type: typeSSHFP, Class: dnsmessage.ClassINET}
	var answer []byte
	for range dnsTries {
		if answer, err = r.ask(ctx, "udp", question); err == nil && truncated(answer) {
			answer, err = r.ask(ctx, "tcp", question)
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok { // which also names the ports of the socket
		err = e.Err
	}
	if err != nil {
		return nil, fmt.Errorf("resolver %s: %w", r.address, err)
	}
	return r.read(answer, question)
}

func truncated(answer []byte) bool {
	var p dnsmessage.Parser
	h, err := p.Start(answer)
	return err == nil && h.Truncated
}

// ask sends one question, and returns the message that answers it.
func (r Resolver) ask(ctx context.Context, network string, q dnsmessage.Question) ([]byte, error) {
	id := uint16(rand.Uint32()) //nolint:gosec // the port of the socket is as random, and the way is trusted
	query, err := dnsQuery(id, q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dnsWait)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, r.address.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if network == "tcp" {
		query = append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	}
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	for {
		answer, err := readMessage(conn, network)
		if err != nil {
			return nil, err
		}
		if answers(answer, id, q) { // else it is late, or forged
			return answer, nil
		}
		if network == "tcp" {
			return nil, errors.New("the answer is to another question")
		}
	}
}

// dnsQuery asks for recursion and for the AD flag (RFC 6840, 5.7).
func dnsQuery(id uint16, q dnsmessage.Question) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: id, RecursionDesired: true, AuthenticData: true})
	var opt dnsmessage.ResourceHeader
	err := errors.Join(b.StartQuestions(), b.Question(q), b.StartAdditionals(), opt.SetEDNS0(dnsPayload, dnsmessage.RCodeSuccess, false))
	if err == nil {
		err = b.OPTResource(opt, dnsmessage.OPTResource{})
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

func readMessage(conn net.Conn, network string) ([]byte, error) {
	size := uint16(dnsPayload)
	if network == "tcp" {
		if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
			return nil, err
		}
	}
	buf := make([]byte, size)
	if network == "tcp" {
		_, err := io.ReadFull(conn, buf)
		return buf, err
	}
	n, err := conn.Read(buf)
	return buf[:n], err
}

// answers reports whether a message answers the question.
func answers(message []byte, id uint16, q dnsmessage.Question) bool {
	var p dnsmessage.Parser
	h, err := p.Start(message)
	if err != nil || h.ID != id || !h.Response {
		return false
	}
	got, err := p.Question()
	return err == nil && got.Type == q.Type && got.Class == q.Class && strings.EqualFold(got.Name.String(), q.Name.String())
}

// read returns the records of an answer that the resolver validated.
func (r Resolver) read(message []byte, q dnsmessage.Question) ([]fingerprint, error) {
	var p dnsmessage.Parser
	h, err := p.Start(message)
	switch {
	case err != nil:
		return nil, fmt.Errorf("resolver %s: %w", r.address, err)
	case h.RCode == dnsmessage.RCodeServerFailure:
		return nil, fmt.Errorf("resolver %s answers SERVFAIL: a signature may be wrong or missing", r.address)
	case h.RCode != dnsmessage.RCodeSuccess && h.RCode != dnsmessage.RCodeNameError:
		return nil, fmt.Errorf("resolver %s answers %s", r.address, strings.TrimPrefix(h.RCode.String(), "RCode"))
	case !h.AuthenticData:
		return nil, fmt.Errorf("resolver %s did not validate the answer (no AD flag): the zone is not signed, or the resolver does not validate", r.address)
	}
	if err := p.SkipAllQuestions(); err != nil {
		return nil, fmt.Errorf("resolver %s: %w", r.address, err)
	}
	list, err := records(&p, strings.ToLower(q.Name.String()))
	if err != nil {
		return nil, fmt.Errorf("resolver %s: %w", r.address, err)
	}
	if len(list) == 0 {
		return nil, errors.New("it has no SSHFP records")
	}
	return list, nil
}

// records reads the SSHFP records of a name, and of the name that its CNAME records lead to.
func records(p *dnsmessage.Parser, name string) ([]fingerprint, error) {
	byOwner, alias := map[string][]fingerprint{}, map[string]string{}
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil {
			return nil, err
		}
		owner := strings.ToLower(h.Name.String())
		switch h.Type {
		case dnsmessage.TypeCNAME:
			c, err := p.CNAMEResource()
			if err != nil {
				return nil, err
			}
			alias[owner] = strings.ToLower(c.CNAME.String())
		case typeSSHFP:
			u, err := p.UnknownResource()
			if err != nil {
				return nil, err
			}
			if len(u.Data) > 2 {
				byOwner[owner] = append(byOwner[owner], fingerprint{u.Data[0], u.Data[1], u.Data[2:]})
			}
		default:
			if err := p.SkipAnswer(); err != nil {
				return nil, err
			}
		}
	}
	for range len(alias) {
		if next, ok := alias[name]; ok {
			name = next
		}
	}
	return byOwner[name], nil
}
