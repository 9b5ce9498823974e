package cli

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// certLook is how often the files of a certificate are looked at, at most: handshakes ask.
const certLook = time.Second

// certificate is that of two files, read again when they change: a renewed certificate needs no restart. It is safe
// for concurrent use.
type certificate struct {
	cert, key string
	told      func(string) // what was taken over, and what was not

	mu     sync.Mutex
	now    *tls.Certificate
	stamp  string // of the files that now was read from, or that could not be read
	looked time.Time
}

// openCertificate reads the files a first time.
func openCertificate(cert, key string, told func(string)) (*certificate, error) {
	c := &certificate{cert: cert, key: key, told: told}
	stamp, err := c.stampOf()
	if err != nil {
		return nil, err
	}
	now, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, invalid("--tls-cert %s, --tls-key %s: %w", cert, key, err)
	}
	c.now, c.stamp, c.looked = &now, stamp, time.Now()
	return c, nil
}

// config is what a listener needs.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil }}
}

// current looks at the files if that was not done just now. A pair that does not fit, as between the writing of one file and the other,
// leaves the former in use, and is tried again when a file changes.
func (c *certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certLook {
		return c.now
	}
	c.looked = time.Now()
	stamp, err := c.stampOf()
	if err == nil && stamp == c.stamp {
		return c.now
	}
	var next tls.Certificate
	if err == nil {
		next, err = tls.LoadX509KeyPair(c.cert, c.key)
	}
	switch {
	case err == nil:
		c.now = &next
		c.told("the certificate of " + c.cert + " was renewed")
	case stamp != c.stamp:
		c.told("the certificate of " + c.cert + " was changed and cannot be used; the former one stays: " + err.Error())
	}
	c.stamp = stamp
	return c.now
}

// stampOf changes with the files.
func (c *certificate) stampOf() (string, error) {
	var stamp strings.Builder
	for _, path := range []string{c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil {
			return "away", invalid("TLS: %w", err)
		}
		fmt.Fprintf(&stamp, "%d %d ", info.Size(), info.ModTime().UnixNano())
	}
	return stamp.String(), nil
}
