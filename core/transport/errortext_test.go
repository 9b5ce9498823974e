package transport

import (
	"errors"
	"net"
	"testing"
)

// A reason is read in a list of many hosts: it has a name once.
func TestErrorSaysTheNameOnce(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name string
		err  *Error
		want string
	}{
		{"name is the address", &Error{Host: "web1", Addr: "web1:22", Op: "dial", Err: refused}, "web1:22: dial: refused"},
		{"address apart", &Error{Host: "web1", Addr: "10.0.0.1:22", Op: "dial", Err: refused}, "web1 (10.0.0.1:22): dial: refused"},
		{"no address yet", &Error{Host: "web1", Op: "resolve", Err: refused}, "web1: resolve: refused"},
		{
			"unknown name",
			dialError(&endpoint{name: "web1", addr: "web1:22"}, &net.DNSError{Err: "no such host", Name: "web1", Server: "10.0.0.2:53", IsNotFound: true}),
			"web1:22: resolve: name \"web1\" does not resolve: no such host (asked 10.0.0.2:53)\n" +
				"hint: correct the name, or set address: of the host in the inventory",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.err.Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if dns, ok := errors.AsType[*net.DNSError](dialError(&endpoint{}, &net.DNSError{Err: "x"})); !ok || dns.Err != "x" {
		t.Error("the DNS error cannot be found any more")
	}
}
