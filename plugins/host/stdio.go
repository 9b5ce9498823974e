package host

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
)

// copyStdio drains what a go-plugin server sends as its redirected stdout and stderr,
// until the connection ends. Its message, whose Go type is internal to go-plugin, is
// {enum channel = 1 (STDOUT 1, STDERR 2); bytes data = 2}. A plugin without that
// service is fine.
func copyStdio(conn grpc.ClientConnInterface, stdout, stderr io.Writer) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil || stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	for {
		var m emptypb.Empty
		if stream.RecvMsg(&m) != nil {
			return
		}
		channel, data := stdioData(m.ProtoReflect().GetUnknown())
		if channel == 2 {
			_, _ = stderr.Write(data)
		} else {
			_, _ = stdout.Write(data)
		}
	}
}

func stdioData(b []byte) (channel uint64, data []byte) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, nil
		}
		b = b[n:]
		switch {
		case num == 1 && typ == protowire.VarintType:
			channel, n = protowire.ConsumeVarint(b)
		case num == 2 && typ == protowire.BytesType:
			data, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return 0, nil
		}
		b = b[n:]
	}
	return channel, data
}
