// Package pin binds a thread to a processor, and says whether it may be. Linux only.
package pin
