package dnssec

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// record is one line of an answer, as dig writes it.
type record struct {
	name, kind string
	ttl        time.Duration
	data       []string
}

// reply is the answer of one server to one question.
type reply struct {
	status       string // NOERROR, SERVFAIL, …; empty when there was no answer
	aa, ad       bool
	answer       []record
	fault        string // why there was none
	noRoute      bool   // the signer has no way to this kind of address
	serverAt, of string
}

// parseReply reads dig +noall +comments +answer +nosplit.
func parseReply(text string) reply {
	var r reply
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, ";; ->>HEADER<<-"):
			_, rest, _ := strings.Cut(line, "status: ")
			r.status, _, _ = strings.Cut(rest, ",")
		case strings.HasPrefix(line, ";; flags: "):
			flags, _, _ := strings.Cut(strings.TrimPrefix(line, ";; flags: "), ";")
			r.aa, r.ad = slices.Contains(strings.Fields(flags), "aa"), slices.Contains(strings.Fields(flags), "ad")
		case strings.HasPrefix(line, ";"):
			if strings.Contains(line, "network unreachable") || strings.Contains(line, "address not available") {
				r.noRoute = true
			}
			if strings.Contains(line, "error") || strings.Contains(line, "no servers") || strings.Contains(line, "timed out") || strings.Contains(line, "failed") {
				r.fault = strings.TrimLeft(line, "; ")
			}
		default:
			if rec, ok := parseRecord(line); ok {
				r.answer = append(r.answer, rec)
			} else if line != "" && r.status == "" {
				r.fault = line
			}
		}
	}
	if r.status != "" {
		r.fault = ""
	} else if r.fault == "" {
		r.fault = "no answer"
	}
	return r
}

func parseRecord(line string) (record, bool) {
	f := strings.Fields(line)
	if len(f) < 5 || f[2] != "IN" {
		return record{}, false
	}
	ttl, err := strconv.ParseUint(f[1], 10, 31)
	return record{name: plain(f[0]), ttl: time.Duration(ttl) * time.Second, kind: f[3], data: f[4:]}, err == nil
}

// plain is a domain name in lower case, without the dot at its end.
func plain(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// problem is empty for an answer that can be used.
func (r *reply) problem() string {
	switch {
	case r.fault != "":
		return fmt.Sprintf("%s does not answer: %s", r.serverAt, r.fault)
	case r.status != "NOERROR":
		return fmt.Sprintf("%s answers %s to %s", r.serverAt, r.status, r.of)
	}
	return ""
}

func (r *reply) ofKind(kind string) (list []record) {
	for _, rec := range r.answer {
		if rec.kind == kind {
			list = append(list, rec)
		}
	}
	return list
}

// dnskey is a key as it is published.
type dnskey struct {
	flags, alg, tag int
	rdata           []byte
}

// parseKey reads the data of a DNSKEY record.
func parseKey(data []string) (dnskey, error) {
	if len(data) < 4 {
		return dnskey{}, fmt.Errorf("DNSKEY %q: expected flags, protocol, algorithm and key", data)
	}
	var n [3]int
	for i := range n {
		v, err := strconv.ParseUint(data[i], 10, 16)
		if err != nil || i > 0 && v > 255 {
			return dnskey{}, fmt.Errorf("DNSKEY %q: expected a number, found %q", data, data[i])
		}
		n[i] = int(v)
	}
	key, err := base64.StdEncoding.DecodeString(strings.Join(data[3:], ""))
	if err != nil {
		return dnskey{}, fmt.Errorf("DNSKEY: its key: %w", err)
	}
	rdata := binary.BigEndian.AppendUint16(nil, uint16(n[0]))
	rdata = append(append(rdata, byte(n[1]), byte(n[2])), key...)
	return dnskey{flags: n[0], alg: n[2], tag: keyTag(rdata), rdata: rdata}, nil
}

// keyTag is that of RFC 4034, appendix B.
func keyTag(rdata []byte) int {
	var sum uint32
	for i, b := range rdata {
		if i&1 == 0 {
			sum += uint32(b) << 8
		} else {
			sum += uint32(b)
		}
	}
	return int((sum + sum>>16) & 0xffff)
}

// ds is a delegation's reference to a key.
type ds struct {
	Tag    int    `json:"tag"`
	Alg    int    `json:"alg"`
	Type   int    `json:"type"`
	Digest string `json:"digest"` // hex, upper case
}

func (d ds) String() string { return fmt.Sprintf("%d %d %d %s", d.Tag, d.Alg, d.Type, d.Digest) }

// Digest types of DS records (RFC 4509, RFC 6605).
const (
	sha256Type = 2
	sha384Type = 4
)

// ds is the DS of the key, for one of the digest types that are still in use; the zero value for
// others.
func (k dnskey) ds(zone string, digestType int) ds {
	var wire []byte
	for label := range strings.SplitSeq(plain(zone), ".") {
		wire = append(append(wire, byte(len(label))), label...)
	}
	wire = append(append(wire, 0), k.rdata...)
	var sum []byte
	switch digestType {
	case sha256Type:
		s := sha256.Sum256(wire)
		sum = s[:]
	case sha384Type:
		s := sha512.Sum384(wire)
		sum = s[:]
	default:
		return ds{}
	}
	return ds{Tag: k.tag, Alg: k.alg, Type: digestType, Digest: strings.ToUpper(hex.EncodeToString(sum))}
}

// parseDS reads the data of a DS or CDS record.
func parseDS(data []string) (ds, error) {
	if len(data) < 4 {
		return ds{}, fmt.Errorf("DS %q: expected tag, algorithm, type and digest", data)
	}
	var n [3]int
	for i := range n {
		v, err := strconv.ParseUint(data[i], 10, 16)
		if err != nil {
			return ds{}, fmt.Errorf("DS %q: expected a number, found %q", data, data[i])
		}
		n[i] = int(v)
	}
	return ds{Tag: n[0], Alg: n[1], Type: n[2], Digest: strings.ToUpper(strings.Join(data[3:], ""))}, nil
}

// signature holds the parts of an RRSIG that matter.
type signature struct {
	covers, signer string
	tag            int
}

func parseSignature(data []string) (signature, bool) {
	if len(data) < 8 {
		return signature{}, false
	}
	tag, err := strconv.Atoi(data[6])
	return signature{covers: data[0], tag: tag, signer: plain(data[7])}, err == nil
}
