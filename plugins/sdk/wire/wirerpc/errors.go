package wirerpc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Code is a status code of gRPC.
type Code uint32

// The status codes of gRPC that worker and plugin exchange.
const (
	CodeCanceled           Code = 1
	CodeUnknown            Code = 2
	CodeInvalidArgument    Code = 3
	CodeDeadlineExceeded   Code = 4
	CodeNotFound           Code = 5
	CodeAlreadyExists      Code = 6
	CodePermissionDenied   Code = 7
	CodeResourceExhausted  Code = 8
	CodeFailedPrecondition Code = 9
	CodeAborted            Code = 10
	CodeOutOfRange         Code = 11
	CodeUnimplemented      Code = 12
	CodeInternal           Code = 13
	CodeUnavailable        Code = 14
	CodeDataLoss           Code = 15
	CodeUnauthenticated    Code = 16
)

// Error is the status of a call that failed.
type Error struct {
	Code    Code
	Message string
	Fault   *wire.HostFault // report of a host service about a host that it cannot reach; may be nil

	cause error
}

// Errorf returns an Error with a code; %w keeps the cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Error returns the message and the code.
func (e *Error) Error() string { return e.Message + " (gRPC status " + strconv.Itoa(int(e.Code)) + ")" }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// CodeOf returns the code of an error: 0 of nil, CodeUnknown of an error that is no status.
func CodeOf(err error) Code {
	switch status, is := errors.AsType[*Error](err); {
	case err == nil:
		return 0
	case is:
		return status.Code
	case errors.Is(err, context.DeadlineExceeded):
		return CodeDeadlineExceeded
	case errors.Is(err, context.Canceled):
		return CodeCanceled
	}
	return CodeUnknown
}

// The trailers of gRPC.
const (
	statusKey  = "Grpc-Status"
	messageKey = "Grpc-Message"
	detailsKey = "Grpc-Status-Details-Bin"
)

// writeStatus writes the end of a call into a header; prefix makes trailers of its keys.
func writeStatus(h http.Header, prefix string, err error) {
	if err == nil {
		h[prefix+statusKey] = statusOK
		return
	}
	status, is := errors.AsType[*Error](err)
	if !is {
		status = &Error{Code: CodeOf(err), Message: err.Error()}
	}
	h[prefix+statusKey] = []string{strconv.Itoa(int(status.Code))}
	h[prefix+messageKey] = []string{escape(status.Message)}
	if status.Fault != nil {
		h[prefix+detailsKey] = []string{base64.RawStdEncoding.EncodeToString(status.details())}
	}
}

var statusOK = []string{"0"} //nolint:gochecknoglobals // a constant; Go has none of slices

// readStatus returns the end of a call from its trailers, or from its header if it has no trailers.
func readStatus(trailer, header http.Header) error {
	h := trailer
	if h.Get(statusKey) == "" {
		h = header
	}
	text := h.Get(statusKey)
	if text == "0" {
		return nil
	}
	code, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return Errorf(CodeInternal, "the stream ended without a gRPC status")
	}
	status := &Error{Code: Code(code), Message: unescape(h.Get(messageKey))}
	if raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(h.Get(detailsKey), "=")); err == nil {
		status.Fault = faultOf(raw)
	}
	return status
}

// Fields of google.rpc.Status and google.protobuf.Any, which are written and read by hand: their
// packages would be the largest part of this one.
const (
	fieldCode    protowire.Number = 1
	fieldMessage protowire.Number = 2
	fieldDetails protowire.Number = 3
	fieldType    protowire.Number = 1
	fieldValue   protowire.Number = 2
	typePrefix                    = "type.googleapis.com/"
)

func (e *Error) details() []byte {
	value, err := proto.Marshal(e.Fault)
	if err != nil {
		return nil // a fault with text that is no UTF-8; the message has the same
	}
	var detail, out []byte
	detail = protowire.AppendTag(detail, fieldType, protowire.BytesType)
	detail = protowire.AppendString(detail, typePrefix+string(e.Fault.ProtoReflect().Descriptor().FullName()))
	detail = protowire.AppendTag(detail, fieldValue, protowire.BytesType)
	detail = protowire.AppendBytes(detail, value)
	out = protowire.AppendTag(out, fieldCode, protowire.VarintType)
	out = protowire.AppendVarint(out, uint64(e.Code))
	out = protowire.AppendTag(out, fieldMessage, protowire.BytesType)
	out = protowire.AppendString(out, e.Message)
	out = protowire.AppendTag(out, fieldDetails, protowire.BytesType)
	return protowire.AppendBytes(out, detail)
}

// faultOf returns the fault among the details of a status; nil if there is none.
func faultOf(status []byte) *wire.HostFault {
	for _, detail := range fieldsOf(status, fieldDetails) {
		kind, value := fieldsOf(detail, fieldType), fieldsOf(detail, fieldValue)
		fault := &wire.HostFault{}
		if len(kind) == 1 && len(value) == 1 && string(kind[0]) == typePrefix+string(fault.ProtoReflect().Descriptor().FullName()) &&
			proto.Unmarshal(value[0], fault) == nil {
			return fault
		}
	}
	return nil
}

// fieldsOf returns the values of a field of bytes; nil of a message that is not valid.
func fieldsOf(message []byte, want protowire.Number) (values [][]byte) {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil
		}
		n := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if n < 0 {
			return nil
		}
		if number == want && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[tag : tag+n])
			values = append(values, value)
		}
		message = message[tag+n:]
	}
	return values
}

// escape writes what is no printable ASCII, and the percent sign, as %XX.
func escape(text string) string {
	var out strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

func unescape(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				out.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
