package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// request is the request of a command to the lab that is up: one JSON document per connection.
type request struct {
	Do    string   `json:"do"` // ls, break or down
	Hosts []string `json:"hosts,omitempty"`
	How   string   `json:"how,omitempty"`
}

// reply is the answer. Problem is a refusal.
type reply struct {
	Lab
	Problem string `json:"problem,omitempty"`
}

const (
	maxRequest  = 1 << 20          // bytes
	talkTime    = 10 * time.Second // a connection of the socket
	maxListened = 64 << 20         // bytes of an answer
)

var errNoLab = console.Invalid("no lab is up\nhint: turnus lab up")

// control answers on the socket until down is asked for or ctx ends. It returns the connection that
// asked for down, which is answered when the lab has ended; nil if ctx ended.
func control(ctx context.Context, l net.Listener, answer func(request) reply) net.Conn {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
	defer stop()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return nil
		}
		if err != nil { // out of file descriptors, or the client is gone
			continue
		}
		if talk(c, answer) {
			return c
		}
		_ = c.Close() // the client has the answer, or left
	}
}

// talk answers one request, and reports whether it is down, which is not answered yet.
func talk(c net.Conn, answer func(request) reply) (down bool) {
	_ = c.SetDeadline(time.Now().Add(talkTime)) // fails only if c is closed
	var r request
	if json.NewDecoder(io.LimitReader(c, maxRequest)).Decode(&r) != nil {
		return false
	}
	if r.Do == "down" {
		return true
	}
	_ = json.NewEncoder(c).Encode(answer(r)) // the client may have left
	return false
}

// listen makes the socket, for this user alone.
func (f *folder) listen(ctx context.Context) (net.Listener, error) {
	path := filepath.Join(f.path, socketFile)
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket of the lab: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket of the lab: %w", err), l.Close())
	}
	return l, nil
}

// ask sends a request to the lab that is up.
func (f *folder) ask(ctx context.Context, r request) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*talkTime)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", filepath.Join(f.path, socketFile))
	if err != nil {
		return reply{}, f.absent(err)
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	var got reply
	if err = json.NewEncoder(c).Encode(r); err == nil {
		err = json.NewDecoder(io.LimitReader(c, maxListened)).Decode(&got)
	}
	switch {
	case err != nil:
		return reply{}, f.absent(err)
	case got.Problem != "":
		return reply{}, console.Invalid("%s", got.Problem)
	}
	return got, nil
}

// absent explains why the lab did not answer.
func (f *folder) absent(err error) error {
	pid, lockErr := f.holder()
	switch {
	case lockErr != nil:
		return lockErr
	case pid != 0:
		return fmt.Errorf("ask the lab: process %d does not answer: %w\nhint: it may be starting or ending; if it stays so: kill %[1]d", pid, err)
	}
	return errNoLab
}

// end ends the lab that is up, or removes the files of one that was killed. up is false if none was
// up.
func (f *folder) end(ctx context.Context) (up bool, err error) {
	_, err = f.ask(ctx, request{Do: "down"})
	if !errors.Is(err, errNoLab) {
		return err == nil, err
	}
	lock, err := f.hold()
	if err != nil { // another one starts
		return false, err
	}
	return false, errors.Join(f.clean(), lock.Close())
}
