package conform

import "tidemark.dev/internal/ground/fault"

// Classes of failed operations. Text, not numbers: they stand in saved results.
const (
	ClassRefused   = "refused"        // connection refused
	ClassReset     = "reset"          // connection reset in the middle of an operation
	ClassClosed    = "closed"         // connection closed before the response was complete
	ClassTimeout   = "timeout"        // 30 s without progress
	ClassNetwork   = "network"        // host or network unreachable
	ClassTLS       = "tls"            // handshake or record failure
	ClassMalformed = "malformed"      // response is not HTTP
	ClassStatus    = "status"         // status is not the one due
	ClassLength    = "wrong-length"   // complete response, wrong length
	ClassBytes     = "wrong-bytes"    // body differs from the file
	ClassWrapper   = "wrong-wrapper"  // page around a dynamic answer is wrong
	ClassCookie    = "wrong-cookie"   // cookie is not the one due
	ClassAd        = "wrong-ad"       // ad, weight or expiry flag is not the one due
	ClassTable     = "stale-table"    // answered from a table older than the last Reset
	ClassFiles     = "no-descriptors" // EMFILE or ENFILE in the driver
	ClassPorts     = "no-ports"       // EADDRNOTAVAIL in the driver
	ClassMemory    = "no-memory"      // ENOMEM or ENOBUFS in the driver
)

// OriginOf returns whose fault a class is; Unknown for a class not listed, which counts as ours.
func OriginOf(class string) fault.Origin {
	switch class {
	case ClassRefused, ClassReset, ClassClosed, ClassTimeout, ClassTLS, ClassMalformed, ClassStatus,
		ClassLength, ClassBytes, ClassWrapper, ClassCookie, ClassAd, ClassTable:
		return fault.Target
	case ClassNetwork:
		return fault.Network
	case ClassFiles, ClassPorts, ClassMemory:
		return fault.Driver
	}
	return fault.Unknown
}

// Breaks reports whether one operation of the class already breaks the rules: a complete answer that is not the one
// due. A target that is slow, refuses or resets keeps them.
func Breaks(class string) bool {
	switch class {
	case ClassLength, ClassBytes, ClassWrapper, ClassCookie, ClassAd, ClassTable:
		return true
	}
	return false
}
