package testparts

import "net"

// OneConn is a listener with one connection, as of net.Pipe, which a synctest bubble can wait for.
type OneConn struct {
	conn   chan net.Conn
	closed chan struct{}
}

// ListenOne returns a listener whose first Accept returns c; the next one waits for Close.
func ListenOne(c net.Conn) *OneConn {
	l := &OneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conn <- c
	return l
}

// Accept returns the connection, then net.ErrClosed after Close.
func (l *OneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Call it once.
func (l *OneConn) Close() error { close(l.closed); return nil }

// Addr is no address of a network.
func (l *OneConn) Addr() net.Addr { return &net.TCPAddr{} }
