package httpwire

import "strconv"

// AppendStatusLine appends "HTTP/1.1 200 OK" and CRLF; proto is 10 or 11, status
// 100 to 999. No allocation if b has room.
func AppendStatusLine(b []byte, proto uint8, status int) []byte {
	if proto == 10 {
		b = append(b, "HTTP/1.0 "...)
	} else {
		b = append(b, "HTTP/1.1 "...)
	}
	b = AppendInt(b, int64(status))
	b = append(b, ' ')
	b = append(b, StatusText(status)...)
	return append(b, "\r\n"...)
}

// AppendField appends "name: value" and CRLF. Control bytes of the value (CR and
// LF above all) become blanks, so that no value can add a line; name is the
// program's own and taken as it is. No allocation if b has room.
func AppendField[V string | []byte](b []byte, name string, value V) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	i := len(b)
	b = append(b, value...)
	for i = valueEnd(b, i); i < len(b); i = valueEnd(b, i) {
		b[i] = ' '
	}
	return append(b, "\r\n"...)
}

// AppendInt appends v in decimal. No allocation if b has room.
func AppendInt(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }

// AppendChunkHead appends the line that opens a chunk of size bytes (> 0: a chunk
// of none would end the body); the data and a CRLF must follow. No allocation if
// b has room.
func AppendChunkHead(b []byte, size int64) []byte {
	b = strconv.AppendInt(b, size, 16)
	return append(b, "\r\n"...)
}

// LastChunk ends a chunked body without trailers.
const LastChunk = "0\r\n\r\n"

// StatusText returns the reason phrase that RFC 9110 (or the RFC that registered
// the status) gives, "" for an unknown status.
func StatusText(status int) string {
	switch status {
	case 100:
		return "Continue"
	case 101:
		return "Switching Protocols"
	case 102:
		return "Processing"
	case 103:
		return "Early Hints"
	case 200:
		return "OK"
	case 201:
		return "Created"
	case 202:
		return "Accepted"
	case 203:
		return "Non-Authoritative Information"
	case 204:
		return "No Content"
	case 205:
		return "Reset Content"
	case 206:
		return "Partial Content"
	case 207:
		return "Multi-Status"
	case 208:
		return "Already Reported"
	case 226:
		return "IM Used"
	case 300:
		return "Multiple Choices"
	case 301:
		return "Moved Permanently"
	case 302:
		return "Found"
	case 303:
		return "See Other"
	case 304:
		return "Not Modified"
	case 305:
		return "Use Proxy"
	case 307:
		return "Temporary Redirect"
	case 308:
		return "Permanent Redirect"
	case 400:
		return "Bad Request"
	case 401:
		return "Unauthorized"
	case 402:
		return "Payment Required"
	case 403:
		return "Forbidden"
	case 404:
		return "Not Found"
	case 405:
		return "Method Not Allowed"
	case 406:
		return "Not Acceptable"
	case 407:
		return "Proxy Authentication Required"
	case 408:
		return "Request Timeout"
	case 409:
		return "Conflict"
	case 410:
		return "Gone"
	case 411:
		return "Length Required"
	case 412:
		return "Precondition Failed"
	case 413:
		return "Content Too Large"
	case 414:
		return "URI Too Long"
	case 415:
		return "Unsupported Media Type"
	case 416:
		return "Range Not Satisfiable"
	case 417:
		return "Expectation Failed"
	case 421:
		return "Misdirected Request"
	case 422:
		return "Unprocessable Content"
	case 423:
		return "Locked"
	case 424:
		return "Failed Dependency"
	case 425:
		return "Too Early"
	case 426:
		return "Upgrade Required"
	case 428:
		return "Precondition Required"
	case 429:
		return "Too Many Requests"
	case 431:
		return "Request Header Fields Too Large"
	case 451:
		return "Unavailable For Legal Reasons"
	case 500:
		return "Internal Server Error"
	case 501:
		return "Not Implemented"
	case 502:
		return "Bad Gateway"
	case 503:
		return "Service Unavailable"
	case 504:
		return "Gateway Timeout"
	case 505:
		return "HTTP Version Not Supported"
	case 506:
		return "Variant Also Negotiates"
	case 507:
		return "Insufficient Storage"
	case 508:
		return "Loop Detected"
	case 511:
		return "Network Authentication Required"
	}
	return ""
}
